// openai_reply.h: what the replies of /v1/completions and /v1/chat/completions have in common: choices that grow,
// chunks, usage. The two differ in how text and log-probabilities of a choice are written.
//
// The pieces of a stream are cut from the same state that a whole reply is made of, so their concatenation is the
// whole. Order, threads, failures: those of Reply.
// Source:  OpenAI's API reference; SGLang's and vLLM's additions (matched_stop, token_ids, metadata).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/delivery/json_writer.h"
#include "server/delivery/reply.h"
#include "server/delivery/token_name.h"
#include "server/prompt/media_prompt.h"
#include "text/answer/answer_parser.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier::server {

// Ids, names and switches of an OpenAI reply.
struct OpenAiReplyOptions {
  std::string id, model, weight_version, fingerprint;
  std::string object, chunk_object;  // "chat.completion", "chat.completion.chunk"
  std::int64_t created = 0;          // seconds since 1970
  bool stream = false, include_usage = false, continuous_usage = false;
  bool logprobs = false, prompt_logprobs = false;
  bool token_ids = false;
  bool timings = false;
  bool predicted = false;                        // the body brought a prediction
  std::string service_tier;                      // "": not asked for
  int n = 1;                                     // choices of each prompt
  int best = 0;                                  // only so many of them are told, likeliest first; 0 = all
  std::vector<std::vector<TokenId>> prompt_ids;  // by prompt
  std::vector<ImageTokens> image_tokens;         // by prompt; empty: no prompt has pictures
  const Tokenizer* tokenizer = nullptr;          // may be null
  AnswerOptions reading;                         // thinking and calls are told apart from the text
  bool only_calls = false;                       // calls must come: what is left of one that was cut off is no answer
  bool tells_reasoning = false;                  // a whole reply has reasoning_content, perhaps null
  bool stream_reasoning = true;                  // in a stream as it comes; else in one piece
};

// A call of a tool by one choice.
struct ChoiceCall {
  std::string id, name, arguments;
};

// Log-probabilities of a choice as the insides of JSON lists; each dialect fills those that it has.
struct LogprobLists {
  std::string entries;                                   // chat: one object a token
  std::string tokens, token_logprobs, top, text_offset;  // completions: one value a token in each
  void clear() { *this = {}; }
};

// What is new of a call.
struct CallPiece {
  int index = 0;
  bool begins = false;
  std::string arguments;
};

// The common half of ChatReply and CompletionReply: chunks, ends and usage.
class OpenAiReply : public Reply {
 public:
  explicit OpenAiReply(OpenAiReplyOptions options);
  void add(int prompt, TextEvent event, std::string& out) override;
  void finish(std::string& out) override;
  int calls() const override { return calls_; }

 protected:
  struct Choice {
    int index = 0, prompt = 0;
    bool begun = false;
    bool prompt_told = false;           // prompt_token_ids went out
    bool prompt_logprobs_told = false;  // add_prompt_logprobs() was called
    std::string text;                   // not yet written
    std::string reasoning;              // likewise
    std::vector<ChoiceCall> calls;      // all so far
    std::vector<CallPiece> pending;     // not yet written
    std::optional<AnswerParser> parser;
    int reasoning_tokens = 0;
    LogprobLists logprobs;     // not yet written
    std::vector<TokenId> ids;  // not yet written
    int offset = 0;            // characters of the text so far
    int tokens = 0;
    double logprob_sum = 0;
    bool ended = false;
    FinishReason reason = FinishReason::stop;
    std::optional<TokenId> matched_token;
    std::optional<std::string> matched_string;
    Usage usage;
    Timing timing;
  };

  const OpenAiReplyOptions& options() const { return options_; }
  bool tells_reasoning(const Choice& choice) const {  // in the next chunk
    return !choice.reasoning.empty() && (options_.stream_reasoning || choice.ended || !choice.parser->thinks());
  }
  virtual void begin_choice(Choice&) {}  // before anything else of it
  // Called once for each choice when prompt_logprobs is set; with an empty event when the engine had nothing to tell.
  virtual void add_prompt_logprobs(Choice&, const PromptLogprobsEvent&) {}
  virtual void add_logprob(Choice& choice, const TokenEvent& token) = 0;
  virtual void write_opening(JsonWriter&, const Choice&) {}  // the first chunk of a choice, where there is one
  virtual bool has_opening() const { return false; }
  virtual void write_text(JsonWriter& json, const Choice& choice) = 0;      // "text": ... or "message" / "delta": ...
  virtual void write_logprobs(JsonWriter& json, const Choice& choice) = 0;  // the value of "logprobs"
  virtual bool prompt_ids_in_choice() const = 0;

 private:
  Choice& choice_of(int prompt, int choice);
  void begin(Choice& choice, std::string& out);
  void tell_prompt_logprobs(Choice& choice, const PromptLogprobsEvent& event);
  void add_text(Choice& choice, std::string_view text);
  void apply(Choice& choice, const std::vector<AnswerEvent>& events);
  void on_token(Choice& choice, const TextDelta& delta, std::string& out);
  void on_end(Choice& choice, TextEnd end, std::string& out);
  void write_head(JsonWriter& json, const std::string& object) const;
  void write_choice(JsonWriter& json, Choice& choice, bool opening);
  void write_chunk(std::string& out, Choice& choice, bool opening = false);
  std::vector<Choice*> chosen();  // what a whole reply tells, numbered anew where it is not all
  struct Counts {
    int prompt = 0, cached = 0, completion = 0, reasoning = 0;
    int drafted = 0, accepted = 0;      // of a prediction
    int images = 0, cached_images = 0;  // tokens
  };
  Counts usage_of(const Choice& choice) const;
  Counts usage_of_all() const;
  void count_images(Counts& counts, int prompt, int cached) const;
  void write_usage(JsonWriter& json, const Counts& counts) const;
  void write_timings(JsonWriter& json) const;

  OpenAiReplyOptions options_;
  std::string chunk_head_;       // of every event of a stream, up to its choices
  std::vector<Choice> choices_;  // by index: prompt * n + choice
  int calls_ = 0;                // of tools, of all choices
};

}  // namespace espalier::server
