#include "quantize/folder/gguf_hyperparameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/json/json_fields.h"
#include "model/blocks/attention/attention.h"
#include "model/blocks/channels/experts.h"
#include "model/blocks/channels/mlp.h"

namespace espalier::quantizer {
namespace {

// The families, as the table of architectures calls them, and their name in GGUF files.
constexpr std::pair<std::string_view, std::string_view> kFamilies[] = {
    {"llama", "llama"},   {"mistral", "llama"},      {"mixtral", "llama"},      {"qwen2", "qwen2"},
    {"qwen3", "qwen3"},   {"qwen2_moe", "qwen2moe"}, {"qwen3_moe", "qwen3moe"}, {"gemma", "gemma"},
    {"gemma2", "gemma2"}, {"gemma3", "gemma3"},      {"phi3", "phi3"},          {"granite", "granite"},
    {"olmo", "olmo"},     {"olmo2", "olmo2"},        {"olmo3", "olmo2"},        {"smollm3", "smollm3"},
};

const Json* found(const Json& object, std::string_view name) {
  return object.is_object() ? find_field(object, name) : nullptr;
}
std::optional<double> number(const Json& object, std::string_view name) {
  const Json* value = found(object, name);
  return value != nullptr && value->is_number() ? std::optional(value->get<double>()) : std::nullopt;
}
std::string word(const Json& object, std::string_view name) {
  const Json* value = found(object, name);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

// The blocks of a layer that are of this type.
template <class B>
const B* block_of(const Layer& layer) {
  for (const Half& half : layer.halves)
    if (const B* block = half.block.template target<B>()) return block;
  return nullptr;
}

class Writer {
 public:
  Writer(const ModelConfig& config, const Json& json) : config_(config), spec_(config.spec) {
    const Json* text = found(json, "text_config");
    json_ = text != nullptr && found(json, "hidden_size") == nullptr ? *text : json;
    const Json* rope = found(json_, "rope_parameters");
    if (rope == nullptr) rope = found(json_, "rope_scaling");
    if (rope != nullptr && rope->is_object()) rope_ = *rope;
    if (const Json* full = found(rope_, "full_attention")) rope_ = *full;
  }

  Result<Hyperparameters> write(std::string_view family) {
    out_.architecture = family;
    const Attention* attention = spec_.layers.empty() ? nullptr : block_of<Attention>(spec_.layers.front());
    if (attention == nullptr) return only_tensors("this family's attention has no keys in GGUF files");
    put_sizes(*attention);
    ESP_CHECK(put_rotation(*attention));
    put_windows();
    put_experts();
    put_scales(family, *attention);
    return std::move(out_);
  }

 private:
  std::string key(std::string_view name) const { return fmt::format("{}.{}", out_.architecture, name); }
  void count(std::string_view name, std::int64_t value) { out_.keys.count(key(name), value); }
  void real(std::string_view name, double value) { out_.keys.put(key(name), static_cast<float>(value)); }

  void put_sizes(const Attention& a) {
    count("vocab_size", spec_.vocabulary);
    count("context_length",
          static_cast<std::int64_t>(
              number(json_, "max_position_embeddings").value_or(static_cast<double>(config_.context_length))));
    count("embedding_length", spec_.hidden);
    count("block_count", static_cast<std::int64_t>(spec_.layers.size()));
    if (const auto inner = number(json_, "intermediate_size"))
      count("feed_forward_length", static_cast<std::int64_t>(*inner));
    count("attention.head_count", a.heads);
    count("attention.head_count_kv", a.kv_heads);
    count("attention.key_length", a.head_dim);
    count("attention.value_length", a.values_dim());
    const bool rms = spec_.norm.kind == NormOp::Kind::rms;
    real(rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon",
         static_cast<double>(spec_.norm.eps));
    if (a.clip > 0) real("attention.clamp_kqv", static_cast<double>(a.clip));
  }

  // The layer whose rotation the file's keys describe: one that sees all, if there is any.
  const Attention* turning() const {
    const Attention* any = nullptr;
    for (const Layer& layer : spec_.layers) {
      const Attention* a = block_of<Attention>(layer);
      if (a == nullptr || !a->rope) continue;
      if (any == nullptr || (a->visibility.rule == Visibility::Rule::all && any->visibility.size > 0)) any = a;
    }
    return any;
  }

  double theta() const {
    if (const auto told = number(rope_, "rope_theta")) return *told;
    if (const auto told = number(json_, "rope_theta")) return *told;
    return out_.architecture == "gemma3" ? 1e6 : 10000;
  }

  Result<> put_rotation(const Attention& first) {
    const Attention* a = turning();
    if (a == nullptr) a = &first;
    if (!a->rope) return success();
    count("rope.dimension_count", a->rope->dims());
    real("rope.freq_base", theta());
    if (out_.architecture == "gemma3") {
      const Json* both = found(json_, "rope_parameters");
      const Json* local = both != nullptr ? found(*both, "sliding_attention") : nullptr;
      const auto base = local != nullptr ? number(*local, "rope_theta") : number(json_, "rope_local_base_freq");
      real("rope.freq_base_swa", base.value_or(10000));
    }
    std::string kind = word(rope_, "rope_type");
    if (kind.empty()) kind = word(rope_, "type");
    if (kind == "linear" || kind == "yarn") {
      out_.keys.put(key("rope.scaling.type"), kind);
      real("rope.scaling.factor", number(rope_, "factor").value_or(1));
      if (const auto original = number(rope_, "original_max_position_embeddings"))
        count("rope.scaling.original_context_length", static_cast<std::int64_t>(*original));
    } else if (kind == "llama3") {
      put_factors("rope_freqs.weight", a->rope->inverse_frequency);
    } else if (kind == "longrope" || kind == "su") {
      put_long(*a->rope);
    } else if (!kind.empty() && kind != "default" && kind != "mrope") {
      return only_tensors(fmt::format("GGUF files have no key for rotation of type {}", kind));
    }
    return success();
  }

  // By which the plain frequencies are divided.
  void put_factors(const std::string& name, const std::vector<float>& frequencies) {
    std::vector<float> factors;
    const int dims = 2 * static_cast<int>(frequencies.size());
    for (std::size_t i = 0; i < frequencies.size(); ++i) {
      const double plain = std::pow(theta(), -2.0 * static_cast<double>(i) / dims);
      factors.push_back(static_cast<float>(plain / static_cast<double>(frequencies[i])));
    }
    out_.vectors.push_back({name, std::move(factors)});
  }

  void put_long(const RopeSpec& rope) {
    const double longest = number(json_, "max_position_embeddings").value_or(4096),
                 original = number(json_, "original_max_position_embeddings")
                                .value_or(number(rope_, "original_max_position_embeddings").value_or(4096));
    count("rope.scaling.original_context_length", static_cast<std::int64_t>(original));
    out_.keys.put(key("rope.scaling.type"), std::string("longrope"));
    const double scale = longest / original;
    real("rope.scaling.attn_factor",
         number(rope_, "attention_factor")
             .value_or(scale <= 1 ? 1 : std::sqrt(1 + std::log(scale) / std::log(original))));
    const auto listed = [&](const char* name, const std::vector<float>& otherwise) {
      std::vector<float> values;
      if (const Json* list = found(rope_, name); list != nullptr && list->is_array())
        for (const Json& one : *list) values.push_back(one.is_number() ? one.get<float>() : 1.0f);
      return values.size() == otherwise.size() ? values : std::vector<float>(otherwise.size(), 1.0f);
    };
    out_.vectors.push_back({"rope_factors_long.weight", listed("long_factor", rope.inverse_frequency)});
    out_.vectors.push_back({"rope_factors_short.weight", listed("short_factor", rope.inverse_frequency)});
  }

  void put_windows() {
    std::int64_t size = 0;
    for (const Layer& layer : spec_.layers)
      if (const Attention* a = block_of<Attention>(layer);
          a != nullptr && a->visibility.rule == Visibility::Rule::window)
        size = std::max(size, a->visibility.size);
    if (size > 0) count("attention.sliding_window", size);
  }

  void put_experts() {
    const Experts* experts = nullptr;
    for (const Layer& layer : spec_.layers)
      if (experts == nullptr) experts = block_of<Experts>(layer);
    if (experts == nullptr) return;
    count("expert_count", experts->router.count);
    count("expert_used_count", experts->router.chosen);
    if (out_.architecture != "llama") count("expert_feed_forward_length", experts->inner);
    if (experts->shared_inner > 0) count("expert_shared_feed_forward_length", experts->shared_inner);
  }

  void put_scales(std::string_view family, const Attention& a) {
    if (a.cap > 0) real("attn_logit_softcapping", static_cast<double>(a.cap));
    if (spec_.logit_cap > 0) real("final_logit_softcapping", static_cast<double>(spec_.logit_cap));
    if (family != "granite") return;
    real("attention.scale", static_cast<double>(a.scale));
    real("embedding_scale", static_cast<double>(spec_.embedding_scale));
    real("residual_scale", static_cast<double>(spec_.layers.front().halves.front().scale));
    real("logit_scale", 1.0 / static_cast<double>(spec_.logit_scale));
  }

  const ModelConfig& config_;
  const ModelSpec& spec_;
  Json json_, rope_ = Json::object();
  Hyperparameters out_;
};

}  // namespace

Error only_tensors(std::string sentence) {
  return Error{Error::Kind::unsupported,
               std::move(sentence) + "; --type w8a8, w8a16 or w4a16 (safetensors) would work",
               "type",
               {}};
}

Result<Hyperparameters> gguf_hyperparameters(const ModelConfig& config, const Json& json) {
  const auto* family = std::ranges::find(kFamilies, std::string_view(config.architecture),
                                         &std::pair<std::string_view, std::string_view>::first);
  if (family == std::end(kFamilies)) {
    std::string list;
    for (const auto& [name, in_gguf] : kFamilies) list += fmt::format("{}{}", list.empty() ? "" : ", ", name);
    return only_tensors(
        fmt::format("GGUF files are written here from folders of {}, and this one's is {}", list, config.architecture));
  }
  if (config.spec.pooled) return only_tensors("GGUF files are written here of models that generate text");
  return Writer(config, json).write(family->second);
}

}  // namespace espalier::quantizer
