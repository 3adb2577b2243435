// ollama_reply.h: the answer of Ollama's /api/chat and /api/generate: lines of JSON, or one object.
//
// A stream has a line for what is new of thinking and text, one for each call of a tool once its arguments are whole
// (they are an object), and a last one with `done`, counts, and durations. Put together they are the whole object.
// Units:   durations in nanoseconds. Order, threads, failures: those of Reply.
// Source:  Ollama, docs/api.md.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "server/delivery/json_writer.h"
#include "server/delivery/reply.h"
#include "text/answer/answer_parser.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier::server {

// What a reply of these routes needs to know.
struct OllamaReplyOptions {
  std::string model;  // as the client calls it
  bool chat = false, stream = true;
  bool logprobs = false;
  bool tells_context = false;  // of /api/generate: all tokens so far, to be sent with the next request
  std::vector<TokenId> prompt;
  AnswerOptions reading;
  const Tokenizer* tokenizer = nullptr;
};

// The Reply of /api/chat and /api/generate.
class OllamaReply final : public Reply {
 public:
  explicit OllamaReply(OllamaReplyOptions options);
  void add(int prompt, TextEvent event, std::string& out) override;
  void finish(std::string& out) override;
  int calls() const override { return parser_ ? parser_->calls() : 0; }

 private:
  // What is not yet told.
  struct News {
    std::string text, thinking;
    std::vector<ToolCall> calls;  // whole
    std::string logprobs;         // entries of a list
    bool empty() const { return text.empty() && thinking.empty() && calls.empty() && logprobs.empty(); }
  };

  void feed(std::string_view text);
  void apply(const std::vector<AnswerEvent>& events);
  void add_logprob(const TokenEvent& token);
  void tell(std::string& out);  // a line, where there is news
  void write_head(JsonWriter& json) const;
  void write_news(JsonWriter& json);
  void write_calls(JsonWriter& json);
  void write_end(JsonWriter& json) const;

  OllamaReplyOptions options_;
  std::optional<AnswerParser> parser_;
  News news_;
  ToolCall call_;  // that is being written
  int calls_ = 0;  // told
  std::vector<TokenId> ids_;
  TextEnd end_;
};

// "2026-01-31T12:00:00.123456789Z"
std::string ollama_time(std::chrono::system_clock::time_point when);

// The reply to a body without a prompt: the model is there.
std::string ollama_loaded(const std::string& model, bool chat, bool unloads);
std::string hex_digest(std::string_view text);  // 64 digits

}  // namespace espalier::server
