// stream.h: the results of one request as they come: tokens, log-probabilities, and how each choice ended.
//
// A Stream is the request: dropping it cancels what still runs and gives back tokens, slots and grammar within one
// step. The engine publishes tokens, not text: TextStream (engine/stream/text_stream.h) turns them into text on the
// reader's side.
// Threads: take(), wait() by one reader; cancel() and stop() by anybody; the callback runs on the engine thread.
// Order:   per choice: PromptLogprobs? Token* Finish, nothing after; of what is pooled: Pooled? Finish. Choices interleave.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "espalier/error.h"
#include "espalier/types.h"

namespace espalier {

// Alternatives at one position, as LogprobFields asked for them.
struct Alternatives {
  std::vector<TokenLogprob> top;  // most likely first; ties: lower id first
  std::vector<TokenLogprob> ids;  // in the order asked
};

// One token of one choice.
struct TokenEvent {
  int choice = 0;
  TokenId id = 0;
  double logprob = 0;  // 0 when not asked for
  Alternatives alternatives;
  bool ends = false;                             // an end or stop token: it ends the choice, and its text is not shown
  int cached_tokens = 0;                         // of the prompt, that came from the cache
  std::chrono::steady_clock::time_point made{};  // when its step had sampled, by the engine's clock
};

struct PromptLogprobsEvent {  // one a choice, before its first token; only when asked for
  int choice = 0;
  int start = 0;                           // position of logprobs[0]; at least 1
  std::vector<double> logprobs;            // of prompt tokens [start, prompt length)
  std::vector<Alternatives> alternatives;  // same positions
};

// What a text became, of a request that is pooled: one vector (or the scores of each label), or one of each row.
struct PooledEvent {
  int width = 0;              // of one
  std::vector<float> values;  // [1 or rows][width], as the model's last product gives them
};

// Why a choice ended.
enum class FinishReason { stop, length, abort, error };

struct Usage {  // of one choice, in tokens
  int prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;
  int retractions = 0;
  int disk_tokens = 0;  // of cached_tokens, those that were read from disk while the request waited
  int draft_steps = 0, drafted_tokens = 0,
      accepted_tokens = 0;      // steps that verify drafts (0: none does), drafts, true ones
  int forced_tokens = 0;        // that the constraint left no choice about
  int passes_saved = 0;         // steps of the model that were not needed for them
  bool closed = false;          // completed beyond the asked length (RequestFields::json_closing)
  bool left_open = false;       // not completed, though that was asked for: no short text was found that does
  int image_tokens = 0;         // of the prompt,
  int cached_image_tokens = 0;  // of cached_tokens
  int pictures_computed = 0;  // that the tower ran for this choice; others were found, or another request's are shared
  std::string cache_end;      // why reuse of the cache ended where it did: "whole_key", "diverged", "cold", ...
};

struct Timing {  // seconds since submit()
  double queued = 0, first_token = 0, finished = 0;
};

// The end of one choice.
struct FinishEvent {
  int choice = 0;
  FinishReason reason = FinishReason::stop;
  std::optional<TokenId> matched;  // the end or stop token that ended it; it is the last TokenEvent
  Error error;                     // of reason error, or why it was aborted
  Usage usage;
  Timing timing;
};

using StreamEvent = std::variant<PromptLogprobsEvent, TokenEvent, PooledEvent, FinishEvent>;

class StreamChannel;  // the engine's end

// The reader's end of a request; dropping it cancels what still runs.
class Stream {
 public:
  explicit Stream(std::shared_ptr<StreamChannel> channel);
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;
  ~Stream();  // cancels what has not finished

  const std::string& id() const;

  std::vector<StreamEvent> take();             // all that is there, in order; does not wait
  void take(std::vector<StreamEvent>& into);   // the same, in place of what it held: its memory is used again
  bool wait(std::chrono::milliseconds limit);  // until something is there; false when the limit passed first
  // The callback runs whenever events were added (at once when some wait already). It must be quick and must not call
  // into the stream; it may run once more while the stream is being dropped, so it holds only what it may outlive.
  void on_ready(std::function<void()> callback);
  void stop(int choice);  // this choice needs no further token (a stop string was seen)
  void cancel();          // all choices end with reason abort

 private:
  std::shared_ptr<StreamChannel> channel_;
};

}  // namespace espalier
