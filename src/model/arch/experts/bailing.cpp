// Relatives of DeepSeek's experts with plain attention: Ling (Bailing MoE) and Ling 2, dots.llm1.
// Source: Ling reports (arXiv 2503.05139, 2510.22115); dots.llm1 (2506.05767), transformers' Dots1Model.
#include "model/arch/experts/routed.h"
#include "model/arch/families.h"

namespace espalier {
namespace {

void refuse_normed_head(const Fields& f) {
  if (f.flag_or({"norm_head"}, false))
    f.refuse({"norm_head"},
             "norm_head is true, which is supported in GGUF files alone: their converter norms the head");
}

Attention bailing_attention(const Fields& f) {
  Attention a = grouped_attention(f);
  a.fused = FusedQkv::side_by_side;
  a.qkv_bias = f.flag_or({"use_qkv_bias"}, false);
  a.out_bias = f.flag_or({"use_bias"}, false);
  return a;
}

std::vector<Names::Entry> bailing_names() {
  return {{"token_embd", "model.word_embeddings"},    {"attn_qkv", "attention.query_key_value"},
          {"attn_output", "attention.dense"},         {"attn_q_norm", "attention.query_layernorm"},
          {"attn_k_norm", "attention.key_layernorm"}, {"exp_probs_b", "mlp.gate.expert_bias"}};
}

}  // namespace

ModelSpec bailing_moe(const Fields& f) {
  refuse_normed_head(f);
  Attention attention = bailing_attention(f);
  attention.pairs_in_gguf = true;
  const Experts experts = deepseek_experts(f, {.sigmoid = false, .corrected = false});
  ModelSpec spec = decoder(f, [&](int layer) {
    return pre_norm(attention, is_dense_layer(f, layer, 0) ? Block(gated_mlp(f)) : Block(experts));
  });
  spec.names.hf = bailing_names();
  return spec;
}

ModelSpec bailing_moe_v2(const Fields& f) {
  refuse_normed_head(f);
  Attention attention = bailing_attention(f);
  attention.rope = rope_of(f, {.head_dim = attention.head_dim, .part = 0.5});
  if (f.flag_or({"use_qk_norm"}, true)) attention.head_norm = Attention::HeadNorm::each;
  Experts experts = deepseek_experts(f, {});
  experts.shared_inner = f.count_or({"moe_shared_expert_intermediate_size", "expert_shared_feed_forward_length"},
                                    experts.shared_inner, ConfigLimits::inner);
  ModelSpec spec = decoder(f, [&](int layer) {
    return pre_norm(attention, is_dense_layer(f, layer, 1) ? Block(gated_mlp(f)) : Block(experts));
  });
  spec.names.hf = bailing_names();
  bring_draft_layer(spec, pre_norm(attention, experts), {{"nextn.shared_head_norm", "final_layernorm"}});
  return spec;
}

}  // namespace espalier
