// describe.h: what a model file holds, counted: for `espalier inspect`, `list` and `plan`.
// Units:   bytes as stored, parameters as values. Threads: pure functions. Fails: never.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/tensor_file.h"

namespace espalier {

struct TypeUse {  // all tensors of one type
  DType type = DType::f32;
  std::uint64_t tensors = 0, parameters = 0, bytes = 0;
};

struct TensorUse {  // one tensor
  std::string name, file;
  DType type = DType::f32;
  Shape shape;
  std::uint64_t parameters = 0, bytes = 0;
};

// The tensors and types of a model file with their sizes.
struct Contents {
  std::vector<TypeUse> types;      // most bytes first
  std::vector<TensorUse> tensors;  // in file order
  std::uint64_t parameters() const;
  std::uint64_t bytes() const;
  double bits_per_parameter() const;  // 0 when there are none
};

Contents describe(const TensorFile& file);

std::string shown_bytes(std::uint64_t bytes);  // "512 B", "98.4 MiB", "1.21 GiB"
std::string shown_count(std::uint64_t count);  // "512", "134.5 M", "7.24 B"

}  // namespace espalier
