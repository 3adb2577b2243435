// gguf_directory.h: what stands before the weights in one GGUF file: metadata and the list of tensors.
//
// Reads versions 2 and 3, little-endian. Every count, length, type, offset, product and padding is checked against the
// bytes that are there before it is used; no tensor byte is touched. Checks: magic, version, unique keys and names,
// element types, alignment a power of two in 8..65,536, ranges aligned, inside the file and apart from each other, size
// equal to shape times type. Arrays of arrays are refused (no model uses them).
// Units:   offsets in bytes from the start of the file.
// Threads: pure function; the result's views live as long as `file`.
// Fails:   Error::bad_file whose sentence names the file, the key or tensor, the value and the limit.
// Source:  the GGUF specification in the ggml repository (docs/gguf.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "espalier/error.h"
#include "tensor/file/gguf_metadata.h"
#include "tensor/tensor.h"

namespace espalier {

// What a directory may hold before it is refused.
struct GgufLimits {
  static constexpr std::uint64_t keys = 65'536, key_bytes = 65'535;
  static constexpr std::uint64_t tensors = 262'144, tensor_name_bytes = 255, dimensions = 4;
  static constexpr std::uint64_t array_elements = 1u << 24, array_strings = 1u << 23;
  static constexpr std::uint64_t string_bytes = 64u << 20;      // a chat template is the longest one
  static constexpr std::uint64_t directory_bytes = 512u << 20;  // everything before the weights
  static constexpr std::uint64_t least_alignment = 8, greatest_alignment = 65'536;
};

// A parsed directory: version, alignment, metadata and tensors.
struct GgufDirectory {
  std::uint32_t version = 0;
  std::uint64_t alignment = 32;
  GgufMetadata metadata;
  std::vector<Tensor> tensors;  // in file order, shapes outermost first
};

Result<GgufDirectory> read_gguf_directory(std::span<const std::byte> file, const std::string& file_name);

// Both ways between our types and the numbers GGUF gives them; nullopt where there is no counterpart.
std::optional<DType> dtype_of_gguf(std::uint32_t number);
std::optional<std::uint32_t> gguf_number(DType type);

}  // namespace espalier
