// checksum.h: 64-bit checksums of bytes (xxHash64): they find damage, they do not defend against forgery.
// Threads: pure functions. Fails: never.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace espalier {

std::uint64_t checksum(std::span<const std::byte> bytes, std::uint64_t seed = 0);

inline std::uint64_t checksum(std::string_view text, std::uint64_t seed = 0) {
  return checksum(std::as_bytes(std::span(text)), seed);
}

}  // namespace espalier
