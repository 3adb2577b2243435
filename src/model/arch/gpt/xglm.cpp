// XGLM: waves as positions, counted from 2, of other frequencies than CTRL's. Source: XGLM (arXiv 2112.10668);
// transformers' class of this name.
#include <cmath>

#include "model/arch/families.h"
#include "model/arch/gpt/gpt_parts.h"

namespace espalier {

ModelSpec xglm(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.qkv_bias = attention.out_bias = true;
  const Mlp mlp = gpt_mlp(f, "gelu");
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, mlp); });
  spec.norm = {NormOp::Kind::layer, 1e-5f, true, true};
  if (f.flag_or({"scale_embedding"}, true)) spec.embedding_scale = std::sqrt(static_cast<float>(spec.hidden));
  const int half = spec.hidden / 2, padding = static_cast<int>(f.integer_or({"pad_token_id"}, 1, 0, 1 << 30));
  spec.enter = added_waves(half, half - 1, 2, f.says_null({"pad_token_id"}) || padding < 2 ? -1 : padding - 2);
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  spec.names.hf = {{"output_norm", "model.layer_norm"},
                   {"attn_norm", "self_attn_layer_norm"},
                   {"attn_output", "self_attn.out_proj"},
                   {"ffn_norm", "final_layer_norm"},
                   {"ffn_up", "fc1"},
                   {"ffn_down", "fc2"}};
  return spec;
}

}  // namespace espalier
