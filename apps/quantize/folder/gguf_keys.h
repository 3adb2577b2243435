// gguf_keys.h: key and value pairs of a GGUF file to be.
// Threads: values. Fails: never.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/json/json.h"
#include "tensor/file/gguf_writer.h"

namespace espalier::quantizer {

// In the order in which they are written.
struct GgufKeys {
  using Value = std::variant<std::uint32_t, float, bool, std::string, std::vector<std::string>,
                             std::vector<std::int32_t>, std::vector<float>>;
  std::vector<std::pair<std::string, Value>> all;

  void put(std::string key, Value value) { all.emplace_back(std::move(key), std::move(value)); }
  void count(std::string key, std::int64_t value) { put(std::move(key), static_cast<std::uint32_t>(value)); }
  void write(GgufWriter& to) const;
  // Those behind the prefix, as a reader of hyperparameters sees them.
  Json object(std::string_view prefix) const;
};

}  // namespace espalier::quantizer
