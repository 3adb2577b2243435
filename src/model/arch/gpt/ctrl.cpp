// CTRL: waves as positions. Source: CTRL (arXiv 1909.05858); transformers' class of this name.
#include <cmath>

#include "model/arch/families.h"
#include "model/arch/gpt/gpt_parts.h"

namespace espalier {

ModelSpec ctrl(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.qkv_bias = attention.out_bias = true;
  const Mlp mlp = gpt_mlp(f.count({"dff"}, ConfigLimits::inner), ActivationKind::relu, true);
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, mlp); });
  spec.norm = {NormOp::Kind::layer, 1e-6f, true, true};
  if (f.number_or({"layer_norm_epsilon"}, 1e-6) != 1e-6)
    f.refuse({"layer_norm_epsilon"}, "layer_norm_epsilon must be 1e-06 here, as that of the layers always is");
  spec.embedding_scale = std::sqrt(static_cast<float>(spec.hidden));
  spec.enter = added_waves(spec.hidden / 2, spec.hidden / 2.0, 0, -1);
  spec.head_bias = true;
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  spec.names.layer_prefix = "transformer.h.{}.";
  spec.names.hf = {{"token_embd", "transformer.w"},
                   {"output_norm", "transformer.layernorm"},
                   {"attn_norm", "layernorm1"},
                   {"ffn_norm", "layernorm2"},
                   {"attn_q", "multi_head_attention.Wq"},
                   {"attn_k", "multi_head_attention.Wk"},
                   {"attn_v", "multi_head_attention.Wv"},
                   {"attn_output", "multi_head_attention.dense"},
                   {"ffn_up", "ffn.0"},
                   {"ffn_down", "ffn.2"}};
  return spec;
}

}  // namespace espalier
