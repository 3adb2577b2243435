// DiffLlama: Llama with differential attention.
// Source: Differential Transformer (arXiv 2410.05258); transformers' DiffLlamaModel.
#include "model/arch/families.h"
#include "model/blocks/attention/differential_attention.h"

namespace espalier {

ModelSpec diffllama(const Fields& f) {
  const Attention heads = grouped_attention(f);
  const DifferentialAttention attention{.heads = heads.heads,
                                        .kv_heads = heads.kv_heads,
                                        .head_dim = heads.head_dim,
                                        .bias = f.flag_or({"attention_bias"}, false),
                                        .rope = *heads.rope,
                                        .norm_eps = heads.query_norm.eps};
  if (heads.kv_heads % 2 != 0 || 2 * heads.head_dim > ConfigLimits::value_dim)
    f.refuse({"num_key_value_heads"}, "num_key_value_heads must be even, and head_dim at most 256, in DiffLlama");
  Mlp mlp = gated_mlp(f);
  mlp.bias = f.flag_or({"mlp_bias"}, false);
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, mlp); });
  for (const char* role : {"lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"})
    spec.names.hf.push_back({role, std::string("self_attn.") + role});
  return spec;
}

}  // namespace espalier
