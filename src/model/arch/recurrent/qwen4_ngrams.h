// qwen4_ngrams.h: n-gram embeddings, as Qwen4-Exp's checkpoints and files describe them.
//
// Fails: by Fields::problem().
#pragma once

#include <optional>

#include "model/arch/parts.h"
#include "model/blocks/embedding/ngram_embedding.h"
#include "model/blocks/residual/gated_residual.h"

namespace espalier {

// Of a layer (counted from 0) that has one.
std::optional<NgramEmbedding> qwen4_ngrams(const Fields& f, int layer, const GatedResidual& streams);

}  // namespace espalier
