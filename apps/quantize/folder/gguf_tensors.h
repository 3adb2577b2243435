// gguf_tensors.h: the tensors of a Hugging Face folder under the names, in the shapes and in the order of rows that GGUF
// files have.
//
// A tensor has a role, which is its name in GGUF files, and roles have names in folders (model/weights/names.h): so the
// table that folders are read by is turned round. Rows of queries and keys of some families stand pair by pair in GGUF
// files, gains that are stored less one are whole there, and experts are one tensor.
// Threads: pure. Fails: unsupported, naming a tensor that has no role.
#pragma once

#include <string>
#include <vector>

#include "espalier/error.h"
#include "model/spec.h"
#include "model/weights/weights.h"
#include "quantize/folder/gguf_hyperparameters.h"
#include "quantize/source_rows.h"

namespace espalier::quantizer {

// A tensor of the GGUF file to be.
struct GgufTensor {
  std::string name;
  SourceRows rows;
};

struct GgufTensors {
  std::vector<GgufTensor> all;        // in the order of layers
  std::vector<std::string> left_out;  // of towers, which are files of their own
};

// `gguf`: the same model as a reader of GGUF files declares it.
Result<GgufTensors> gguf_tensors(const TensorFile& file, const Weights& weights, const ModelSpec& folder,
                                 const ModelSpec& gguf, const std::vector<Hyperparameters::Vector>& vectors);

}  // namespace espalier::quantizer
