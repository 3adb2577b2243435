// gguf_hyperparameters.h: what config.json says, as keys of a GGUF file.
//
// Families whose GGUF files are read here, and whose keys are known, can be written: what was written is declared again by
// the reader of GGUF files and must give the same operations (same_program.h), so that a model that says more than the keys
// hold is refused instead of changed.
// Threads: pure. Fails: unsupported, naming types of safetensors, which take every family.
#pragma once

#include <string>
#include <vector>

#include "model/config/config.h"
#include "quantize/folder/gguf_keys.h"

namespace espalier::quantizer {

struct Hyperparameters {
  std::string architecture;  // as GGUF files call it
  GgufKeys keys;             // behind "<architecture>."
  struct Vector {
    std::string name;
    std::vector<float> values;
  };
  std::vector<Vector> vectors;  // tensors that hold what config.json says: factors of rotation
};

// `json`: the object of config.json.
Result<Hyperparameters> gguf_hyperparameters(const ModelConfig& config, const Json& json);

// Of a model for which there is no GGUF file.
Error only_tensors(std::string sentence);

}  // namespace espalier::quantizer
