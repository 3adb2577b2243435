#include "server/native/generate_body.h"

#include <fmt/format.h>

namespace espalier::server {
namespace {

using I = GenerateItem;

constexpr int kDefaultTokens = 128;

const KnownNames& sampling_names() {
  static const KnownNames known = KnownNames()
                                      .with(native_sampling_rows())
                                      .with(native_constraint_rows())
                                      .with(refused_sampling_fields())
                                      .with({"stream_interval", "custom_params", "guided_decoding_backend"});
  return known;
}

Result<> read_sampling(I& out, const Json& value, std::string_view place) {
  if (!value.is_object()) return bad_request(fmt::format("{} must be an object", place), std::string(place));
  ESP_CHECK(check_refused(value, refused_sampling_fields(), place));
  ESP_CHECK(refuse_unread_constraints(value, sampling_names().unknown_in(value), place));
  out.sampling.max_new_tokens = kDefaultTokens;
  // null is not the default here but "to the context limit".
  const auto& fields = value.get_ref<const Json::object_t&>();
  const auto length = fields.find("max_new_tokens");
  if (length != fields.end() && length->second.is_null()) out.sampling.max_new_tokens.reset();
  ESP_CHECK(read_fields(value, native_constraint_rows(), out.constraint, place));
  return read_fields(value, native_sampling_rows(), out.sampling, place);
}

Result<> read_session(I& out, const Json& value, std::string_view place) {
  if (!value.is_object()) return bad_request(fmt::format("{} must be an object", place), std::string(place));
  SessionParams params;
  ESP_TRY(const auto id, find_string(value, {"id", place}));
  ESP_TRY(const auto rid, find_string(value, {"rid", place}));
  ESP_TRY(const auto offset, find_integer(value, {"offset", place}, {-1'000'000'000, 1'000'000'000}));
  ESP_TRY(const auto replace, find_boolean(value, {"replace", place}));
  ESP_TRY(const auto drop, find_boolean(value, {"drop_previous_output", place}));
  if (!id || id->empty())
    return bad_request(fmt::format("{}.id is missing: open a session first", place), fmt::format("{}.id", place));
  out.session = SessionParams{*id, rid.value_or(""), static_cast<int>(offset.value_or(0)), replace.value_or(false),
                              drop.value_or(false)};
  return success();
}

constexpr FieldRow<I> kRows[] = {
    {"sampling_params", &read_sampling, "{}", "see the table of sampling parameters"},
    {"rid", &read_short<I, &I::rid, kMostIdBytes>, "made up",
     "the request's id; of a batch given as one string: a prefix, \"_0\", \"_1\", ... follow"},
    {"cache_salt", &read_short<I, &I::cache_salt, kMostSaltBytes>, "none",
     "requests of different salts share no cached prefix"},
    {"extra_key", &read_short<I, &I::extra_key, kMostSaltBytes>, "none", "the same; both count"},
    kAdapterRow<I>,
    {"priority", &I::priority, "0", "larger runs first under --schedule-policy priority", {-1e9, 1e9}},
    {"user", &read_short<I, &I::user, kMostSaltBytes>, "none", "who is asking, of the key: for --fair-tenants"},
    {"background", &I::background, "false", "runs only when nothing else waits, and gives way to what comes"},
    {"deadline_ms", &I::deadline_ms, "none", "waits at most so many milliseconds to begin, else 408", {1, 86'400'000}},
    {"return_logprob", &I::return_logprob, "false",
     "log-probabilities of the output, and of the prompt from logprob_start_len"},
    {"return_text_in_logprobs", &I::return_text, "false", "the third element of entries is text instead of null"},
    {"logprob_start_len",
     &I::logprob_start_len,
     "-1",
     "first prompt position to report; -1 = only the output",
     {-1, 1e9}},
    {"top_logprobs_num",
     &I::top_logprobs_num,
     "0",
     "likeliest tokens at every position, up to the vocabulary",
     {0, 1e9}},
    {"token_ids_logprob", &I::token_ids_logprob, "none", "ids to report at every position"},
    {"require_reasoning", &I::require_reasoning, "false",
     "the constraint begins behind the model's thinking, as --reasoning-parser knows it"},
    {"special_tokens_in_text", &read_special_tokens<I, &I::special_as_text>, "special", kSpecialTokensMeaning},
    {"session_params", &read_session, "none", "id, rid, offset, replace, drop_previous_output: a turn of a session"},
};

constexpr std::string_view kAccepted[] = {
    "session_id",     "log_metrics",    "no_logs",        "custom_labels",  "modalities",   "custom_params",
    "bootstrap_host", "bootstrap_port", "bootstrap_room", "routed_dp_rank", "return_bytes", "guided_decoding_backend"};

// Whether `value` of a batch holds one value per prompt. token_ids_logprob is itself a list of ids.
bool is_per_item(const FieldRow<I>& row, const Json& value) {
  if (!value.is_array()) return false;
  if (row.name != "token_ids_logprob") return true;
  return !value.empty() && (value.front().is_array() || value.front().is_null());
}

// The compile mode of SGLang's front ends up to 0.4 says so of what is not set (a comma in its defaults).
bool is_list_of_null(const Json& value) {
  return value.is_array() && value.size() == 1 && value.front().is_null();
}

Result<> read_item(const Json& body, I& item, std::size_t i, std::size_t count, bool is_batch) {
  for (const auto& row : generate_item_rows()) {
    const Json* value = find_field(body, row.name);
    if (value == nullptr || (!is_batch && is_list_of_null(*value))) continue;
    std::string place(row.name);
    if (is_batch && is_per_item(row, *value)) {
      if (value->size() != count) {
        return bad_request(fmt::format("{} has {} entries for {} prompts; send one value for all, or one per prompt",
                                       place, value->size(), count),
                           place);
      }
      place += fmt::format("[{}]", i);
      value = &(*value)[i];
      if (value->is_null()) continue;
    }
    ESP_CHECK(std::visit(FieldStore<I>{item, *value, place, row.range}, row.target));
  }
  return success();
}

bool asks_the_same(const ConstraintFields& a, const ConstraintFields& b) {
  return a.constraint == b.constraint && a.flexible_whitespace == b.flexible_whitespace &&
         a.json_closing == b.json_closing;
}

// What SGLang's front ends ask before a fork or a select, also where nothing was said yet.
bool only_prepares(const GenerateItem& item, bool stream) {
  return item.sampling.max_new_tokens == 0 && item.sampling.n == 1 && !item.return_logprob && !stream &&
         !item.session && item.constraint.choices_method.empty();
}

Result<> check_empty_text(const GenerateItem& item, bool stream) {
  const auto* text = std::get_if<std::string>(&item.prompt);
  if (text == nullptr || !text->empty() || only_prepares(item, stream)) return success();
  return bad_request("text is empty; it needs at least one character, unless nothing is asked (max_new_tokens 0)",
                     "text");
}

Result<PromptList> read_prompts(const Json& body, const ServerOptions& options) {
  const Json* text = find_field(body, "text");
  const Json* ids = find_field(body, "input_ids");
  if ((text == nullptr) == (ids == nullptr)) {
    return bad_request(
        text ? "text and input_ids are both there; send one of them" : "the prompt is missing; send text or input_ids",
        text ? "input_ids" : "text");
  }
  if (text != nullptr && text->is_string() && text->get_ref<const std::string&>().empty()) {
    return PromptList{{Prompt(std::string())}, false};  // check_empty_text() decides, when all is read
  }
  if (text != nullptr) return parse_prompts(*text, "text", options.max_prompts, PromptKind::text);
  return parse_prompts(*ids, "input_ids", options.max_prompts, PromptKind::ids);
}

}  // namespace

std::span<const FieldRow<GenerateItem>> generate_item_rows() {
  return kRows;
}

Result<> read_sampling_params(const Json& value, std::string_view place, GenerateItem& out) {
  out.sampling.max_new_tokens = kDefaultTokens;
  return read_sampling(out, value, place);
}

Result<> read_common_fields(const Json& body, GenerateItem& out) {
  return read_fields(body, generate_item_rows(), out);
}

std::span<const std::string_view> generate_accepted_names() {
  return kAccepted;
}

std::vector<std::string> unknown_generate_fields(const Json& body) {
  static const KnownNames known = KnownNames()
                                      .with(generate_item_rows())
                                      .with(refused_sampling_fields())
                                      .with(std::span<const std::string_view>(kAccepted))
                                      .with(native_constraint_rows())
                                      .with({"text", "input_ids", "image_data", "video_data", "stream",
                                             "return_prompt_token_ids", "model", "segments"});
  auto unknown = known.unknown_in(body);
  const Json* sampling = find_field(body, "sampling_params");
  if (sampling == nullptr || !sampling->is_object()) return unknown;
  for (auto& name : sampling_names().unknown_in(*sampling)) unknown.push_back("sampling_params." + name);
  return unknown;
}

namespace {

// As SGLang has them: of a single prompt one or a list; of a batch one for all, or a list with one, or a list, for each.
Result<> read_media(const Json& body, std::string_view name, MediaSource::Kind kind, std::vector<GenerateItem>& items,
                    bool is_batch) {
  const Json* given = find_field(body, name);
  if (given == nullptr || is_list_of_null(*given) || (given->is_array() && given->empty())) return success();
  if (is_batch && given->is_array() && given->size() != items.size())
    return bad_request(fmt::format("{} has {} entries for {} prompts; send one for all, or one or a list for each",
                                   name, given->size(), items.size()),
                       std::string(name));
  for (std::size_t i = 0; i < items.size(); ++i) {
    const bool each = is_batch && given->is_array();
    const bool nested = !is_batch && given->is_array() && given->size() == 1 && given->front().is_array();
    const Json& value = each ? (*given)[i] : nested ? given->front() : *given;
    const std::string place = each ? fmt::format("{}[{}]", name, i) : std::string(name);
    ESP_TRY(auto media, read_media_list(value, kind, place));
    for (MediaSource& one : media) items[i].media.push_back(std::move(one));
  }
  return success();
}

Result<> read_all_media(const Json& body, std::vector<GenerateItem>& items, bool is_batch) {
  ESP_CHECK(read_media(body, "image_data", MediaSource::Kind::picture, items, is_batch));
  return read_media(body, "video_data", MediaSource::Kind::film, items, is_batch);
}

}  // namespace

Result<GenerateBody> parse_generate(const Json& body, const ServerOptions& options) {
  ESP_CHECK(check_refused(body, refused_sampling_fields()));
  ESP_CHECK(refuse_unread_constraints(body, unknown_generate_fields(body)));
  ESP_TRY(PromptList prompts, read_prompts(body, options));
  GenerateBody out;
  out.is_batch = prompts.is_batch;
  ESP_TRY(const auto stream, find_boolean(body, "stream"));
  ESP_TRY(const auto prompt_ids, find_boolean(body, "return_prompt_token_ids"));
  out.stream = stream.value_or(false);
  out.return_prompt_ids = prompt_ids.value_or(false);
  const std::size_t count = prompts.prompts.size();
  for (std::size_t i = 0; i < count; ++i) {
    GenerateItem item;
    item.prompt = std::move(prompts.prompts[i]);
    item.sampling.max_new_tokens = kDefaultTokens;
    ESP_CHECK(read_fields(body, native_constraint_rows(), item.constraint));  // where other servers have them
    ESP_CHECK(read_item(body, item, i, count, out.is_batch));
    const Json* rid = find_field(body, "rid");
    if (rid != nullptr && rid->is_string() && count > 1) item.rid += fmt::format("_{}", i);
    if (i > 0 && item.sampling.n != out.items.front().sampling.n) {
      return bad_request("all prompts of a batch must ask for the same n", "sampling_params.n");
    }
    if (item.session && (out.is_batch || item.sampling.n > 1))
      return bad_request("a turn of a session has one prompt and n 1", "session_params");
    ESP_CHECK(check_empty_text(item, out.stream));
    const bool as_first = i > 0 && asks_the_same(item.constraint, out.items.front().constraint);
    item.constraint_of = as_first ? 0 : i;
    if (as_first) std::string().swap(item.constraint.constraint.text);  // a large one would be there for each prompt
    out.items.push_back(std::move(item));
  }
  ESP_CHECK(read_all_media(body, out.items, out.is_batch));
  return out;
}

PromptLogprobsAsked prompt_logprobs_asked(const GenerateItem& item, int vocabulary) {
  return {.start = item.return_logprob ? item.logprob_start_len : -1,
          .only_scores = item.sampling.max_new_tokens == 0,
          .texts = item.return_text,
          .whole_distributions = item.top_logprobs_num >= vocabulary};
}

}  // namespace espalier::server
