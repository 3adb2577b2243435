// mpi_links.h: links between processes that mpirun or srun started, over MPI, by way of libespalier_mpi.so.
//
// The object is looked for in $ESPALIER_DEVICE_DIR, else beside the program, else in ../lib/espalier from there.
// Who is lost is MPI's to see: it ends all processes when one ends without a goodbye, and a process whose group has ended aborts
// the others (MPI_Abort). A rank that is frozen is only named, by Collective::waiting_for().
// Threads: as links.h says. Units: bytes.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "ranks/group.h"
#include "ranks/links/links.h"
#include "ranks/mpi/abi.h"
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
  void watch(Lost lost) override { lost_ = std::move(lost); }
  bool exchange(std::uint32_t op, const GivenParts& given, const std::vector<TakenParts>& taken) override;
  bool send(std::uint32_t op, std::uint64_t length, std::span<const std::byte> piece) override;
  std::optional<std::uint64_t> receive(std::uint32_t op, int node, std::uint64_t offset,
                                       std::span<std::byte> room) override;
  int awaited_node() const override { return awaited_.load(std::memory_order_relaxed); }
  std::uint64_t bytes_sent() const override { return sent_.load(std::memory_order_relaxed); }
  void end(const Error&) override {}
  void stop() override { stopped_ = true; }

 private:
  MpiLinks(const RankPlan& plan, const EspalierMpiTable& table)
      : plan_(plan), table_(table), patience_(plan.local_size) {}
  Result<> greet(const GroupOptions& options);
  void give(int node, std::span<const std::byte> bytes);
  void take(int node, std::span<std::byte> bytes);
  bool move_all(int awaited);
  bool fail(int node, const std::string& how);

  const RankPlan plan_;
  const EspalierMpiTable& table_;
  std::vector<LinkPeer> peers_;
  std::vector<EspalierMpiPart> parts_;
  Patience patience_;
  Lost lost_;
  std::atomic<bool> stopped_ = false;
  std::atomic<int> awaited_ = -1;
  std::atomic<std::uint64_t> sent_ = 0;
};

}  // namespace espalier::ranks
