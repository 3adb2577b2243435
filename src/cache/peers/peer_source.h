// peer_source.h: another server's memory as a place with blocks (--peers): what lies there when it is asked.
// Units: blocks. Threads: one at a time. Fails: as PeerLink. Keeps nothing for others: they ask this server.
#pragma once

#include <utility>

#include "cache/peers/block_pull.h"
#include "cache/remote/block_source.h"

namespace espalier {

// One other server.
class PeerSource final : public BlockSource {
 public:
  PeerSource(HostAndPort where, PeerIdentity us, CancelFlag stop)
      : pull_(std::move(where), std::move(us)), stop_(std::move(stop)) {}

  Result<std::vector<bool>> find(const BlockChain& chain, int first, Time until) override {
    std::vector<bool> there(static_cast<std::size_t>(std::max(chain.blocks() - first, 0)));
    if (there.empty()) return there;
    ESP_TRY(const int found, pull_.find(chain, first, {until, stop_}));
    std::fill_n(there.begin(), std::max(found, 0), true);
    return there;
  }
  Result<Read> read(const BlockChain& chain, int first, std::span<std::byte> into, Time until) override {
    return pull_.read(chain, 0, first, into, {until, stop_});
  }
  Result<Kept> keep(const BlockChain&, int, std::span<const std::byte>, Time) override {
    return Error{Error::Kind::unsupported, "servers keep nothing for others", {}, {}};
  }

 private:
  BlockPull pull_;
  const CancelFlag stop_;
};

}  // namespace espalier
