// reply.h: the events of a request's streams as the body of one dialect, streamed or whole.
//
// A request may hold several prompts, each with its own stream; a stream may hold several choices.
// Order:   (add | settle)* (next (add | settle)*)* conclude finish, or failed at any time instead. add() comes in the order of each stream's events; streams
//          interleave. Threads: one (the notifier's).
// Fails:   never: a stream that ended with an error does not reach the reply.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/stream/text_stream.h"
#include "net/http/error_body.h"

namespace espalier::server {

// Formats the events of one request for one dialect.
class Reply {
 public:
  virtual ~Reply() = default;
  // A streamed reply appends server-sent events to `out` as they become due; a whole one appends nothing.
  virtual void add(int prompt, TextEvent event, std::string& out) = 0;
  // Nothing more is known now: what add() kept back to join it with what might follow at once goes out.
  virtual void settle(std::string&) {}
  // Calls of tools in the answer so far.
  virtual int calls() const { return 0; }
  // Every choice has ended: a request that goes on from there, whose events come with the next number as their prompt.
  virtual Result<std::optional<Request>> next() { return std::optional<Request>(); }
  // Every choice of every prompt has ended: what has to be done before anybody is told so. An Error is answered instead.
  virtual Result<> conclude() { return success(); }
  // What a stream that has begun ends with when its request fails, instead of the dialect's own words; told once, and of
  // every failure. A client that leaves is none.
  virtual std::optional<std::string> failed(const net::HttpError&) { return std::nullopt; }
  // Every choice of every prompt has ended: the last events without "[DONE]", or the whole body.
  virtual void finish(std::string& out) = 0;
};

// What the log line, the headers of an answer and its trace tell.
struct ReplySummary {
  int prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;
  std::string cache_end;            // why reuse of the cache ended where it did (Usage::cache_end), of the first choice
  std::vector<double> call_begins;  // of the calls of tools, in seconds since the submission
  std::string finish_reason;        // of the first choice
  std::string error_code;           // when it failed
  Timing timing;                    // of the choice that took longest
};

const char* to_string(FinishReason reason);

}  // namespace espalier::server
