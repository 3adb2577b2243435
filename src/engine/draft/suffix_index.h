// suffix_index.h: where in a text the last few tokens stood before, to guess what follows them now.
//
// An open-addressing table from the hash of three tokens to the position behind their latest occurrence. The text is
// the caller's and only grows.
// Cost: O(1) a token and a look-up; four bytes a token, doubled when half full. Threads: a value. Fails: never; a hash
// that lies is found out by comparing tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "espalier/types.h"

namespace espalier {

// The last position of every run of three tokens in one growing text.
class SuffixIndex {
 public:
  static constexpr int kGram = 3;

  struct Found {
    int position = -1;  // in the text, of the token that followed; -1: nothing
    int matched = 0;    // tokens before it that agree with the end of the suffix, at most kMostCompared
  };
  static constexpr int kMostCompared = 32;

  // Learns every place of the text whose follower is known: all but the last token's.
  void extend(std::span<const TokenId> text);

  // Where the last tokens of `suffix` occur in the text that was given to extend().
  Found find(std::span<const TokenId> text, std::span<const TokenId> suffix) const;

  int learnt() const { return learnt_; }
  void clear();

 private:
  void insert(std::span<const TokenId> text, int position);
  void grow(std::span<const TokenId> text);

  std::vector<std::int32_t> table_;  // position behind the three tokens, or 0
  int used_ = 0;
  int learnt_ = kGram;  // the next position to learn
};

}  // namespace espalier
