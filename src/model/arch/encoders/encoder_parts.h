// encoder_parts.h: what encoders declare alike: texts that are seen both ways, norms behind sums, BERT's names and heads.
//
// Roles beside those of the blocks: token_types, token_embd_norm; attn_output_norm, layer_output_norm of a layer; cls (and
// cls.norm) and cls.output of what stands behind the pooling. Fails: by Fields::problem().
#pragma once

#include "model/arch/parts.h"

namespace espalier {

// A decoder's frame whose rows see their whole text; LayerNorms with biases, none behind the last layer, mean pooling.
ModelSpec encoder(const Fields& f, const std::function<Layer(int layer)>& layer);
// x = attn_output_norm(x + mixer(x)), then x = layer_output_norm(x + mlp(x)).
Layer normed_sums(Block mixer, Block mlp);
// Learned positions and, but for `types` 0, types of tokens; their sum is normed.
void learned_places(const Fields& f, ModelSpec& spec, int first_position, int types);
// Scores of the first token's row: cls, an activation, cls.output, both with biases.
std::function<PooledOutput(int)> first_token_scores(ActivationKind how);
// BERT's names, those of its classifier among them.
std::vector<Names::Entry> bert_names();
// Renames some of them.
void rename(Names& names, std::vector<Names::Entry> other);

}  // namespace espalier
