// gguf_writer.h: the head of a GGUF file, for quantising, dummy models and tests.
//
// Version 3. Tensors are declared in the order in which their bytes will follow; each tensor's bytes begin at a
// multiple of the alignment, so after `n` bytes of one come `padding(n)` zeros.
// Order:   (put | copy | declare)* head
// Requires: keys and names differ, shapes suit their types, types have a GGUF number; else the file cannot be read
// back. Threads: one per writer. Fails: never.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/file/gguf_metadata.h"
#include "tensor/tensor.h"

namespace espalier {

// Collects keys and tensors, then writes the head and says where each tensor's bytes go.
class GgufWriter {
 public:
  explicit GgufWriter(std::uint64_t alignment = 32) : alignment_(alignment) {}

  void put(std::string_view key, std::uint32_t value);
  void put(std::string_view key, std::int32_t value);
  void put(std::string_view key, std::uint64_t value);
  void put(std::string_view key, float value);
  void put(std::string_view key, bool value);
  void put(std::string_view key, std::string_view value);
  void put(std::string_view key, const char* value) { put(key, std::string_view(value)); }
  void put(std::string_view key, std::span<const std::string> values);
  void put(std::string_view key, std::span<const std::int32_t> values);
  void put(std::string_view key, std::span<const float> values);
  void copy(const GgufValue& value);  // as it lies in another file

  void declare(std::string_view tensor, DType type, const Shape& shape);

  std::string head() const;  // up to the first byte of the first tensor
  std::size_t padding(std::uint64_t bytes) const;

 private:
  void key(std::string_view name, GgufType type);
  void array(std::string_view name, GgufType element, std::size_t count);

  std::uint64_t alignment_, offset_ = 0;
  std::uint64_t keys_ = 0, tensors_ = 0;
  std::string metadata_, infos_;
};

}  // namespace espalier
