// linear_layers.h: which tensors of a Hugging Face checkpoint are linear layers, as tools that quantise them count.
//
// Threads: pure. Fails: never.
#pragma once

#include <set>
#include <string>

#include "model/program/program.h"
#include "model/spec.h"

namespace espalier {

// Names of the matrices of layers, as the program asks for them.
struct LinearLayers {
  std::set<std::string> linear;  // [outputs, inputs], of their own
  std::set<std::string> others;  // convolutions, those whose rows are inputs, experts that share a tensor
};

// Neither has the embedding, the head and routers, which are not quantised.
LinearLayers linear_layers(const Program& program, const ModelSpec& spec);

}  // namespace espalier
