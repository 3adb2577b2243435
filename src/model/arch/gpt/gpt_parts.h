// gpt_parts.h: what models after GPT share: MLPs without a gate, LayerNorms, learned positions.
//
// Fails: by Fields::problem().
#pragma once

#include "model/arch/parts.h"

namespace espalier {

Mlp gpt_mlp(const Fields& f, std::string_view activation);  // four times the width where nothing is told; with biases
Mlp gpt_mlp(int inner, ActivationKind kind, bool bias);
void layer_norms(const Fields& f, ModelSpec& spec);  // with gain and bias
void learned_positions(const Fields& f, ModelSpec& spec);
// What stands before the layers: adds waves of 10000^(-i / last) for i in 0 .. half - 1 at the position plus offset; none
// at the silent position (-1: none is).
Block added_waves(int half, double last, int offset, int silent);

// HF names of Bloom's tensors, which Falcon's checkpoints took over.
inline const std::vector<Names::Entry> kBloomNames = {{"attn_qkv", "self_attention.query_key_value"},
                                                      {"attn_output", "self_attention.dense"},
                                                      {"attn_norm", "input_layernorm"},
                                                      {"ffn_norm", "post_attention_layernorm"},
                                                      {"ffn_up", "mlp.dense_h_to_4h"},
                                                      {"ffn_down", "mlp.dense_4h_to_h"},
                                                      {"token_embd", "transformer.word_embeddings"},
                                                      {"output_norm", "transformer.ln_f"},
                                                      {"token_embd_norm", "transformer.word_embeddings_layernorm"}};

}  // namespace espalier
