// room_blocks.h: the blocks of a prompt that another server computes at this moment, as they come.
//
// Units:   blocks, bytes. Threads: any; one at a time waits and reads, and what was given up may still do so when it is begun anew.
// Fails:   timeout, network, unauthorized, unsupported, bad_file (damaged), not_found (no more comes). What did not come is
//          computed here.
#pragma once

#include <memory>
#include <mutex>

#include "cache/disk/foreign_blocks.h"
#include "cache/peers/block_pull.h"
#include "cache/peers/peer_counters.h"

namespace espalier {

// One request's blocks.
class RoomBlocks final : public ForeignBlocks {
 public:
  using Chain = std::shared_ptr<const BlockChain>;
  using Time = WaitUntil::Time;
  RoomBlocks(BlockPull pull, Chain chain, std::uint64_t room, Time until, PeerCounters& counters)
      : pull_(std::move(pull)), chain_(std::move(chain)), room_(room), until_{until, {}}, counters_(counters) {}

  Result<int> await(int first_block) override;
  Result<> read(int first_block, std::span<std::byte> into) override;
  void cancel() const { until_.stop.cancel(); }  // nobody needs them any more

 private:
  Error failed(Error why);

  std::mutex mutex_;  // guards the next
  BlockPull pull_;
  const Chain chain_;
  const std::uint64_t room_;
  const WaitUntil until_;
  PeerCounters& counters_;
};

}  // namespace espalier
