// byte_cursor.h: little-endian numbers and lengths out of bytes, never past their end.
// Units:   bytes. Threads: one per cursor. Fails: std::nullopt, and the cursor stays where it was.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

namespace espalier {

static_assert(std::endian::native == std::endian::little, "files are little-endian and mapped as they are");

// A place in bytes that moves forward with every number read.
class ByteCursor {
 public:
  explicit ByteCursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::uint64_t offset() const { return at_; }
  std::uint64_t remaining() const { return bytes_.size() - at_; }

  template <class Number>
  std::optional<Number> number() {
    if (remaining() < sizeof(Number)) return std::nullopt;
    Number value;
    std::memcpy(&value, bytes_.data() + at_, sizeof(Number));
    at_ += sizeof(Number);
    return value;
  }

  std::optional<std::span<const std::byte>> take(std::uint64_t count) {
    if (remaining() < count) return std::nullopt;
    const auto part = bytes_.subspan(at_, static_cast<std::size_t>(count));
    at_ += static_cast<std::size_t>(count);
    return part;
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace espalier
