#include "bench/fleet/remote_tier.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

namespace espalier::bench {

std::vector<std::uint64_t> block_hashes(std::span<const TokenId> tokens) {
  std::vector<std::uint64_t> hashes;
  std::uint64_t before = 0;
  for (; tokens.size() >= kRemoteBlock; tokens = tokens.subspan(kRemoteBlock))
    hashes.push_back(before = XXH3_64bits_withSeed(tokens.data(), kRemoteBlock * sizeof(TokenId), before));
  return hashes;
}

RemoteTier::RemoteTier(const Settings& settings)
    : settings_(settings),
      most_(static_cast<std::size_t>(std::max(1.0, settings.capacity_bytes / settings.block_bytes))),
      reads_(settings.link),
      writes_(settings.link),
      blocks_(1) {}

void RemoteTier::unlink(Index b) {
  blocks_[blocks_[b].newer].older = blocks_[b].older;
  blocks_[blocks_[b].older].newer = blocks_[b].newer;
}

void RemoteTier::make_newest(Index b) {
  blocks_[b].newer = 0;
  blocks_[b].older = blocks_[0].older;
  blocks_[blocks_[0].older].newer = b;
  blocks_[0].older = b;
}

int RemoteTier::held(std::span<const std::uint64_t> hashes) {
  int count = 0;
  for (const std::uint64_t hash : hashes) {
    const auto found = place_.find(hash);
    if (found == place_.end()) break;
    unlink(found->second);
    make_newest(found->second);
    ++count;
  }
  return count;
}

int RemoteTier::remember(std::span<const std::uint64_t> hashes) {
  const auto known = static_cast<std::size_t>(held(hashes));
  for (const std::uint64_t hash : hashes.subspan(known)) {
    if (place_.contains(hash)) continue;  // behind one that left
    Index b = static_cast<Index>(blocks_.size());
    if (place_.size() < most_) {
      blocks_.emplace_back();
    } else {
      b = blocks_[0].newer;  // the oldest
      place_.erase(blocks_[b].hash);
      unlink(b);
    }
    blocks_[b].hash = hash;
    place_.emplace(hash, b);
    make_newest(b);
  }
  return static_cast<int>(hashes.size() - known);
}

void RemoteTier::store(std::span<const std::uint64_t> hashes, double now) {
  if (const int lacked = remember(hashes); lacked > 0) writes_.send(now, lacked * settings_.block_bytes);
}

}  // namespace espalier::bench
