// source_group.h: several places with blocks as one: all are asked, and who has most of a sequence is read from.
//
// One that fails is left alone for a while (remote_health.h), and the others go on; where none answers nothing is found.
// Units:   blocks. Threads: one at a time; what groups of several threads share (SharedChoices) any.
// Fails:   never to find and read; keep() as the first one.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "cache/remote/block_source.h"
#include "cache/remote/remote_health.h"

namespace espalier {

// Where sequences were found lately: one thread finds, another reads.
class SharedChoices {
 public:
  void note(const BlockName& last, std::size_t member);
  std::size_t of(const BlockName& last) const;  // 0 where nothing is known

 private:
  static constexpr std::size_t kMost = 256;
  mutable std::mutex mutex_;
  std::deque<std::pair<BlockName, std::size_t>> choices_;  // the newest first
};

// The members, the first of which keeps what is given.
class SourceGroup final : public BlockSource {
 public:
  struct Member {
    std::unique_ptr<BlockSource> source;
    std::shared_ptr<RemoteHealth> health;
  };
  SourceGroup(std::vector<Member> members, std::shared_ptr<SharedChoices> choices)
      : members_(std::move(members)), choices_(std::move(choices)) {}

  Result<std::vector<bool>> find(const BlockChain& chain, int first, Time until) override;
  Result<Read> read(const BlockChain& chain, int first, std::span<std::byte> into, Time until) override;
  Result<Kept> keep(const BlockChain& chain, int first, std::span<const std::byte> blocks, Time until) override;

 private:
  std::vector<Member> members_;
  const std::shared_ptr<SharedChoices> choices_;
};

}  // namespace espalier
