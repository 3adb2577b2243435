#include "server/ollama/ollama_body.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/json/json_fields.h"
#include "server/fields/llama_fields.h"
#include "server/fields/sampling_fields.h"
#include "server/ollama/ollama_messages.h"

namespace espalier::server {
namespace {

using B = OllamaBody;

constexpr std::string_view kBodyNames[] = {"model",    "name",     "prompt",   "suffix",   "system",       "context",
                                           "raw",      "images",   "messages", "tools",    "think",        "format",
                                           "options",  "template", "stream",   "logprobs", "top_logprobs", "keep_alive",
                                           "truncate", "shift",    "lora_path"};
// Of the options: what loading a model takes, and how a full context is shifted.
constexpr std::string_view kLoading[] = {"num_predict", "num_ctx",    "num_batch",  "num_gpu",    "main_gpu",
                                         "low_vram",    "f16_kv",     "logits_all", "vocab_only", "use_mmap",
                                         "use_mlock",   "num_thread", "numa",       "num_keep",   "embedding_only"};

// Unlike llama.cpp's n_predict, 0 is no limit, either.
Result<> read_num_predict(const Json& options, SamplingParams& out) {
  const Json* length = find_field(options, "num_predict");
  if (length == nullptr) return success();
  ESP_CHECK(read_llama_length(out, *length, "options.num_predict"));
  if (out.max_new_tokens == 0) out.max_new_tokens.reset();
  return success();
}

Result<> read_options(const Json& body, B& out) {
  ESP_TRY(const Json* options, find_object(body, "options"));
  if (options == nullptr) return success();
  ESP_CHECK(read_fields(*options, llama_sampling_rows(), out.sampling, "options"));
  return read_num_predict(*options, out.sampling);
}

bool is_empty_text(const Json& value) {
  return value.is_string() && value.get_ref<const std::string&>().empty();
}

// "json", or a schema, which is the text that it is (constraint_fields.h).
Result<> read_format(const Json& body, B& out) {
  const Json* format = find_field(body, "format");
  if (format == nullptr || is_empty_text(*format)) return success();
  Json asked = Json::object();
  if (*format == "json")
    asked["response_format"] = {{"type", "json_object"}};
  else if (format->is_object() || (format->is_string() && format->get_ref<const std::string&>().starts_with('{')))
    asked["json_schema"] = *format;
  else
    return bad_request("format must be \"json\" or a JSON schema", "format");
  ESP_CHECK(read_fields(asked, openai_constraint_rows(), out.constraint));
  out.constraint.place = "format";
  return success();
}

// One number with its unit at the front of `text`, which it takes away; nothing where there is none.
std::optional<double> take_duration(std::string_view& text) {
  struct Unit {
    std::string_view name;
    double seconds;
  };
  static constexpr Unit kUnits[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}};
  double number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (failed != std::errc() || text.front() == '-') return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  for (const Unit& unit : kUnits) {
    if (!text.starts_with(unit.name)) continue;
    text.remove_prefix(unit.name.size());
    return number * unit.seconds;
  }
  return text.empty() ? std::optional(number) : std::nullopt;  // seconds
}

std::optional<double> duration_seconds(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty()) return std::nullopt;
  double sum = 0;
  while (!text.empty()) {
    const auto part = take_duration(text);
    if (!part) return std::nullopt;
    sum += *part;
  }
  return negative ? -sum : sum;
}

Result<> read_shared(const Json& body, const ServerOptions& options, B& out) {
  ESP_TRY(out.model, read_ollama_model(body));
  ESP_TRY(const auto stream, find_boolean(body, "stream"));
  ESP_TRY(const auto logprobs, find_boolean(body, "logprobs"));
  ESP_TRY(const auto top, find_integer(body, "top_logprobs", {0, 1'000'000}));
  out.stream = stream.value_or(true);
  out.logprobs = logprobs.value_or(false);
  out.top_logprobs = static_cast<int>(top.value_or(0));
  ESP_CHECK(check_logprobs_asked("top_logprobs", out.top_logprobs, options));
  if (!out.logprobs) out.top_logprobs = 0;
  ESP_TRY(out.keep_alive, read_keep_alive(body));
  ESP_CHECK(read_format(body, out));
  return read_options(body, out);
}

// true, false, or how much.
Result<> read_think(const Json& body, B& out, Json& chat) {
  const Json* think = find_field(body, "think");
  if (think == nullptr || is_empty_text(*think)) return success();
  if (think->is_boolean()) {
    out.thinks = think->get<bool>();
    chat["thinking"] = *think;
    return success();
  }
  if (!think->is_string()) return bad_request("think must be true, false, \"low\", \"medium\" or \"high\"", "think");
  out.thinks = *think != "none";
  chat["reasoning_effort"] = *think;
  return success();
}

Result<> read_turn(const Json& chat, const ServerOptions& options, B& out) {
  out.prompt = B::Prompt::conversation;
  auto prompt = parse_chat_prompt(chat, options);
  if (!prompt.ok()) {
    Error error = std::move(prompt).error();
    if (error.field == "reasoning_effort")
      error = bad_request("think must be true, false, \"low\", \"medium\" or \"high\"", "think");
    return error;
  }
  out.turn.prompt = std::move(prompt).value();
  return success();
}

