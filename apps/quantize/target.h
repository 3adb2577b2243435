// target.h: the types that `espalier quantize --type` makes: mixes of GGUF's, and layouts of compressed-tensors.
// Threads: constants and pure functions. Fails: find_target() by bad_request, naming what would work.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "espalier/error.h"
#include "tensor/dtype.h"

namespace espalier::quantizer {

enum class Container { gguf, tensors };
// Which matrices of a GGUF file get a better type than the others: llama.cpp's _S, _M and _L.
enum class Mix { none, small, medium, large };

// One type that can be asked for.
struct Target {
  std::string_view name;
  std::string_view about;
  Container container = Container::gguf;
  DType base = DType::f16;  // of GGUF files
  Mix mix = Mix::none;
  std::uint32_t file_type = 0;  // general.file_type
  int bits = 0;                 // of safetensors
  bool grouped = false;         // a scale for each group of inputs; else for each output
  bool symmetric = true;
  bool int8_activations = false;
};

std::span<const Target> targets();
// In upper or lower case, with '-' for '_', and under the names that other tools have for some.
Result<Target> find_target(std::string_view name);

}  // namespace espalier::quantizer
