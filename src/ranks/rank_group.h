// rank_group.h: the one implementation of Collective: a node's shared memory, and links between nodes where there are several.
//
// Ranks of a node write their parts into the segment and say in their slot that they have come. The node's first rank gives the
// node's parts to the other nodes and takes theirs into the segment, so that every byte crosses each link once; then all read.
// A rank that waits looks for a while, for as long as it has a processor of its own, then sleeps.
// Threads, failures: as collective.h says.
#pragma once

#include <atomic>
#include <memory>

#include "ranks/collective.h"
#include "ranks/ending.h"
#include "ranks/links/links.h"
#include "ranks/local_watch.h"
#include "ranks/patience.h"
#include "ranks/segment.h"

namespace espalier::ranks {

// What a rank's place in a group is made of.
struct RankParts {
  RankPlan plan;
  std::shared_ptr<Segment> segment;
  std::shared_ptr<Ending> ending;
  std::unique_ptr<LocalWatch> watch;  // none: the ranks are threads, or alone on their node
  std::unique_ptr<Links> links;       // of a node's first rank, where there are several nodes
};

// A rank whose group is joined.
class RankGroup final : public Collective {
 public:
  explicit RankGroup(RankParts parts);
  ~RankGroup() override;

  int rank() const override { return plan_.rank; }
  int size() const override { return plan_.size; }
  std::string_view name() const override { return name_; }
  std::size_t max_part_bytes() const override { return segment_->max_part_bytes(); }

  std::byte* outgoing(std::size_t bytes) override;
  void exchange(std::span<const std::size_t> bytes) override;
  const std::byte* incoming(int rank) const override;
  void broadcast(int root, std::span<std::byte> bytes) override;
  void broadcast(int root, std::vector<std::byte>& message) override;
  void barrier() override;

  void end(const std::string& why) override;
  bool ended() const override { return parts_.ending->ended(); }
  CollectiveFigures figures() const override;
  std::optional<LateRank> waiting_for() const override;

 private:
  // What a rank is in the middle of.
  enum class Kind : int { exchange, broadcast, barrier };
  class Call;

  int node_of(int rank) const { return rank / plan_.local_size; }
  bool is_local(int rank) const { return node_of(rank) == plan_.node; }
  void arrive(int rank, std::uint32_t op);
  bool await(int rank, std::uint32_t op);
  bool look_for(const RankSlot& slot, std::uint32_t op);
  bool sleep_for(RankSlot& slot, int rank, std::uint32_t op);
  bool await_all(std::uint32_t op);
  bool await_local(std::uint32_t op);
  bool cross(std::uint32_t op, std::span<const std::size_t> bytes, unsigned area);
  bool agree(std::span<const std::size_t> bytes, unsigned area);
  bool give_piece(std::uint64_t length, std::span<const std::byte> piece);
  template <class Place>
  bool take_message(int root, Place place);
  bool take_piece(int root, std::uint64_t offset, std::uint64_t& length);
  void give_message(std::span<const std::byte> message);
  void disagree(int rank, const std::string& what);

  RankParts parts_;
  const RankPlan& plan_;
  Segment* const segment_;
  std::string name_;
  Patience patience_;

  std::uint32_t op_ = 0;          // the last operation begun
  std::uint32_t message_op_ = 0;  // that of the last piece of a message
  unsigned exchanges_ = 0, pieces_ = 0;
  GivenParts given_;
  std::vector<TakenParts> taken_;

  std::atomic<std::uint64_t> exchange_count_ = 0, broadcast_count_ = 0, barrier_count_ = 0;
  std::atomic<std::uint64_t> sent_ = 0, received_ = 0, waited_ns_ = 0;
  std::atomic<std::int64_t> call_began_ns_ = 0;  // 0: no call
  std::atomic<Kind> call_kind_ = Kind::barrier;
  std::atomic<std::uint64_t> call_bytes_ = 0;
  std::atomic<int> awaited_rank_ = -1;
};

}  // namespace espalier::ranks
