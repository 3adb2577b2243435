#include "model/arch/latent/latent.h"

#include <fmt/format.h>

#include <cmath>

namespace espalier {
namespace {

constexpr FieldName kRank{"kv_lora_rank", "attention.kv_lora_rank"};
constexpr FieldName kLogMultiplier{"", "rope.scaling.yarn_log_multiplier"};

// The factor of scores: 0.1 * mscale_all_dim * ln(factor) + 1, squared. GGUF files have 0.1 * mscale_all_dim.
double yarn_score_factor(const Fields& f) {
  double factor = 1, all_dims = 0;
  if (f.is_gguf()) {
    factor = f.number_or({"", "rope.scaling.factor"}, 1, {.low = 0, .high = 1e6});
    all_dims = 10 * f.number_or(kLogMultiplier, 0, {.low = 0, .high = 1e3});
  } else {
    const Fields own = f.at({f.has({"rope_parameters"}) ? "rope_parameters" : "rope_scaling"});
    if (own.word_or({"rope_type|type"}, "default") == "default") return 1;
    factor = own.number_or({"factor"}, 1, {.low = 0, .high = 1e6});
    all_dims = own.number_or({"mscale_all_dim"}, 0, {.low = 0, .high = 1e3});
  }
  return all_dims > 0 ? std::pow(yarn_magnitude(factor, all_dims), 2) : 1;
}

void check_sizes(const Fields& f, const LatentAttention& a) {
  if (a.rank > ConfigLimits::value_dim || a.width() > ConfigLimits::key_dim)
    f.refuse(kRank,
             fmt::format("{} is {} beside {} rotated dimensions, but at most {} and {} together are supported here",
                         f.path(kRank), a.rank, a.rotated, ConfigLimits::value_dim, ConfigLimits::key_dim));
  if (std::int64_t{a.heads} * std::max(a.width(), a.plain + a.value) > ConfigLimits::attention_width)
    f.refuse(kRank, fmt::format("{} heads over {} {} are more than the limit of {}", a.heads, f.path(kRank), a.rank,
                                ConfigLimits::attention_width));
}

}  // namespace

float rms_eps(const Fields& f) {
  return static_cast<float>(f.number_or({"rms_norm_eps", "attention.layer_norm_rms_epsilon"}, 1e-6,
                                        {.low = 0, .high = 1, .above_low = true}));
}

LatentAttention latent_attention(const Fields& f, double theta) {
  LatentAttention a;
  a.heads = f.count({"num_attention_heads", "attention.head_count"}, ConfigLimits::heads);
  a.rank = f.count(kRank, ConfigLimits::head_dim);
  a.query_rank = f.count_or({"q_lora_rank", "attention.q_lora_rank"}, 0, ConfigLimits::inner);
  const bool turns = f.is_gguf() || f.integer_or({"qk_rope_head_dim"}, 1) > 0;
  a.rotated = turns ? f.count({"qk_rope_head_dim", "rope.dimension_count"}, ConfigLimits::head_dim) : 0;
  if (f.is_gguf()) {
    const int key = f.count({"", "attention.key_length_mla|attention.key_length"}, 2 * ConfigLimits::head_dim);
    if (key <= a.rotated)
      f.refuse({"", "attention.key_length_mla|attention.key_length"},
               fmt::format("{} is {}, but must be above {}, which is {}",
                           f.path({"", "attention.key_length_mla|attention.key_length"}), key,
                           f.path({"", "rope.dimension_count"}), a.rotated));
    a.plain = std::max(1, key - a.rotated);
  } else {
    a.plain = f.count({"qk_nope_head_dim"}, ConfigLimits::head_dim);
  }
  const FieldName value{"v_head_dim", "attention.value_length_mla|attention.value_length"};
  a.value = f.has(value) ? f.count(value, ConfigLimits::head_dim) : std::max(1, hidden_size(f) / a.heads);
  a.bias = f.flag_or({"attention_bias"}, false);
  a.pairs = f.flag_or({"rope_interleave"}, true);
  if (turns) a.rope = rope_of(f, {.head_dim = a.rotated, .theta = theta, .dims = a.rotated});
  if (turns && f.has(kLogMultiplier)) a.rope->magnitude = 1.0f;  // it is the scores that grow
  a.scale = static_cast<float>(yarn_score_factor(f) / std::sqrt(static_cast<double>(a.plain + a.rotated)));
  check_sizes(f, a);
  return a;
}

}  // namespace espalier
