// GPT-J and CodeGen: attention and MLP side by side from one LayerNorm, a part of each head turns by neighbours.
// Source: model cards; transformers' GPTJModel and CodeGenModel.
#include "model/arch/families.h"
#include "model/arch/gpt/gpt_parts.h"

namespace espalier {
namespace {

ModelSpec side_by_side(const Fields& f, Attention attention) {
  attention.rope = rope_of(f, {.head_dim = attention.head_dim, .part = 1});
  attention.pairs = true;
  ModelSpec spec = decoder(f, [&](int) { return parallel(attention, gpt_mlp(f, "gelu_new")); });
  layer_norms(f, spec);
  spec.head_bias = true;
  spec.names.layer_prefix = "transformer.h.{}.";
  spec.names.hf = {{"token_embd", "transformer.wte"}, {"output_norm", "transformer.ln_f"}, {"attn_norm", "ln_1"},
                   {"attn_q", "attn.q_proj"},         {"attn_k", "attn.k_proj"},           {"attn_v", "attn.v_proj"},
                   {"attn_qkv", "attn.qkv_proj"},     {"attn_output", "attn.out_proj"},    {"ffn_up", "mlp.fc_in"},
                   {"ffn_down", "mlp.fc_out"}};
  return spec;
}

}  // namespace

ModelSpec gptj(const Fields& f) {
  return side_by_side(f, attention_heads(f));
}

ModelSpec codegen(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.fused = FusedQkv::by_quarter;
  attention.kv_heads = attention.heads;
  if (attention.heads % 4 != 0)
    f.refuse({"n_head"}, "n_head must be a multiple of 4, as CodeGen's tensors have four parts");
  return side_by_side(f, attention);
}

}  // namespace espalier
