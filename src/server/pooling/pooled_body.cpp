#include "server/pooling/pooled_body.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "server/prompt/prompt.h"

namespace espalier::server {
namespace {

using F = PooledBody;

Result<> read_encoding(F& out, const Json& value, std::string_view place) {
  if (value != "float" && value != "base64")
    return bad_request(fmt::format("{} may be \"float\" or \"base64\"", place), std::string(place));
  out.numbers = value == "base64" ? NumberType::base64 : NumberType::floats;
  return success();
}

std::string in_capitals(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

// Of most a switch; Cohere's says which end goes.
Result<> read_truncate(F& out, const Json& value, std::string_view place) {
  bool cut = false;
  if (value.is_string()) {
    const std::string end = in_capitals(value.get<std::string>());
    if (end != "NONE" && end != "START" && end != "END")
      return bad_request(fmt::format("{} may be true or false, or \"NONE\", \"START\" or \"END\"", place),
                         std::string(place));
    cut = end != "NONE";
    out.cut_first = end == "START";
  } else {
    ESP_TRY(cut, as_bool(value, place));
  }
  if (cut && !out.longest) out.longest = -1;
  return success();
}

Result<> read_end_of_cut(F& out, const Json& value, std::string_view place) {
  ESP_TRY(std::string side, as_string(value, place));
  side = in_capitals(std::move(side));
  if (side != "LEFT" && side != "RIGHT")
    return bad_request(fmt::format("{} may be \"left\" or \"right\"", place), std::string(place));
  out.cut_first = side == "LEFT";
  return success();
}

// Whether a score is made a probability.
Result<> read_activation(F& out, const Json& value, std::string_view place) {
  ESP_TRY(const bool scaled, as_bool(value, place));
  out.raw_scores = !scaled;
  return success();
}

constexpr FieldRow<F> kPooledRows[] = {
    {"model", &F::model, "the served model", "a served name, \"default\" or nothing"},
    {"rid", &read_short<F, &F::rid, kMostIdBytes>, "made up", "the request's id, for /abort_request; up to 128 bytes"},
    kAdapterRow<F>,
    {"cache_salt", &read_short<F, &F::cache_salt, kMostSaltBytes>, "none",
     "requests of different salts share no cached prefix"},
    {"extra_key", &read_short<F, &F::extra_key, kMostSaltBytes>, "none", "the same, SGLang's name; both count"},
    {"user", &read_short<F, &F::user, kMostSaltBytes>, "none", "of the key, for --fair-tenants"},
    {"priority", &F::priority, "0", "larger runs first under --schedule-policy priority", {-1e9, 1e9}},
    {"background", &F::background, "false", "runs only when nothing else waits"},
    {"deadline_ms", &F::deadline_ms, "none", "waits at most so long to begin", {1, 1e9}},
    {"encoding_format", &read_encoding, "float", "float: numbers; base64: little-endian float32"},
    {"dimensions", &F::dimensions, "all", "the first so many values of each vector", {1, 1 << 18}},
    {"output_dimension", &F::dimensions, "all", "the same, Cohere's name", {1, 1 << 18}},
    {"normalize", &F::normalised, "the model's own", "vectors of length 1"},
    {"normalized", &F::normalised, "the model's own", "the same, Jina's name"},
    {"add_special_tokens", &F::add_special, "true", "the tokens that the model's tokenizer puts around a text"},
    {"truncate_prompt_tokens",
     &F::longest,
     "refused",
     "longer texts are cut to so many tokens; -1: to the context",
     {-1, 1e9}},
    {"max_tokens_per_doc", &F::longest, "refused", "the same, Cohere's name", {1, 1e9}},
    {"truncate", &read_truncate, "false", "texts that are too long are cut to the context; Cohere's END or START too"},
    {"truncation_direction", &read_end_of_cut, "right", "the end of a text that is cut: right or left"},
    {"truncation_side", &read_end_of_cut, "right", "the same, vLLM's name"},
    {"prompt", &F::prompt, "none", "is put before each text"},
    {"prompt_name", &F::prompt_name, "the model's usual one", "a prompt of the model by its name"},
    {"input_type", &F::input_type, "none", "query, document, ...: the model's prompt for these, if it has one"},
    {"instruct", &F::instruct, "the template's own", "what a yes/no reranker judges by"},
    {"raw_scores", &F::raw_scores, "false", "scores as the model gives them, not as probabilities"},
    {"use_activation", &read_activation, "true", "the other way round, vLLM's name"},
    {"activation", &read_activation, "true", "the same"},
};

}  // namespace

std::span<const FieldRow<PooledBody>> pooled_rows() {
  return kPooledRows;
}

Result<PooledBody> read_pooled_body(const Call& call, std::initializer_list<std::string_view> own) {
  PooledBody body;
  ESP_CHECK(read_fields<PooledBody>(call.body, pooled_rows(), body));
  ESP_CHECK(call.check_model_name(body.model));
  const auto unknown = KnownNames().with(pooled_rows()).with(own).unknown_in(call.body);
  ESP_CHECK(call.service.unknown_fields.note(unknown, std::string(call.http.route)));
  return body;
}

std::optional<std::size_t> most_tokens(const Call& call, const PooledBody& body) {
  if (!body.longest) return std::nullopt;
  const auto room = static_cast<std::size_t>(prompt_room(*call.model));
  return *body.longest < 0 ? room : std::min(room, static_cast<std::size_t>(*body.longest));
}

Result<int> PooledBody::width(const PooledInfo& info) const {
  if (!dimensions) return info.width;
  if (info.kind == PooledInfo::Kind::scores)
    return bad_request("dimensions are of embeddings, but this model gives scores", "dimensions");
  if (*dimensions > info.width)
    return bad_request(fmt::format("dimensions is {}, but this model's vectors have {}", *dimensions, info.width),
                       "dimensions");
  return *dimensions;
}

Result<const PooledInfo*> need_pooled(const Call& call) {
  const auto& info = call.model->info().pooled;
  if (info) return &*info;
  return bad_request("the model " + call.model->name() +
                         " generates text and gives no embeddings; a server of an embedding model gives them, and "
                         "--is-embedding makes one of this checkpoint",
                     "model", "unsupported_parameter");
}

Result<const PooledInfo*> need_embeddings(const Call& call) {
  ESP_TRY(const PooledInfo* info, need_pooled(call));
  if (info->kind == PooledInfo::Kind::embedding) return info;
  return bad_request("the model " + call.model->name() +
                         " gives scores and no embeddings; /v1/rerank, /v1/score and /v1/classify give them",
                     "model", "unsupported_parameter");
}

Result<const PooledInfo*> need_scores(const Call& call) {
  ESP_TRY(const PooledInfo* info, need_pooled(call));
  if (info->kind == PooledInfo::Kind::scores) return info;
  return bad_request(
      "the model " + call.model->name() + " gives embeddings and has no classes; /v1/embeddings gives them", "model",
      "unsupported_parameter");
}

Result<const PooledInfo*> need_one_vector(const Call& call) {
  ESP_TRY(const PooledInfo* info, need_embeddings(call));
  if (info->pooling != "none") return info;
  return bad_request("this model gives a vector of every token; /pooling with task token_embed gives them", "model",
                     "unsupported_parameter");
}

std::string label_of(const PooledInfo& info, std::size_t label) {
  return label < info.labels.size() ? info.labels[label] : fmt::format("LABEL_{}", label);
}

void shape(const PooledBody& body, const PooledInfo& info, int width, PooledEvent& pooled) {
  cut(pooled.values, static_cast<std::size_t>(pooled.width), static_cast<std::size_t>(width));
  pooled.width = std::min(width, pooled.width);
  const bool norms = body.normalised.value_or(info.kind == PooledInfo::Kind::embedding && info.normalised);
  if (norms) normalise(pooled.values, static_cast<std::size_t>(pooled.width));
}

}  // namespace espalier::server
