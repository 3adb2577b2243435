// mpi_links.h: links between processes that mpirun or srun started, over MPI, by way of libespalier_mpi.so.
//
// The object is looked for in $ESPALIER_DEVICE_DIR, else beside the program, else in ../lib/espalier from there.
// A process that ended is MPI's to see, which ends all others; one that is frozen, or behind a link that stalls, is found by beats
// (mpi_beats.h). A process whose group has ended tells the others why, gives them 0.5 s for their line, and aborts all
// (MPI_Abort).
// Threads: as links.h says; one of its own. Units: bytes.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "ranks/group.h"
#include "ranks/links/links.h"
#include "ranks/mpi/mpi_beats.h"
#include "ranks/mpi/mpi_port.h"
#include "ranks/patience.h"

namespace espalier::ranks {

// The processes that were started together.
class MpiLinks final : public Links {
 public:
  // Fails: not_found (no object), unsupported (of another version, no MPI), bad_request (started otherwise).
  static Result<std::unique_ptr<MpiLinks>> open(const RankPlan& plan, const GroupOptions& options);
  ~MpiLinks() override;

  std::string_view name() const override { return "mpi"; }
  LinkPeer peer(int node) const override { return peers_[static_cast<std::size_t>(node)]; }
  void watch(Lost lost) override { beats_->watch(std::move(lost)); }
  bool exchange(std::uint32_t op, const GivenParts& given, const std::vector<TakenParts>& taken) override;
  bool send(std::uint32_t op, std::uint64_t length, std::span<const std::byte> piece) override;
  std::optional<std::uint64_t> receive(std::uint32_t op, int node, std::uint64_t offset,
                                       std::span<std::byte> room) override;
  int awaited_node() const override { return port_.awaited.load(std::memory_order_relaxed); }
  std::uint64_t bytes_sent() const override { return sent_.load(std::memory_order_relaxed); }
  void end(const Error& why) override { beats_->end(why); }
  void stop() override;

 private:
  MpiLinks(const RankPlan& plan, const EspalierMpiTable& table)
      : plan_(plan), port_(table), patience_(plan.local_size) {}
  Result<> greet(const GroupOptions& options);
  void give(int node, std::span<const std::byte> bytes);
  void take(int node, std::span<std::byte> bytes);
  bool move_all(std::uint32_t op);
  int begin_to_move(std::uint32_t op, std::span<char> why);
  int look(std::span<char> why);
  bool fail(int node, const std::string& how);

  const RankPlan plan_;
  MpiPort port_;
  std::vector<LinkPeer> peers_;
  std::vector<EspalierMpiPart> parts_;
  Patience patience_;
  std::atomic<bool> stopped_ = false;
  std::atomic<std::uint64_t> sent_ = 0;
  std::unique_ptr<MpiBeats> beats_;
};

}  // namespace espalier::ranks
