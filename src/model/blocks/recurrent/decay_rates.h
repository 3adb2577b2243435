// decay_rates.h: how fast the states of recurrent layers decay, as checkpoints store it.
//
// Role: ssm_a (no ".weight"). HF checkpoints store A_log = log(rate), GGUF files -rate.
#pragma once

#include "model/program/builder.h"

namespace espalier {

// Rates > 0, in the order in which they are stored.
VectorId decay_rates(Builder& builder, Shape shape);

}  // namespace espalier
