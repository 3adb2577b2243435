// completions.h: POST /v1/completions: body -> requests, streams -> text completions.
//
// Threads: parse and reply as Reply and handler.h say. Fails: bad_request naming the field as OpenAI's API calls it.
#pragma once

#include "server/openai/body_fields.h"
#include "server/openai/openai_reply.h"
#include "server/prompt/prompt.h"

namespace espalier::server {

// A completion's body, read.
struct CompletionBody {
  OpenAiFields common;
  SamplingParams sampling;
  PromptList prompts;
  bool echo = false;
  bool add_special_tokens = true;
  SpecialAsText special_as_text;
  int logprobs = -1;  // -1: none wanted
};

std::span<const FieldRow<CompletionBody>> completion_rows();
std::vector<std::string> unknown_completion_fields(const Json& body);
Result<CompletionBody> parse_completion(const Json& body, const ServerOptions& options);

// The Reply of completions, with echoed prompts where asked for.
class CompletionReply final : public OpenAiReply {
 public:
  // `echoes`: by prompt, the text that goes before the output; empty list: no echo.
  CompletionReply(OpenAiReplyOptions options, std::vector<std::string> echoes, int top);

 private:
  void begin_choice(Choice& choice) override;
  void add_prompt_logprobs(Choice& choice, const PromptLogprobsEvent& event) override;
  void add_logprob(Choice& choice, const TokenEvent& token) override;
  void write_text(JsonWriter& json, const Choice& choice) override { json.field("text", choice.text); }
  void write_logprobs(JsonWriter& json, const Choice& choice) override;
  bool prompt_ids_in_choice() const override { return true; }
  void add_position(Choice& choice, TokenId id, const double* logprob, const Alternatives* alternatives, bool output);

  std::vector<std::string> echoes_;
  int top_;
};

Result<Generation> complete(Call& call);
Result<> add_completion_routes(net::Router& router, Service& service);

}  // namespace espalier::server
