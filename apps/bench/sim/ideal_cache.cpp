#include "bench/sim/ideal_cache.h"

#include <algorithm>

namespace espalier::bench {
namespace {

constexpr std::uint64_t kStart = 0x243f6a8885a308d3u;

std::uint64_t step(std::uint64_t hash, TokenId id) {
  hash = (hash ^ static_cast<std::uint32_t>(id)) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 32);
}

// The chain above mixes the high bits into the low ones well enough to tell prefixes apart; a set wants all bits mixed.
std::uint64_t mixed(std::uint64_t hash) {
  hash *= 0xbf58476d1ce4e5b9u;
  return hash ^ (hash >> 29);
}

}  // namespace

IdealCache::Seen& IdealCache::of_round(std::uint64_t round) {
  Seen& seen = rounds_[round];
  while (rounds_.size() > kept_rounds_ && rounds_.begin()->first < round) rounds_.erase(rounds_.begin());
  return seen;
}

IdealCache::Found IdealCache::ask(std::span<const TokenId> prompt, std::size_t own, std::uint64_t round) {
  prefixes_.resize(prompt.size());
  std::uint64_t hash = kStart;
  for (std::size_t i = 0; i < prompt.size(); ++i) prefixes_[i] = hash = step(hash, prompt[i]);
  if (prompt.empty()) return {0, hash};
  Seen& fresh = of_round(round);
  const auto seen = [&](std::size_t i) { return (i < own ? shared_ : fresh).contains(mixed(prefixes_[i])); };
  // With a prefix all shorter ones were seen, so the longest is found by halving.
  std::size_t known = 0, unknown = prompt.size();
  while (known < unknown) {
    const std::size_t middle = (known + unknown) / 2;
    if (seen(middle))
      known = middle + 1;
    else
      unknown = middle;
  }
  for (std::size_t i = known; i < prompt.size(); ++i) (i < own ? shared_ : fresh).insert(mixed(prefixes_[i]));
  distinct_ += static_cast<std::int64_t>(prompt.size() - known);
  return {std::min(known, prompt.size() - 1), hash};
}

void IdealCache::add_output(std::span<const TokenId> output, std::uint64_t round) {
  Seen& fresh = of_round(round);
  std::uint64_t hash = prefixes_.empty() ? kStart : prefixes_.back();
  for (const TokenId id : output) distinct_ += fresh.insert(mixed(hash = step(hash, id))).second;
}

}  // namespace espalier::bench
