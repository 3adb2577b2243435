#include "base/checksum.h"

// Inlined, so that the program needs no library of it at run time (Debian: libxxhash-dev).
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace espalier {

std::uint64_t checksum(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH64(bytes.data(), bytes.size(), seed);
}

}  // namespace espalier
