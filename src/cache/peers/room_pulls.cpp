#include "cache/peers/room_pulls.h"

#include <algorithm>

namespace espalier {

bool RoomPulls::ask(std::uint64_t owner, const Handoff& handoff, const CacheKey& key, int held, int limit) {
  if (handoff.host.empty()) return false;
  const auto most = static_cast<std::size_t>(std::max(limit + kBlockTokens - 1, 0) / kBlockTokens) * kBlockTokens;
  const auto tokens = key.tokens.first(std::min(key.tokens.size(), most));
  auto chain = std::make_shared<const BlockChain>(options_.us.namer.chain(key.scope, tokens));
  const int first = held / kBlockTokens;
  if (first >= chain->blocks()) {
    counters_.rooms_unneeded.add();
    return false;
  }
  const HostAndPort where{handoff.host, static_cast<std::uint16_t>(handoff.port > 0 ? handoff.port : options_.port)};
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration_cast<WaitUntil::Time::duration>(
                                                            std::chrono::duration<double>(options_.seconds));
  auto blocks = std::make_shared<RoomBlocks>(BlockPull(where, options_.us, options_.allowed), chain, handoff.room,
                                             until, counters_, pace_);
  const auto file = disk_.add_foreign(key.scope, chain->tokens, first, blocks);
  if (!file) return false;
  counters_.rooms.add();
  pulls_.push_back({owner, *file, std::move(blocks)});
  return true;
}

void RoomPulls::drop(const Pull& pull) {
  pull.blocks->cancel();
  disk_.drop_foreign(pull.file);
}

void RoomPulls::forget(std::uint64_t owner) {
  std::erase_if(pulls_, [&](const Pull& pull) {
    if (pull.owner != owner) return false;
    drop(pull);
    return true;
  });
}

void RoomPulls::clear() {
  for (const Pull& pull : pulls_) drop(pull);
  pulls_.clear();
}

void RoomPulls::stop() {
  for (const Pull& pull : pulls_) pull.blocks->cancel();
}

}  // namespace espalier
