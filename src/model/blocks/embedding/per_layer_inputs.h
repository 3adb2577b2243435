// per_layer_inputs.h: embeddings of a token for each layer beside those of the model (Gemma 3n, Gemma 4).
//
// Behind the embedding: inputs = (norm(projection of the embedding) + token's row of a second table) / sqrt(2), `width`
// values for each layer. In a layer: norm(projection(activation(gate(x)) * the layer's inputs)).
// Roles: per_layer_token_embd, per_layer_model_proj, per_layer_proj_norm; inp_gate, proj, post_norm. Keeps nothing.
// Source: Gemma 3n model card; transformers' Gemma3nTextModel.
#pragma once

#include "model/spec.h"

namespace espalier {

// The table of such embeddings, and how a layer adds its own.
struct PerLayerInputs {
  int width = 0, vocabulary = 0;
  Activation activation = {};
  static constexpr std::string_view kRows = "per_layer_inputs";  // what later layers find them by

  Rows enter(Builder& builder, Rows embedded) const;  // gives its input back
  Rows operator()(Builder& builder, Rows x) const;
};

}  // namespace espalier
