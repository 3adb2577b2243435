#include "server/responses/response_body.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json/json_fields.h"
#include "server/delivery/dialect.h"
#include "server/fields/request_names.h"
#include "server/fields/sampling_fields.h"
#include "server/fields/service_tier.h"
#include "server/responses/items.h"

namespace espalier::server {
namespace {

using B = ResponseBody;

constexpr FieldRow<B> kResponseRows[] = {
    {"model", &B::model, "the served model", "a served name, \"default\" or nothing"},
    {"store", &B::store, "true", "kept, so that it can be read, listed and gone on from"},
    {"stream", &B::stream, "false", "server-sent events"},
    {"background", &B::detached, "false", "answered at once, and made without a client that waits"},
    {"max_output_tokens", &B::max_output_tokens, "to the context limit", "thinking included", {1, 1e9}},
    {"top_logprobs", &B::top_logprobs, "0", "0..20 (--max-logprobs) likeliest tokens at every position", {0, 1e9}},
    kAdapterRow<B>,
    {"cache_salt", &read_short<B, &B::cache_salt, kMostSaltBytes>, "none", "as in chat completions"},
    {"extra_key", &read_short<B, &B::extra_key, kMostSaltBytes>, "none", "as in chat completions"},
    {"priority", &B::priority, "0", "larger runs first under --schedule-policy priority", {-1e9, 1e9}},
    {"user", &read_short<B, &B::user, kMostSaltBytes>, "none", "who is asking, of the key: for --fair-tenants"},
    {"safety_identifier", &read_short<B, &B::safety_identifier, kMostSaltBytes>, "none", "repeated in the answer"},
    {"service_tier", &read_service_tier<B>, "default", "flex: as the engine's background; priority: as priority 1"},
    {"deadline_ms", &B::deadline_ms, "none", "waits at most so many milliseconds to begin", {1, 86'400'000}},
};

constexpr std::span<const FieldRow<B>> kRowsOfResponse = kResponseRows;

// Read here, one by one.
constexpr std::string_view kResponseNames[] = {"input",
                                               "instructions",
                                               "previous_response_id",
                                               "conversation",
                                               "include",
                                               "metadata",
                                               "reasoning",
                                               "text",
                                               "tools",
                                               "tool_choice",
                                               "prompt",
                                               "truncation",
                                               "max_tool_calls",
                                               "parallel_tool_calls",
                                               "context_management",
                                               "special_tokens_in_text",
                                               "chat_template_kwargs",
                                               "max_reasoning_tokens"};
constexpr std::string_view kResponseAccepted[] = {"prompt_cache_key", "prompt_cache_retention", "stream_options",
                                                  "bootstrap_host",   "bootstrap_port",         "bootstrap_room"};

Error unserved(std::string message, std::string field) {
  return unsupported_parameter(std::move(message), std::move(field));
}

// {"type": "function", "name", ...} as chat completions have it.
Result<Json> read_response_tool(const Json& tool, const std::string& place) {
  ESP_TRY(const std::string type, get_string(tool, {"type", place}));
  if (type != "function") {
    return unserved(fmt::format("{}.type is {}, but only \"function\" is supported: this server runs no tools itself",
                                place, in_quotes(type, 40)),
                    place + ".type");
  }
  Json function = Json::object();
  ESP_TRY(function["name"], get_string(tool, {"name", place}));
  for (const char* name : {"description", "parameters", "strict"})
    if (const Json* value = find_field(tool, name)) function[name] = *value;
  return Json{{"type", "function"}, {"function", std::move(function)}};
}

Result<> read_response_tools(const Json& body, B& out) {
  ESP_TRY(const Json* tools, find_array(body, "tools"));
  out.echo["tools"] = tools == nullptr ? Json::array() : *tools;
  out.echo["tool_choice"] = "auto";
  out.echo["parallel_tool_calls"] = true;
  if (tools != nullptr) {
    Json list = Json::array();
    for (std::size_t i = 0; i < tools->size(); ++i) {
      ESP_TRY(Json tool, read_response_tool((*tools)[i], fmt::format("tools[{}]", i)));
      list.push_back(std::move(tool));
    }
    out.chat["tools"] = std::move(list);
  }
  if (const Json* choice = find_field(body, "tool_choice")) {
    if (const Json* type = find_field(*choice, "type");
        type != nullptr && *type != "function" && *type != "allowed_tools") {
      return unserved("tool_choice.type must be \"function\" or \"allowed_tools\": this server runs no tools itself",
                      "tool_choice.type");
    }
    out.chat["tool_choice"] = out.echo["tool_choice"] = *choice;
  }
  ESP_TRY(const auto parallel, find_boolean(body, "parallel_tool_calls"));
  if (parallel) out.chat["parallel_tool_calls"] = out.echo["parallel_tool_calls"] = *parallel;
  ESP_TRY(const auto most, find_integer(body, "max_tool_calls", {1, 1'000'000'000}));
  out.echo["max_tool_calls"] = most ? Json(*most) : Json(nullptr);  // of tools that a server runs
  return success();
}

Result<> read_response_reasoning(const Json& body, B& out) {
  out.echo["reasoning"] = {{"effort", nullptr}, {"summary", nullptr}};
  ESP_TRY(const Json* reasoning, find_object(body, "reasoning"));
  if (reasoning == nullptr) return success();
  out.chat["reasoning"] = *reasoning;
  if (const Json* effort = find_field(*reasoning, "effort")) out.echo["reasoning"]["effort"] = *effort;
  for (const char* name : {"summary", "generate_summary"}) {  // what was thought is told whole
    ESP_TRY(const auto summary, find_string(*reasoning, {name, "reasoning"}));
    if (!summary) continue;
    if (*summary != "auto" && *summary != "concise" && *summary != "detailed") {
      const std::string place = fmt::format("reasoning.{}", name);
      return bad_request(place + " must be auto, concise or detailed", place);
    }
    out.echo["reasoning"]["summary"] = *summary;
  }
  return success();
}

// A schema is text here already (request_limits()); the answer repeats it as what it is.
Json shown_format(Json format) {
  Json* schema = format.contains("schema") ? &format["schema"] : nullptr;
  if (schema == nullptr || !schema->is_string()) return format;
  auto parsed = parse_json(schema->get_ref<const std::string&>());
  if (parsed.ok()) *schema = std::move(parsed).value();
  return format;
}

Result<Json> chat_format(const Json& format) {
  ESP_TRY(const std::string type, get_string(format, {"type", "text.format"}));
  if (type != "json_schema") {
    if (type != "text" && type != "json_object") {
      return bad_request(
          fmt::format("text.format.type is {}; it may be text, json_object or json_schema", in_quotes(type, 40)),
          "text.format.type");
    }
    return Json{{"type", type}};
  }
  const Json* schema = find_field(format, "schema");
  if (schema == nullptr) return bad_request("text.format.schema is missing", "text.format.schema");
  Json named = {{"name", "response"}, {"schema", *schema}};
  for (const char* name : {"name", "strict"})
    if (const Json* value = find_field(format, name)) named[name] = *value;
  return Json{{"type", "json_schema"}, {"json_schema", std::move(named)}};
}

Result<> read_response_text(const Json& body, B& out) {
  out.echo["text"] = {{"format", {{"type", "text"}}}};
  ESP_TRY(const Json* text, find_object(body, "text"));
  if (text == nullptr) return success();
  ESP_TRY(const auto verbosity, find_string(*text, {"verbosity", "text"}));
  if (verbosity) out.chat["verbosity"] = out.echo["text"]["verbosity"] = *verbosity;
  ESP_TRY(const Json* format, find_object(*text, {"format", "text"}));
  if (format == nullptr) return success();
  out.echo["text"]["format"] = shown_format(*format);
  if (out.constraint.constraint.kind != Constraint::Kind::none) {
    return bad_request(fmt::format("text.format and {} both ask for a form; send one", out.constraint.place),
                       "text.format");
  }
  Json asked = Json::object();
  ESP_TRY(asked["response_format"], chat_format(*format));
  if (auto read = read_fields(asked, openai_constraint_rows(), out.constraint); !read) {
    const Alias names[] = {{"response_format.json_schema", "text.format"}, {"response_format", "text.format"}};
    return renamed(read.error(), names);
  }
  if (out.constraint.constraint.kind != Constraint::Kind::none) out.constraint.place = "text.format";
  return success();
}

Result<> read_response_include(const Json& body, B& out) {
  ESP_TRY(const Json* include, find_array(body, "include"));
  if (include == nullptr) return success();
  constexpr std::string_view known[] = {"message.output_text.logprobs",
                                        "reasoning.encrypted_content",  // thoughts are told in plain words
                                        "web_search_call.action.sources", "web_search_call.results",
                                        "code_interpreter_call.outputs",  "computer_call_output.output.image_url",
                                        "file_search_call.results",       "message.input_image.image_url"};
  for (std::size_t i = 0; i < include->size(); ++i) {
    const std::string place = fmt::format("include[{}]", i);
    ESP_TRY(const std::string name, as_string((*include)[i], place));
    if (std::ranges::find(known, name) == std::end(known))
      return bad_request(fmt::format("{} is {}, which is no part of a response", place, in_quotes(name, 80)), place);
    out.logprobs |= name == known[0];
  }
  return success();
}

// Where it goes on, and what is said now.
Result<> read_response_input(const Json& body, const ServerOptions& options, B& out) {
  ESP_TRY(const auto instructions, find_string(body, "instructions"));
  ESP_TRY(const auto previous, find_string(body, "previous_response_id"));
  out.instructions = instructions.value_or("");
  out.previous = previous.value_or("");
  if (const Json* conversation = find_field(body, "conversation")) {
    if (conversation->is_string()) {
      out.conversation = conversation->get<std::string>();
    } else {
      ESP_TRY(out.conversation, get_string(*conversation, {"id", "conversation"}));
    }
    if (!out.previous.empty())
      return bad_request("previous_response_id and conversation exclude each other", "previous_response_id");
  }
  const Json* input = find_field(body, "input");
  if (input != nullptr) {
    ESP_TRY(out.input, read_items(*input, "input", options));
  }
  if (out.input.empty() && out.previous.empty() && out.conversation.empty() && out.instructions.empty())
    return bad_request("input is missing", "input");
  out.echo["instructions"] = instructions ? Json(*instructions) : Json(nullptr);
  out.echo["previous_response_id"] = out.previous.empty() ? Json(nullptr) : Json(out.previous);
  if (!out.conversation.empty()) out.echo["conversation"] = {{"id", out.conversation}};
  return success();
}

Result<> refuse_in_response(const Json& body, B& out) {
  if (const Json* prompt = find_field(body, "prompt"); prompt != nullptr)
    return unserved("prompt is not supported: this server stores no prompt templates; send instructions and input",
                    "prompt");
  if (const Json* managed = find_field(body, "context_management"); managed != nullptr && !managed->empty())
    return unserved("context_management is not supported: a conversation is never shortened; shorten it yourself",
                    "context_management");
  ESP_TRY(const auto truncation, find_string(body, "truncation"));
  if (truncation == "auto")
    return unserved("truncation can only be \"disabled\": a prompt is never shortened; shorten it yourself",
                    "truncation");
  if (truncation.value_or("disabled") != "disabled")
    return bad_request("truncation must be \"disabled\"", "truncation");
  out.echo["truncation"] = "disabled";
  ESP_CHECK(check_refused(body, refused_sampling_fields()));
  return check_refused(body, refused_openai_fields());
}

Result<> check_response(const B& body, const ServerOptions& options) {
  if (body.sampling.n != 1) return bad_request("n must be 1: a response is one", "n");
  ESP_CHECK(check_logprobs_asked("top_logprobs", body.top_logprobs.value_or(0), options));
  if (body.detached && !body.store)
    return bad_request("background needs store: without it nobody could ask for the response", "background");
  if (!body.conversation.empty() && !body.store)
    return bad_request("conversation needs store: what is said becomes part of it", "store");
  return success();
}

void echo_rest(B& body) {
  Json& echo = body.echo;
  const auto number = [](const auto& value) { return value ? Json(*value) : Json(nullptr); };
  echo["background"] = body.detached;
  echo["max_output_tokens"] = number(body.max_output_tokens);
  echo["store"] = body.store;
  echo["temperature"] = body.sampling.temperature;
  echo["top_logprobs"] = body.top_logprobs.value_or(0);
  echo["top_p"] = body.sampling.top_p;
  echo["service_tier"] = body.service_tier;
  echo["user"] = body.user.empty() ? Json(nullptr) : Json(body.user);
  echo["safety_identifier"] = body.safety_identifier.empty() ? Json(nullptr) : Json(body.safety_identifier);
}

}  // namespace

Result<Json> read_metadata(const Json& body) {
  ESP_TRY(const Json* metadata, find_object(body, "metadata"));
  if (metadata == nullptr) return Json(Json::object());
  constexpr std::size_t kMostPairs = 16, kMostKey = 64 * 4, kMostValue = 512 * 4;  // bytes of characters
  if (metadata->size() > kMostPairs)
    return bad_request(fmt::format("metadata has {} pairs, but at most 16 are accepted", metadata->size()), "metadata");
  for (const auto& [name, value] : metadata->get_ref<const Json::object_t&>()) {
    if (!value.is_string()) return bad_request("metadata must have texts as values", "metadata");
    if (name.size() > kMostKey || value.get_ref<const std::string&>().size() > kMostValue)
      return bad_request("metadata has a key of more than 64 or a value of more than 512 characters", "metadata");
  }
  return *metadata;
}

std::vector<std::string_view> response_field_names() {
  std::vector<std::string_view> names;
  for (const auto& row : kResponseRows) names.push_back(row.name);
  names.insert(names.end(), std::begin(kResponseNames), std::end(kResponseNames));
  names.insert(names.end(), std::begin(kResponseAccepted), std::end(kResponseAccepted));
  return names;
}

std::span<const FieldRow<ResponseBody>> response_rows() {
  return kRowsOfResponse;
}

std::span<const std::string_view> response_accepted_names() {
  return kResponseAccepted;
}

std::vector<std::string> unknown_response_fields(const Json& body) {
  static const KnownNames known = KnownNames()
                                      .with(kRowsOfResponse)
                                      .with(std::span<const std::string_view>(kResponseNames))
                                      .with(std::span<const std::string_view>(kResponseAccepted))
                                      .with(openai_constraint_rows())
                                      .with(openai_sampling_rows())
                                      .with(refused_sampling_fields())
                                      .with(refused_openai_fields());
  return known.unknown_in(body);
}

Result<ResponseBody> parse_response(const Json& body, const ServerOptions& options, const SamplingParams& defaults,
                                    bool counts) {
  ResponseBody out;
  out.sampling = defaults;
  ESP_CHECK(refuse_unread_constraints(body, unknown_response_fields(body)));
  ESP_CHECK(refuse_in_response(body, out));
  ESP_CHECK(read_fields(body, kRowsOfResponse, out));
  ESP_CHECK(read_fields(body, openai_sampling_rows(), out.sampling));
  ESP_CHECK(read_fields(body, openai_constraint_rows(), out.constraint));
  ESP_CHECK(read_response_input(body, options, out));
  ESP_CHECK(read_response_tools(body, out));
  ESP_CHECK(read_response_reasoning(body, out));
  ESP_CHECK(read_response_text(body, out));
  ESP_CHECK(read_response_include(body, out));
  ESP_TRY(out.echo["metadata"], read_metadata(body));
  for (const char* name : {"special_tokens_in_text", "chat_template_kwargs", "max_reasoning_tokens"})
    if (const Json* value = find_field(body, name)) out.chat[name] = *value;
  if (!counts) ESP_CHECK(check_response(out, options));
  out.sampling.max_new_tokens = out.max_output_tokens;
  echo_rest(out);
  return out;
}

}  // namespace espalier::server