Result<> read_infill(const Json& body, std::string suffix, B& out) {
  ESP_TRY(auto prefix, find_string(body, "prompt"));
  out.prompt = B::Prompt::infill;
  out.infill.prefix = prefix.value_or("");
  out.infill.suffix = std::move(suffix);
  return success();
}

// Only a prompt stands by itself, with its own marks of pictures.
Result<> read_raw(const Json& body, B& out) {
  if (const Json* images = find_field(body, "images")) {
    ESP_TRY(out.media, read_media_list(*images, MediaSource::Kind::picture, "images"));
  }
  for (const char* name : {"system", "template", "context"}) {
    const Json* value = find_field(body, name);
    if (value != nullptr && asks_for_something(*value))
      return bad_request(fmt::format("raw mode does not support template, system, or context, but {} is there", name),
                         name);
  }
  ESP_TRY(out.text, get_string(body, "prompt"));
  out.prompt = B::Prompt::text;
  return success();
}

}  // namespace

Result<std::optional<double>> read_keep_alive(const Json& body) {
  const Json* keep = find_field(body, "keep_alive");
  if (keep == nullptr) return std::optional<double>();
  std::optional<double> seconds;
  if (keep->is_number()) seconds = keep->get<double>();
  if (keep->is_string()) seconds = duration_seconds(keep->get_ref<const std::string&>());
  if (!seconds) return bad_request("keep_alive must be a number of seconds or a duration (\"5m\")", "keep_alive");
  return seconds;
}

Result<std::string> read_ollama_model(const Json& body) {
  ESP_TRY(auto model, find_string(body, "model"));
  if (model && !model->empty()) return std::move(*model);
  ESP_TRY(auto name, find_string(body, "name"));
  return name.value_or("");
}

Result<OllamaBody> parse_ollama_chat(const Json& body, const ServerOptions& options, const SamplingParams& defaults) {
  OllamaBody out;
  out.sampling = defaults;
  ESP_CHECK(read_shared(body, options, out));
  const Json* messages = find_field(body, "messages");
  if (messages == nullptr || (messages->is_array() && messages->empty())) return out;
  Json chat = Json::object();
  ESP_TRY(chat["messages"], read_ollama_messages(*messages));
  if (const Json* tools = find_field(body, "tools")) chat["tools"] = *tools;
  ESP_CHECK(read_think(body, out, chat));
  go_on_with_last_turn(chat);
  ESP_CHECK(read_turn(chat, options, out));
  return out;
}

Result<OllamaBody> parse_ollama_generate(const Json& body, const ServerOptions& options,
                                         const SamplingParams& defaults) {
  OllamaBody out;
  out.sampling = defaults;
  ESP_CHECK(read_shared(body, options, out));
  ESP_TRY(auto suffix, find_string(body, "suffix"));
  ESP_TRY(const auto prompt, find_string(body, "prompt"));
  ESP_TRY(const auto system, find_string(body, "system"));
  ESP_TRY(const auto raw, find_boolean(body, "raw"));
  ESP_TRY(const auto source, find_string(body, "template"));
  const bool fills = suffix && !suffix->empty();
  Json chat = Json::object();
  ESP_CHECK(read_think(body, out, chat));
  if (prompt.value_or("").empty() && !fills) return out;
  if (fills) {
    if (const Json* images = find_field(body, "images"); images != nullptr && asks_for_something(*images))
      return bad_request("images do not go with suffix", "images", "unsupported_parameter");
    ESP_CHECK(read_infill(body, std::move(*suffix), out));
    return out;
  }
  if (raw.value_or(false)) {
    ESP_CHECK(read_raw(body, out));
    return out;
  }
  out.chat_template = source.value_or("");
  if (const Json* context = find_field(body, "context")) {
    ESP_TRY(out.context, as_token_ids(*context, "context"));
  }
  chat["messages"] = Json::array();
  if (system && !system->empty()) chat["messages"].push_back({{"role", "system"}, {"content", *system}});
  Json content = *prompt;
  ESP_CHECK(add_pictures(body, {}, content));
  chat["messages"].push_back({{"role", "user"}, {"content", std::move(content)}});
  ESP_CHECK(read_turn(chat, options, out));
  return out;
}

std::span<const std::string_view> ollama_field_names() {
  return kBodyNames;
}

std::vector<std::string> unknown_ollama_fields(const Json& body) {
  static const KnownNames known = KnownNames().with(std::span<const std::string_view>(kBodyNames));
  static const KnownNames known_options = KnownNames()
                                              .with(llama_sampling_rows())
                                              .with(llama_accepted_names())
                                              .with(std::span<const std::string_view>(kLoading));
  std::vector<std::string> unknown = known.unknown_in(body);
  if (const Json* options = find_field(body, "options"))
    for (const std::string& name : known_options.unknown_in(*options)) unknown.push_back("options." + name);
  return unknown;
}

}  // namespace espalier::server
