#include "engine/draft/suffix_index.h"

#include <algorithm>

namespace espalier {
namespace {

std::uint64_t hash(std::span<const TokenId> three) {
  std::uint64_t h = 0x9e3779b97f4a7c15ull;
  for (TokenId token : three) {
    h ^= static_cast<std::uint32_t>(token);
    h *= 0xff51afd7ed558ccdull;
    h ^= h >> 32;
  }
  return h;
}

std::span<const TokenId> gram_before(std::span<const TokenId> text, int position) {
  return text.subspan(static_cast<std::size_t>(position - SuffixIndex::kGram), SuffixIndex::kGram);
}

}  // namespace

void SuffixIndex::clear() {
  *this = {};
}

void SuffixIndex::extend(std::span<const TokenId> text) {
  for (; learnt_ < static_cast<int>(text.size()); ++learnt_) {
    if (2 * (used_ + 1) > static_cast<int>(table_.size())) grow(text);
    insert(text, learnt_);
  }
}

void SuffixIndex::insert(std::span<const TokenId> text, int position) {
  const auto gram = gram_before(text, position);
  const std::uint64_t mask = table_.size() - 1;
  for (std::uint64_t at = hash(gram) & mask;; at = (at + 1) & mask) {
    std::int32_t& entry = table_[at];
    if (entry == 0) ++used_;
    if (entry == 0 || std::ranges::equal(gram_before(text, entry), gram)) {
      entry = position;
      return;
    }
  }
}

void SuffixIndex::grow(std::span<const TokenId> text) {
  std::vector<std::int32_t> old(std::max<std::size_t>(64, 2 * table_.size()));
  old.swap(table_);
  used_ = 0;
  for (std::int32_t position : old)
    if (position != 0) insert(text, position);
}

SuffixIndex::Found SuffixIndex::find(std::span<const TokenId> text, std::span<const TokenId> suffix) const {
  if (table_.empty() || suffix.size() < kGram) return {};
  const auto gram = suffix.last(kGram);
  const std::uint64_t mask = table_.size() - 1;
  for (std::uint64_t at = hash(gram) & mask; table_[at] != 0; at = (at + 1) & mask) {
    const std::int32_t position = table_[at];
    if (!std::ranges::equal(gram_before(text, position), gram)) continue;
    int matched = kGram;
    const int most = std::min({kMostCompared, position, static_cast<int>(suffix.size())});
    while (matched < most && text[static_cast<std::size_t>(position - 1 - matched)] ==
                                 suffix[suffix.size() - 1 - static_cast<std::size_t>(matched)])
      ++matched;
    return {position, matched};
  }
  return {};
}

}  // namespace espalier
