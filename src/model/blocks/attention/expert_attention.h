// expert_attention.h: attention whose queries and outputs are made by experts, a few for each token; all share keys and
// values (JetMoE).
//
// The queries of every expert are computed and read; those that the router has not chosen count nothing. Which tokens
// share an expert so changes nothing, at the price of the others' work.
// Roles: attn_moe_gate_inp (router), attn_q_exps and attn_output_exps of all experts, attn_moe_bias, attn_kv. Keeps: keys
// and values of every head. Source: JetMoE (arXiv 2404.07413); transformers' JetMoeAttention.
#pragma once

#include "model/program/rope_spec.h"
#include "model/spec.h"

namespace espalier {

// The block: router, experts, and the shared keys and values.
struct ExpertAttention {
  RouterSpec router;
  int kv_heads = 0, head_dim = 0;  // an expert has as many query heads
  RopeSpec rope;

  Rows operator()(Builder& builder, Rows x) const;

 private:
  int width() const { return kv_heads * head_dim; }
  Rows project(Builder& b, Rows x) const;
  Rows weigh(Builder& b, Rows of_experts, Rows logits) const;
};

}  // namespace espalier
