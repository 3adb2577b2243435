// state_path.h: under which tokens the disk tier keeps the state behind the first `position` tokens of a sequence.
//
// The tier knows blocks of tokens only, so a state is kept as blocks that hang behind those of its tokens, told from any
// text by ids that no token has:
//
//   blocks 0 .. b - 1   the sequence's own, position = 16 b + r
//   block b             sixteen times kStatesFollow: states of positions from 16 b to 16 b + 15 hang here
//   block b + 1         the r tokens behind block b, then kFiller; it holds their keys and values
//   block b + 2, ...    kFiller; they hold the state's bytes, one block's after the other
//
// so catalogue, files, checksums and loading are those of any prefix, and look-ups compare every token.
// Units: tokens, blocks of kBlockTokens. Threads: pure functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "cache/disk/prefix_file.h"
#include "espalier/types.h"

namespace espalier {

inline constexpr TokenId kStatesFollow = std::numeric_limits<TokenId>::min();
inline constexpr TokenId kFiller = kStatesFollow + 1;

// Which blocks of its path hold a state.
struct StateBlocks {
  int position = 0, payload = 0;                         // tokens; blocks that the state's bytes take
  int whole() const { return position / kBlockTokens; }  // blocks of the sequence itself
  int first() const { return whole() + 1; }              // the first that holds anything: the tokens behind them
  int bytes_from() const { return first() + 1; }
  int count() const { return 1 + payload; }
  int end() const { return first() + count(); }
};

inline std::vector<TokenId> state_path(std::span<const TokenId> tokens, StateBlocks blocks) {
  std::vector<TokenId> path(static_cast<std::size_t>(blocks.end()) * kBlockTokens, kFiller);
  const auto whole = static_cast<std::size_t>(blocks.whole()) * kBlockTokens;
  std::copy_n(tokens.begin(), whole, path.begin());
  std::fill_n(path.begin() + static_cast<std::ptrdiff_t>(whole), kBlockTokens, kStatesFollow);
  std::copy(tokens.begin() + static_cast<std::ptrdiff_t>(whole), tokens.begin() + blocks.position,
            path.begin() + static_cast<std::ptrdiff_t>(whole) + kBlockTokens);
  return path;
}

}  // namespace espalier
