// chat.h: POST /v1/chat/completions: body -> request, stream -> messages.
//
// Threads: parse and reply as handler.h and Reply say. Fails: bad_request naming the field as OpenAI's API calls it.
#pragma once

#include "server/answer/chat_turn.h"
#include "server/openai/body_fields.h"
#include "server/openai/openai_reply.h"

namespace espalier::server {

// A chat completion's body, read.
struct ChatBody {
  OpenAiFields common;
  SamplingParams sampling;
  ChatTurn turn;
  std::optional<int> max_tokens, max_completion_tokens;
  bool logprobs = false;
  int top_logprobs = 0;
  bool stream_reasoning = true;
  bool store = false;
};

std::span<const FieldRow<ChatBody>> chat_rows();
std::vector<std::string> unknown_chat_fields(const Json& body);
// `defaults`: what a body that says nothing gets, from the model's files.
Result<ChatBody> parse_chat(const Json& body, const ServerOptions& options, const SamplingParams& defaults);

// The Reply of chat completions.
class ChatReply final : public OpenAiReply {
 public:
  explicit ChatReply(OpenAiReplyOptions options) : OpenAiReply(std::move(options)) {}

 private:
  void add_logprob(Choice& choice, const TokenEvent& token) override;
  void write_opening(JsonWriter& json, const Choice& choice) override;
  bool has_opening() const override { return true; }
  void write_text(JsonWriter& json, const Choice& choice) override;
  void write_message(JsonWriter& json, const Choice& choice);
  void write_logprobs(JsonWriter& json, const Choice& choice) override;
  bool prompt_ids_in_choice() const override { return false; }
  void write_entry(std::string& out, TokenId id, double logprob, const std::vector<TokenLogprob>* top) const;
};

Result<Generation> chat(Call& call);
Result<> add_chat_routes(net::Router& router, Service& service);

}  // namespace espalier::server
