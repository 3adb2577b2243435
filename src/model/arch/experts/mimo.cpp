// MiMo-V2: windows with sinks and twice the KV heads between full layers; values narrower than keys, and scaled.
// Source: MiMo-V2-Flash report; transformers' MiMoV2FlashModel, whose files of the first days name fields otherwise.
#include "model/arch/experts/routed.h"
#include "model/arch/families.h"

namespace espalier {
namespace {

// Layers that draft have a window, whatever a list says of the others. GGUF files count them.
bool slides(const Fields& f, int layer, bool drafts) {
  if (drafts) return true;
  if (f.has({"hybrid_layer_pattern"})) return f.count_of({"hybrid_layer_pattern"}, layer, 0) != 0;
  return layer_is(f, layer, "sliding_attention", layer != 0 && (layer + 1) % 6 != 0);
}

// A field whose name in windowed layers begins with swa_.
int of_kind(const Fields& f, bool window, FieldName in_windows, int otherwise) {
  return window ? f.count_or(in_windows, otherwise, ConfigLimits::head_dim) : otherwise;
}

RopeSpec mimo_rope(const Fields& f, bool window, int head_dim) {
  const bool apart = f.at({"rope_parameters"}).has({"sliding_attention"});
  RopeWish wish{.head_dim = head_dim, .theta = 5e6, .part = 0.334};
  if (apart) wish.layer_type = window ? "sliding_attention" : "full_attention";
  if (!apart && window) {
    wish.own_theta = true;
    wish.theta = f.number_or({"swa_rope_theta", "rope.freq_base_swa"}, 10000, {.low = 0, .above_low = true});
  }
  return rope_of(f, wish);
}

Attention mimo_attention(const Fields& f, int layer, bool drafts = false) {
  const bool window = slides(f, layer, drafts);
  Attention a = attention_heads(f, f.is_gguf() ? layer : -1);
  if (!f.is_gguf()) {
    a.heads = of_kind(f, window, {"swa_num_attention_heads"}, a.heads);
    a.kv_heads = of_kind(f, window, {"swa_num_key_value_heads"}, window ? 2 * a.kv_heads : a.kv_heads);
    a.head_dim = of_kind(f, window, {"swa_head_dim"}, a.head_dim);
    a.value_dim = of_kind(f, window, {"swa_v_head_dim"}, f.count_or({"v_head_dim"}, 128, ConfigLimits::head_dim));
    a.sinks = f.flag_or({window ? "add_swa_attention_sink_bias" : "add_full_attention_sink_bias"}, window);
    if (a.kv_heads > a.heads || a.heads % a.kv_heads != 0)
      f.refuse({"num_key_value_heads"}, "the KV heads of layers with a window must divide their heads");
  }
  if (f.is_gguf()) {
    a.sinks = true;
    a.fused = FusedQkv::side_by_side;  // as converters of 2026 write them
  }
  a.qkv_bias = f.flag_or({"attention_bias"}, false);
  a.value_scale = static_cast<float>(
      f.says_null({"attention_value_scale"})
          ? 1
          : f.number_or({"attention_value_scale", "attention.value_scale"}, f.is_gguf() ? 1 : 0.707));
  a.rope = mimo_rope(f, window, a.head_dim);
  const std::int64_t size = f.has({"sliding_window_size"})
                                ? f.integer_or({"sliding_window_size"}, 128) + 1
                                : f.integer_or({"sliding_window", "attention.sliding_window"}, 129);
  if (window) a.visibility = Visibility::window(size);
  return a;
}

}  // namespace

ModelSpec mimo_v2(const Fields& f) {
  Experts experts = deepseek_experts(f, {});
  experts.shared_inner = 0;
  ModelSpec spec = decoder(f, [&](int layer) {
    return pre_norm(mimo_attention(f, layer), is_dense_layer(f, layer, 1) ? Block(gated_mlp(f)) : Block(experts));
  });
  spec.names.hf = {{"attn_sinks", "self_attn.attention_sink_bias"}};
  if (f.is_gguf() && f.count_or({"", "nextn_predict_layers"}, 0, ConfigLimits::layers) == 0) return spec;
  DraftLayer& draft = bring_draft_layer(
      spec, pre_norm(mimo_attention(f, static_cast<int>(spec.layers.size()), true), gated_mlp(f)),
      {{"ffn_norm", "pre_mlp_layernorm|post_attention_layernorm"}, {"nextn.shared_head_norm", "final_layernorm"}},
      "model.mtp.layers.0.");
  draft.before_norm = true;
  return spec;
}

}  // namespace espalier
