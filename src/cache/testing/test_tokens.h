// test_tokens.h: token lists for tests of the tree.
#pragma once

#include <numeric>
#include <vector>

#include "espalier/types.h"

namespace espalier::testing {

using Tokens = std::vector<TokenId>;

inline Tokens counting(TokenId first, int count) {
  Tokens tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

inline Tokens join(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace espalier::testing
