// mpi_beats.h: what the processes of an MPI group tell each other beside their data: that they live, that they leave, why they end.
//
// MPI sees processes that ended, and no frozen ones. So a thread sends a beat to each other node every sixteenth of `silence`, by MPI
// itself and hence over the link that carries the data, with the operation that its process has begun. A peer is lost when no beat
// comes, or when it has begun the operation for which we wait and MPI has done no piece of it for `silence` and a second for each
// MiB; a peer that computes for as long as it likes is not.
// Time is counted in rounds of the own thread, so that a host that slept loses nobody by that alone.
// Threads: one of its own; functions: any, leave(): one. Units: bytes, milliseconds.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ranks/links/loss_word.h"
#include "ranks/mpi/mpi_port.h"
#include "ranks/rank_plan.h"

namespace espalier::ranks {

// The thread that beats and listens.
class MpiBeats {
 public:
  // Fails: no_thread().
  static Result<std::unique_ptr<MpiBeats>> start(const RankPlan& plan, std::vector<LinkPeer> peers, MpiPort& port,
                                                 std::chrono::milliseconds silence);
  ~MpiBeats() = default;  // ends the thread
  MpiBeats(const MpiBeats&) = delete;
  MpiBeats& operator=(const MpiBeats&) = delete;

  void watch(Links::Lost lost) { loss_.watch(std::move(lost)); }
  void lose(int node, std::string_view how);
  void end(const Error& why);  // tells the others that the group ends
  void stop() { stopped_ = true; }
  // Says goodbye, and waits until all have. Fails with who went silent before.
  Result<> leave();

 private:
  using Rounds = int;
  // Another node, from here; of the own thread.
  struct Peer {
    int node = 0;
    LinkPeer who;
    std::uint32_t begun = 0;
    bool beat = false, left = false, told_goodbye = false;
    Rounds silent = 0, stalled = 0;
  };

  MpiBeats(const RankPlan& plan, std::vector<LinkPeer> peers, MpiPort& port, std::chrono::milliseconds silence);
  void run(const std::stop_token& stop);
  void hear();
  void take(Peer& peer, std::string_view word);
  void say_alive();
  void say_goodbye();
  void look_at_peers();
  void look_at_silence(Peer& peer);
  void look_for_stall(Peer& peer, bool moved);
  Rounds most_stalled() const;
  std::string awaited_from(const Peer& peer) const;
  double seconds(Rounds rounds) const { return std::chrono::duration<double>(round_ * rounds).count(); }
  bool tell(int node, const std::string& word);

  const RankPlan plan_;
  MpiPort& port_;
  std::vector<Peer> peers_;  // all others
  const std::chrono::milliseconds round_;
  const Rounds most_silent_;  // 0: any number
  std::uint64_t pieces_before_ = 0;
  LossWord loss_;
  std::atomic<bool> stopped_ = false, leaving_ = false, all_left_ = false;
  std::optional<Error> lost_leaving_;  // read behind stopped_
  std::jthread thread_;
};

}  // namespace espalier::ranks
