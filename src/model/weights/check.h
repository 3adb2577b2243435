// check.h: whether a checkpoint holds what its hyperparameters ask for, without reading a matrix.
//
// Asks for every tensor that Decoder::load() asks for, and for types that can be packed.
// Threads: pure. Fails: bad_file naming the tensor; unsupported naming a tensor whose type has no kernel.
#pragma once

#include "model/spec.h"
#include "model/weights/weights.h"

namespace espalier {

Result<> check_weights(const Weights& weights, const ModelSpec& spec);

// Whether the checkpoint brings the layer that drafts. Fails: bad_request, field speculative_algorithm.
Result<> check_draft_layer(const Weights& weights, const ModelSpec& spec);

}  // namespace espalier
