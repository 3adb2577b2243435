// token_compare.h: how far two token runs agree, at the speed memory is read.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "espalier/types.h"

namespace espalier {

// The number of equal tokens at the start of two runs of `count` tokens.
inline int common_prefix(const TokenId* a, const TokenId* b, int count) {
  // memcmp compares with the widest registers of the machine but does not say where; so find the block, then the place.
  constexpr int block = 512;
  int at = 0;
  while (at < count) {
    int length = std::min(block, count - at);
    if (std::memcmp(a + at, b + at, static_cast<std::size_t>(length) * sizeof(TokenId)) != 0) break;
    at += length;
  }
  while (at < count && a[at] == b[at]) ++at;
  return at;
}

}  // namespace espalier
