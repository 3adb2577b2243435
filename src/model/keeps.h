// keeps.h: what a model keeps of the tokens it has seen; the pool, the tree and the disk are sized from this.
//
// Per token: fields, each a key and a value of every head (or one row that is both, or a key alone), stored in the
// token's slot. Per sequence: one state of so many floats (recurrent matrices, the last inputs of convolutions), which
// depends on all tokens before and is replaced as the sequence grows. The blocks declare both (program/builder.h).
// Units: values, tokens. Threads: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace espalier {

// What one layer stores for every token.
struct TokenField {
  int heads = 0;
  int key_dim = 0, value_dim = 0;  // values a head; value_dim 0: keys alone
  bool latent = false;             // one row a head is stored, whose first value_dim values are the value
  std::int64_t window = 0;         // positions that are read back at most, the newest included; 0 = all
  bool operator==(const TokenField&) const = default;
};

// All that a model keeps.
struct Keeps {
  std::vector<TokenField> per_token;
  std::size_t state_floats = 0;  // of one sequence; 0: nothing but its tokens' fields
  bool operator==(const Keeps&) const = default;
};

}  // namespace espalier
