// Doge: keys have a bias that comes from their values, and what is already there counts channel by channel.
// Source: SmallDoge; transformers' DogeModel.
#include "model/arch/families.h"
#include "model/blocks/attention/dynamic_mask_attention.h"
#include "model/program/builder.h"

namespace espalier {
namespace {

// x = kept * x + half(norm(x)) for both halves; kept: a stored factor of each channel.
Layer weighed_sums(const Block& mixer, const Block& mlp) {
  Layer layer;
  layer.body = [mixer, mlp](Builder& b, Rows x) {
    const auto half = [&](const Block& block, std::string_view before, std::string_view kept) {
      const Rows out = block(b, b.norm(x, b.spec().norm, before));
      b.emit(CombineOp{.in = x, .out = x, .by = b.vector(kept, {x.width}, "")});
      b.emit(CombineOp{.in = out, .out = x, .add = true});
    };
    half(mixer, "attn_norm", "attn_residual");
    half(mlp, "ffn_norm", "ffn_residual");
    return x;
  };
  return layer;
}

}  // namespace

ModelSpec doge(const Fields& f) {
  DynamicMaskAttention attention;
  attention.like = grouped_attention(f);
  attention.like.qkv_bias = attention.like.out_bias = f.flag_or({"attention_bias"}, false);
  attention.kept = static_cast<int>(f.integer_or({"keep_window_size"}, 2048, 1, ConfigLimits::positions));
  Mlp mlp = gated_mlp(f);
  mlp.bias = f.flag_or({"mlp_bias"}, false);
  if (f.flag_or({"is_moe"}, false))
    f.refuse(
        {"is_moe"},
        "is_moe is true, but the experts of this family are chosen by other tokens' rows too; Doge without experts "
        "works");
  if (!f.says_null({"sliding_window"}) && f.has({"sliding_window"}))
    f.refuse({"sliding_window"}, "sliding_window is not supported for Doge; null is");
  ModelSpec spec = decoder(f, [&](int) { return weighed_sums(attention, mlp); });
  spec.names.hf = {{"attn_a", "self_attn.A"},
                   {"attn_dt", "self_attn.dt_proj"},
                   {"attn_residual", "input_residual"},
                   {"ffn_residual", "post_attention_residual"}};
  return spec;
}

}  // namespace espalier
