// MPT: ALiBi, norms without bias, clipped values. Source: MPT model cards; transformers' MptModel.
#include "model/arch/families.h"
#include "model/arch/gpt/gpt_parts.h"

namespace espalier {

ModelSpec mpt(const Fields& f) {
  const Fields own = f.is_gguf() ? f : f.at({"attn_config"});
  Attention attention = attention_heads(f);
  attention.fused = FusedQkv::side_by_side;
  attention.scale = static_cast<float>(own.number_or({"softmax_scale"}, 0));
  attention.clip = static_cast<float>(own.number_or({"clip_qkv", "attention.clamp_kqv"}, 0, {.low = 0}));
  if (own.flag_or({"qk_ln"}, false) || own.word_or({"attn_type"}, "multihead_attention") != "multihead_attention")
    own.refuse({"qk_ln"},
               "normed query and key heads, and attn_type other than multihead_attention, are not supported for MPT");
  const double steepest = own.number_or({"alibi_bias_max", "attention.max_alibi_bias"}, f.is_gguf() ? 0 : 8);
  if (!own.flag_or({"alibi"}, true)) own.refuse({"alibi"}, "alibi is false, but MPT without ALiBi is not supported");
  if (steepest > 0) attention.slopes = alibi_slopes(attention.heads, steepest);
  const int ratio = f.count_or({"expansion_ratio"}, 4, 64);
  const int inner = f.count_or({"", "feed_forward_length"}, ratio * hidden_size(f), ConfigLimits::inner);
  ModelSpec spec =
      decoder(f, [&](int) { return pre_norm(attention, gpt_mlp(inner, ActivationKind::gelu_erf, false)); });
  spec.norm.kind = NormOp::Kind::layer;
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  spec.names.layer_prefix = "transformer.blocks.{}.";
  spec.names.hf = {{"token_embd", "transformer.wte"}, {"output_norm", "transformer.norm_f"},
                   {"attn_norm", "norm_1"},           {"ffn_norm", "norm_2"},
                   {"attn_qkv", "attn.Wqkv"},         {"attn_output", "attn.out_proj"},
                   {"ffn_up", "ffn.up_proj"},         {"ffn_down", "ffn.down_proj"}};
  return spec;
}

}  // namespace espalier
