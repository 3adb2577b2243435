// InternLM 2: one tensor of each KV head's queries, key and value.
// Source: the published configurations and tensors; llama.cpp for its files.
#include "model/arch/families.h"

namespace espalier {

ModelSpec internlm2(const Fields& f) {
  Attention attention = grouped_attention(f);
  attention.pairs_in_gguf = true;
  attention.fused = FusedQkv::by_group;
  attention.qkv_bias = attention.out_bias = f.flag_or({"bias"}, false);
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, gated_mlp(f)); });
  spec.names.hf = {{"token_embd", "model.tok_embeddings"}, {"output", "output"},
                   {"attn_norm", "attention_norm"},        {"ffn_norm", "ffn_norm"},
                   {"attn_qkv", "attention.wqkv"},         {"attn_output", "attention.wo"},
                   {"ffn_gate", "feed_forward.w1"},        {"ffn_up", "feed_forward.w3"},
                   {"ffn_down", "feed_forward.w2"}};
  return spec;
}

}  // namespace espalier
