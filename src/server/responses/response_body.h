// response_body.h: a body of POST /v1/responses, read.
//
// What stands in it of the conversation (input, instructions, where it goes on) is kept as items; tools, effort and
// form become what chat completions' bodies say, so that one function renders and constrains for both. Sampling fields
// and constraints beyond OpenAI's have the names that they have there.
// Threads: pure functions. Fails: bad_request naming the field; what only OpenAI's own servers can do is refused with
//          code unsupported_parameter.
// Source:  OpenAI's API reference, Responses.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "espalier/sampling.h"
#include "server/fields/constraint_fields.h"
#include "server/fields/field_table.h"
#include "server/server_options.h"

namespace espalier::server {

// What POST /v1/responses asks for.
struct ResponseBody {
  std::string model;
  Json input = Json::array();  // items
  std::string instructions;
  std::string previous, conversation;  // where it goes on; "" = nowhere
  bool store = true, stream = false;
  bool detached = false;       // "background": goes on without its client
  Json chat = Json::object();  // tools, tool_choice, effort: fields of a chat completion's body
  Json echo = Json::object();  // the fields that the answer repeats
  ConstraintFields constraint;
  SamplingParams sampling;
  std::optional<int> max_output_tokens;
  std::optional<int> top_logprobs;
  bool logprobs = false;
  // For treatment(): as the other dialects have them. `background` is the engine's, and not what OpenAI calls so.
  std::string cache_salt, extra_key, user, safety_identifier;
  std::string service_tier = "default";
  int priority = 0;
  bool background = false;
  std::optional<int> deadline_ms;
};

// `defaults`: what a body that says nothing gets. `counts`: nothing is generated.
Result<ResponseBody> parse_response(const Json& body, const ServerOptions& options, const SamplingParams& defaults,
                                    bool counts);
std::span<const std::string_view> response_accepted_names();  // that change nothing
std::vector<std::string> unknown_response_fields(const Json& body);
std::span<const FieldRow<ResponseBody>> response_rows();
// Names of its fields, for the page that describes them.
std::vector<std::string_view> response_field_names();

// {"key": "value"}: up to 16 pairs of 64 and 512 characters. Null: an empty object.
Result<Json> read_metadata(const Json& body);

}  // namespace espalier::server
