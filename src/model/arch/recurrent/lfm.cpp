#include "model/arch/recurrent/lfm.h"

namespace espalier {
namespace {

std::vector<Names::Entry> lfm_names() {
  return {{"output_norm", "model.embedding_norm"},
          {"attn_norm", "operator_norm"},
          {"ffn_norm", "ffn_norm"},
          {"attn_output", "self_attn.out_proj"},
          {"attn_q_norm", "self_attn.q_layernorm"},
          {"attn_k_norm", "self_attn.k_layernorm"},
          {"shortconv.in_proj", "conv.in_proj"},
          {"shortconv.conv", "conv.conv"},
          {"shortconv.out_proj", "conv.out_proj"},
          {"ffn_gate", "feed_forward.w1"},
          {"ffn_down", "feed_forward.w2"},
          {"ffn_up", "feed_forward.w3"},
          {"ffn_gate_inp", "feed_forward.gate"},
          {"exp_probs_b", "feed_forward.expert_bias"},
          {"ffn_exps", "feed_forward.experts"}};
}

}  // namespace

Mlp lfm_mlp(const Fields& f) {
  Mlp mlp;
  mlp.inner = f.count({"block_ff_dim|intermediate_size", "feed_forward_length"}, ConfigLimits::inner);
  return mlp;
}

ModelSpec lfm_decoder(const Fields& f, const std::function<Layer(int layer)>& layer) {
  ModelSpec spec = decoder(f, layer);
  spec.norm.eps = static_cast<float>(f.number_or(
      {"norm_eps|rms_norm_eps|block_norm_eps", "attention.layer_norm_rms_epsilon"}, 1e-5, {.low = 0, .high = 1}));
  spec.tied_head = f.flag_or({"tie_embedding|tie_word_embeddings"}, true);
  spec.names.hf = lfm_names();
  spec.names.gguf = {{"output_norm", "token_embd_norm"}};
  return spec;
}

}  // namespace espalier
