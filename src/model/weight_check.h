// weight_check.h: whether a checkpoint holds what its hyperparameters ask for, without reading a weight.
//
// Asks Weights::find() for every tensor that Decoder::load() asks for, and for types that can be packed.
// Threads: pure. Fails: as Weights::find(); unsupported naming a tensor whose type has no kernel.
#pragma once

#include "model/weights.h"

namespace espalier {

Result<> check_weights(const Weights& weights, const DecoderSpec& spec);

}  // namespace espalier
