// Llama, and what its relatives share: RMS norms before each half of a block, rotary GQA attention, gated SiLU.
// Source: Llama 2 and Llama 3 reports; config.json of the published checkpoints.
#include <cmath>

#include "model/arch/table.h"
#include "model/layers/rope.h"

namespace espalier {

DecoderSpec llama(const ModelConfig& c) {
  DecoderSpec spec;
  spec.vocabulary = c.vocabulary;
  spec.hidden = c.hidden;
  spec.layers = c.layers;
  spec.norm_eps = static_cast<float>(c.norm_eps);
  spec.attention.heads = c.heads;
  spec.attention.kv_heads = c.kv_heads;
  spec.attention.head_dim = c.head_dim;
  spec.attention.scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim));
  spec.attention.qkv_bias = c.qkv_bias;
  spec.attention.out_bias = c.attention_out_bias;
  spec.attention.rope = rope(c);
  spec.mlp = {c.inner, c.activation, c.mlp_bias};
  spec.windows = c.windows;
  spec.tied_head = c.tied_head;
  spec.interleaved_qk_in_gguf = c.interleaved_qk;
  return spec;
}

}  // namespace espalier
