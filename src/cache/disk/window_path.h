// window_path.h: under which tokens the disk tier keeps what is read through a window.
//
// Tokens are kept in groups of kGroupTokens, at multiples of so many. A group may end before its last token, where a text ends or
// others go on differently, and lack its first ones, which the window has passed. As a state is (state_path.h), it is kept as blocks
// that hang behind those of its tokens, told from any text by ids that no token has:
//
//   blocks 0 .. b - 1   the sequence's own, end = 16 b + r
//   block b             sixteen times kWindowFollows
//   block b + 1         kTokensSkipped + how many are lacking, the r tokens behind block b, kFiller; this block and those behind it
//                       hold the bytes
//   block b + 2, ...    kFiller
//
// Units: tokens, positions. Threads: pure functions.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "cache/disk/state_path.h"

namespace espalier {

inline constexpr TokenId kWindowFollows = kFiller + 1;
inline constexpr TokenId kTokensSkipped = kWindowFollows + 1;
inline constexpr int kGroupTokens = 8 * kBlockTokens;

// Tokens whose windows are kept together.
struct WindowGroup {
  int end = 0;      // position behind the last one
  int skipped = 0;  // so many of the first ones are lacking
  int begin() const { return (end - 1) / kGroupTokens * kGroupTokens + skipped; }
  int tokens() const { return end - begin(); }
  int bytes_from() const { return end / kBlockTokens + 1; }  // block of the path
  bool covers(int from, int to) const { return begin() <= from && to <= end; }
};

inline std::vector<TokenId> window_path(std::span<const TokenId> tokens, WindowGroup group, int payload) {
  const auto whole = static_cast<std::size_t>(group.end / kBlockTokens) * kBlockTokens;
  std::vector<TokenId> path(whole + static_cast<std::size_t>(1 + payload) * kBlockTokens, kFiller);
  std::copy_n(tokens.begin(), whole, path.begin());
  const auto follow = path.begin() + static_cast<std::ptrdiff_t>(whole);
  std::fill_n(follow, kBlockTokens, kWindowFollows);
  follow[kBlockTokens] = kTokensSkipped + group.skipped;
  std::copy(tokens.begin() + static_cast<std::ptrdiff_t>(whole), tokens.begin() + group.end, follow + kBlockTokens + 1);
  return path;
}

}  // namespace espalier
