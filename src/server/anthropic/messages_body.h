// messages_body.h: a body of /v1/messages, read as a conversation.
//
// Blocks become what chat templates know: text parts, tool_use a call of the assistant's turn, tool_result a turn of the
// tool, thinking the turn's reasoning_content. Pictures and documents are refused.
// Threads: pure functions. Fails: bad_request naming the field.
// Source:  Anthropic's Messages API, version 2023-06-01.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "espalier/sampling.h"
#include "server/answer/chat_turn.h"
#include "server/server_options.h"

namespace espalier::server {

// What /v1/messages asks for.
struct MessagesBody {
  ChatTurn turn;
  SamplingParams sampling;
  std::string model;
  bool stream = false;
  // As the other dialects have them, for treatment(); here only `user` can be said (metadata.user_id).
  std::string cache_salt, extra_key, user;
  int priority = 0;
  bool background = false;
  std::optional<int> deadline_ms;
};

// `defaults`: what a body that says nothing gets. `counts`: nothing is generated, so max_tokens may be missing.
Result<MessagesBody> parse_messages(const Json& body, const ServerOptions& options, const SamplingParams& defaults,
                                    bool counts);
// The conversation of such a body alone.
Result<ChatPrompt> messages_prompt(const Json& body, const ServerOptions& options);
std::span<const std::string_view> messages_field_names();
std::vector<std::string> unknown_messages_fields(const Json& body);

}  // namespace espalier::server
