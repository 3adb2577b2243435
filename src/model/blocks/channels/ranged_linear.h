// ranged_linear.h: a product whose inputs and outputs lie within ranges that stand beside its matrix (Gemma 4's towers).
//
// Tensors: the role's matrix "<name>.linear.weight", and of one value each <name>.input_min, .input_max, .output_min and
// .output_max; what a file lacks, or has as infinite, is no limit. Keeps nothing. Source: transformers' Gemma4ClippableLinear.
#pragma once

#include <string_view>

#include "model/spec.h"

namespace espalier {

Rows ranged_product(Builder& builder, Rows x, std::string_view role, int outputs);

}  // namespace espalier
