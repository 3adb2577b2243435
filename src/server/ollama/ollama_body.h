// ollama_body.h: bodies of Ollama's /api/chat and /api/generate.
//
// Messages become those of chat templates: `thinking` is reasoning_content, arguments of calls are objects, and calls,
// which have no ids here, are given some, which results of tools get in their order. What only Ollama's own loading has
// (num_ctx, num_gpu ...) is accepted without an effect: the server's flags say it.
// Threads: values and pure functions. Fails: bad_request naming the field.
// Source:  Ollama, docs/api.md; its Python client.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/answer/chat_turn.h"
#include "server/fields/constraint_fields.h"
#include "server/prompt/infill.h"
#include "server/server_options.h"

namespace espalier::server {

// What such a body asks for.
struct OllamaBody {
  enum class Prompt { nothing, conversation, text, infill };
  Prompt prompt = Prompt::nothing;  // nothing: the client wants the model to be loaded
  ChatTurn turn;                    // the conversation
  std::string text;                 // raw
  std::vector<MediaSource> media;   // whose marks a raw text has
  InfillPrompt infill;
  std::vector<TokenId> context;  // of /api/generate: what stands before the conversation
  std::string chat_template;     // that the body brings: only the model's own is accepted

  std::string model;                 // as the client calls it
  std::optional<double> keep_alive;  // seconds that the model stays without use; negative: for ever
  bool stream = true;
  bool thinks = false;  // the body asks for thinking
  SamplingParams sampling;
  ConstraintFields constraint;
  bool logprobs = false;
  int top_logprobs = 0;
  // As the other dialects have them, for treatment(); none can be said here.
  std::string cache_salt, extra_key, user;
  int priority = 0;
  bool background = false;
  std::optional<int> deadline_ms;
};

// `defaults`: what a body that says nothing gets.
Result<OllamaBody> parse_ollama_chat(const Json& body, const ServerOptions& options, const SamplingParams& defaults);
Result<OllamaBody> parse_ollama_generate(const Json& body, const ServerOptions& options,
                                         const SamplingParams& defaults);
std::span<const std::string_view> ollama_field_names();  // of both bodies
std::vector<std::string> unknown_ollama_fields(const Json& body);

// Seconds: a number, or a duration as Go writes it ("1h30m", "-1m", "300ms").
Result<std::optional<double>> read_keep_alive(const Json& body);
// `model`, or `name` as older clients write it; "" when neither is there.
Result<std::string> read_ollama_model(const Json& body);

}  // namespace espalier::server
