// gguf_types.h: which type each tensor of a GGUF file gets.
//
// The mixes are those that people know by llama.cpp's names, so that a file called Q4_K_M is one: the same matrices have
// the better types, and sizes agree. A matrix whose rows are no whole blocks gets the next type of blocks of 32.
// Threads: pure. Fails: never.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quantize/target.h"
#include "tensor/tensor.h"

namespace espalier::quantizer {

// A tensor of the file to be, before its type is chosen.
struct TensorShape {
  std::string name;
  Shape shape;
  DType as_is;  // what it is when it is not quantised
};

// What a mix asks of the model.
struct ModelShape {
  int query_heads_per_key = 1;
  int experts = 0;
  bool is_falcon = false;
};

struct TypeWishes {
  std::optional<DType> output, embedding;  // --output-tensor-type, --token-embedding-type
  bool measured = false;                   // the importance of columns is known
};

// A matrix that products read; norms, biases and small tables are none.
bool is_quantisable(const TensorShape& tensor);
std::vector<DType> choose_types(const Target& target, const std::vector<TensorShape>& tensors, const ModelShape& model,
                                const TypeWishes& wishes);

}  // namespace espalier::quantizer
