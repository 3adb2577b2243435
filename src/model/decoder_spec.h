// decoder_spec.h: what an architecture declares about itself; layers, loading and the forward walk are written once.
//
// An architecture is a function ModelConfig -> DecoderSpec (arch/table.h). Everything that differs between decoders of
// the Llama family is a field here; a field that a new architecture needs is added here and honoured in decoder.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace espalier {

enum class Activation { silu, gelu_tanh };

struct RopeSpec {
  int dims = 0;                          // rotated leading dimensions of a head, even
  std::vector<float> inverse_frequency;  // [dims / 2], scaling already applied
  float magnitude = 1.0f;                // of cosines and sines (YaRN)
  bool factors_in_file = false;          // GGUF: divide inverse_frequency by rope_freqs.weight when the file has it
};

struct AttentionSpec {
  int heads = 0, kv_heads = 0, head_dim = 0;
  float scale = 0.0f;  // of scores
  bool qkv_bias = false, out_bias = false;
  bool qk_norm = false;  // RMS norm of each query and key head before rotation
  RopeSpec rope;
};

struct MlpSpec {
  int inner = 0;
  Activation activation = Activation::silu;
  bool bias = false;
};

struct DecoderSpec {
  int vocabulary = 0, hidden = 0, layers = 0;
  float norm_eps = 1e-5f;
  AttentionSpec attention;
  MlpSpec mlp;
  std::vector<std::int64_t> windows;    // [layers]; positions a query sees, 0 = all
  bool tied_head = false;               // the head is the embedding
  bool interleaved_qk_in_gguf = false;  // GGUF files of this architecture store rows of q and k pair by pair
};

}  // namespace espalier
