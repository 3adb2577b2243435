// table.h: the architectures that can be served, each one short declaration beside this file.
//
// Adding one: docs/recipes/add-a-model.md.
#pragma once

#include <span>
#include <string_view>

#include "model/fields/fields.h"
#include "model/spec.h"

namespace espalier {

// One architecture: what checkpoints call it, and what it declares.
struct Architecture {
  std::string_view name;     // "llama"; also config.json's model_type
  std::string_view classes;  // HF classes without their ending (ForCausalLM, Model, ...), apart by '|'
  std::string_view gguf;     // "general.architecture", apart by '|'; empty: GGUF files have another's
  ModelSpec (*declare)(const Fields&);
  std::string_view types = {};  // further values of model_type
};

std::span<const Architecture> architectures();

// Null when nothing is called so.
const Architecture* architecture_of_class(std::string_view class_name);
const Architecture* architecture_of_type(std::string_view model_type);
const Architecture* architecture_in_gguf(std::string_view name);
// Those whose names are most like this one, best first.
std::vector<const Architecture*> nearest_architectures(std::string_view name, std::size_t most = 5);

}  // namespace espalier
