#include "model/arch/experts/step35_attention.h"

#include <cmath>

namespace espalier {
namespace {

// By the lists of published files, by types of layers, or by GGUF's keys.
RopeSpec step_rope(const Fields& f, int layer, int head_dim, bool slides) {
  RopeWish wish{.head_dim = head_dim};
  if (f.is_gguf()) {
    const int dims = f.count_or({"", "rope.dimension_count"}, head_dim, head_dim);
    wish.dims = slides ? f.count_or({"", "rope.dimension_count_swa"}, dims, head_dim) : dims / 2;
    wish.theta = f.number_or({"", "rope.freq_base"}, 10000, {.low = 1});
    if (slides) wish.theta = f.number_or({"", "rope.freq_base_swa"}, wish.theta, {.low = 1});
    wish.own_theta = true;
    RopeSpec spec = rope_of(f, wish);
    if (slides) spec.factors_in_file = false;
    return spec;
  }
  if (f.at({"rope_parameters"}).has({"full_attention"})) {
    wish.layer_type = slides ? "sliding_attention" : "full_attention";
    wish.part = 1;
    return rope_of(f, wish);
  }
  wish.theta = f.number_of({"rope_theta"}, layer, 10000, {.low = 1});
  wish.own_theta = true;
  wish.dims =
      2 * static_cast<int>(f.number_of({"partial_rotary_factors"}, layer, 1, {.low = 0, .high = 1}) * head_dim / 2);
  wish.scaled = !slides;
  return rope_of(f, wish);
}

}  // namespace

Attention step_attention(const Fields& f, int layer, bool slides) {
  Attention a = attention_heads(f, f.is_gguf() ? layer : -1);
  const Fields other = f.at({"attention_other_setting"});
  if (slides && !f.is_gguf()) {
    const int heads = f.has({"num_sliding_attention_heads"})
                          ? f.count({"num_sliding_attention_heads"}, ConfigLimits::heads)
                          : other.count_or({"num_attention_heads"}, a.heads, ConfigLimits::heads);
    a.heads = std::max(1, heads);
    a.kv_heads = std::max(1, other.count_or({"num_attention_groups"}, a.kv_heads, a.heads));
  }
  if (a.heads % a.kv_heads != 0 || std::int64_t{a.heads} * a.head_dim > ConfigLimits::attention_width)
    f.refuse({"num_attention_heads", "attention.head_count"},
             "the heads of a layer must be a multiple of its KV heads");
  a.qkv_bias = a.out_bias = f.flag_or({"attention_bias"}, false);
  a.head_norm = Attention::HeadNorm::each;
  a.head_norm_may_lack = true;
  a.query_norm.one_plus = true;
  a.gate = Attention::Gate::own_by_head;
  a.rope = step_rope(f, layer, a.head_dim, slides);
  a.visibility = Visibility::window(slides ? f.integer_or({"sliding_window", "attention.sliding_window"}, 512) : 0);
  if (f.has({"query_pre_attn_scalar"}))
    a.scale =
        1.0f / std::sqrt(static_cast<float>(f.number_or({"query_pre_attn_scalar"}, 1, {.low = 0, .above_low = true})));
  return a;
}

}  // namespace espalier
