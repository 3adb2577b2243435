#include "engine/load/purpose.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json/json_fields.h"

namespace espalier {
namespace {

Result<> check_words(const EngineOptions& options) {
  if (options.task != "auto" && options.task != "generate" && options.task != "embed")
    return bad_request(fmt::format("--task is {}; auto, generate and embed are known", options.task), "task");
  if (options.pooling != "auto" && !pooling_named(options.pooling))
    return bad_request(
        fmt::format("--pooling is {}; auto, last, first (cls), mean, max and none are known", options.pooling),
        "pooling");
  return success();
}

// By what sentence-transformers or the kind of problem says; one score is made a probability, several are shared out.
PooledInfo::Scale scale_of(const Json& config, int labels) {
  using Scale = PooledInfo::Scale;
  std::string how;
  if (config.is_object()) {
    const Json* own = find_field(config, "sentence_transformers");
    const Json* named = own != nullptr && own->is_object() ? find_field(*own, "activation_fn") : nullptr;
    if (named == nullptr) named = find_field(config, "sbert_ce_default_activation_function");
    if (named != nullptr && named->is_string()) how = named->get<std::string>();
    const Json* problem = find_field(config, "problem_type");
    if (how.empty() && problem != nullptr && *problem == "regression" && labels > 1) return Scale::none;
    if (how.empty() && problem != nullptr && *problem == "multi_label_classification") return Scale::sigmoid;
  }
  if (how.ends_with("Identity")) return Scale::none;
  if (how.ends_with("Sigmoid")) return Scale::sigmoid;
  return labels == 1 ? Scale::sigmoid : Scale::softmax;
}

PooledInfo scores(const Json& config_json, const ModelConfig& config) {
  PooledInfo info;
  info.kind = PooledInfo::Kind::scores;
  info.normalised = false;
  info.labels = config.label_names;
  info.scale = scale_of(config_json, config.labels);
  return info;
}

constexpr std::string_view kPadding = "<pad>";  // stands for the vocabulary's own in behind_query, until it is known

// What the processor of ColQwen2 in transformers 5.24 writes around queries and pictures.
void prompt_as_colqwen2(PooledInfo& info) {
  info.prompts = {{"query", "Query: "}};
  for (int i = 0; i < 10; ++i) info.behind_query += kPadding;
  info.behind_query += "\n";
  info.picture_prompt =
      "<|im_start|>user\n<|vision_start|><image><|vision_end|>Describe the image.<|im_end|><|endoftext|>";
}

}  // namespace

Result<std::optional<PooledInfo>> choose_purpose(const EngineOptions& options,
                                                 const std::optional<SentenceTransformer>& told,
                                                 const Json& config_json, ModelConfig& config) {
  ESP_CHECK(check_words(options));
  ModelSpec& spec = config.spec;
  const bool generates = config.head == Head::language_model && !spec.both_ways;
  if (options.task == "generate" && !generates)
    return bad_request(
        fmt::format("--task generate: {} has no language model's head, so that it generates no text; leave "
                    "the flag out to serve what it gives",
                    config.class_name),
        "task");
  if (options.task == "generate" || (options.task == "auto" && generates && !told)) {
    spec.pooled.reset();
    return std::optional<PooledInfo>();
  }
  if (options.disaggregation_mode != "null")
    return bad_request(
        fmt::format("--disaggregation-mode {}: {} generates no text here, so that nothing of a prompt is handed on; "
                    "leave the flag out",
                    options.disaggregation_mode, config.class_name),
        "disaggregation_mode");
  PooledInfo info;
  if (config.head == Head::classification) {
    info = scores(config_json, config);
  } else if (told) {
    pool_as_told(*told, spec);
    info.normalised = told->normalised;
    info.prompts = told->prompts;
    info.usual_prompt = told->usual_prompt;
    info.pools_prompt = told->pools_prompt;
    info.lower_case = told->lower_case;
    if (told->longest) config.context_length = std::min<std::int64_t>(config.context_length, *told->longest);
  } else if (!spec.pooled) {
    spec.pooled = PooledOutput{spec.usual_pooling};
  }
  if (config.class_name == "ColQwen2ForRetrieval") prompt_as_colqwen2(info);
  if (options.pooling != "auto") spec.pooled->pooling = *pooling_named(options.pooling);
  spec.drafts = false;
  info.pooling = name(spec.pooled->pooling);
  info.has_pairs = spec.token_types > 1;
  return std::optional(std::move(info));
}

void name_padding(const Tokenizer& tokenizer, PooledInfo& info) {
  const auto pad = tokenizer.pad();
  const std::string_view name = pad ? tokenizer.token_text(*pad) : std::string_view();
  for (std::size_t at = 0; (at = info.behind_query.find(kPadding, at)) != std::string::npos; at += name.size())
    info.behind_query.replace(at, kPadding.size(), name);
}

}  // namespace espalier
