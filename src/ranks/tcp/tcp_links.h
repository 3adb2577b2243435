// tcp_links.h: links between nodes over TCP: a connection for data, and one on which each says now and then that it lives.
//
// Data: a head with the operation's number and the length, then the bytes, read straight to where they belong.
// Control: a beat every sixteenth of `silence`, with the operation whose bytes the sender has begun to send. So a peer is lost when
// its connection closes without a goodbye, when no beat comes, or when it has begun to send what is awaited and no byte of it comes;
// a peer that computes for as long as it likes is not.
// Time is counted in rounds of the own thread, so that a host that slept loses nobody by that alone.
// Threads: as links.h says; one of its own. Units: bytes, milliseconds.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/sockets/byte_run.h"
#include "base/system/wake_descriptor.h"
#include "ranks/links/links.h"
#include "ranks/links/loss_word.h"
#include "ranks/patience.h"
#include "ranks/rank_plan.h"
#include "ranks/tcp/meeting.h"

namespace espalier::ranks {

// What stands before the bytes of a frame of data.
struct DataHead {
  std::uint32_t mark = 0, op = 0;
  std::uint64_t length = 0;  // of the whole message
  std::uint64_t bytes = 0;   // that follow
};

// The connections to all other nodes.
class TcpLinks final : public Links {
 public:
  // Fails: out_of_memory (no descriptor, no thread).
  static Result<std::unique_ptr<TcpLinks>> make(const RankPlan& plan, std::vector<MetNode> nodes,
                                                std::chrono::milliseconds silence);
  ~TcpLinks() override;

  std::string_view name() const override { return "tcp"; }
  LinkPeer peer(int node) const override;
  void watch(Lost lost) override { loss_.watch(std::move(lost)); }
  bool exchange(std::uint32_t op, const GivenParts& given, const std::vector<TakenParts>& taken) override;
  bool send(std::uint32_t op, std::uint64_t length, std::span<const std::byte> piece) override;
  std::optional<std::uint64_t> receive(std::uint32_t op, int node, std::uint64_t offset,
                                       std::span<std::byte> room) override;
  int awaited_node() const override { return awaited_.load(std::memory_order_relaxed); }
  std::uint64_t bytes_sent() const override { return sent_.load(std::memory_order_relaxed); }
  void end(const Error& why) override;
  void stop() override;

 private:
  struct Peer;
  enum class Moved : std::uint8_t { none, some, closed };

  TcpLinks(const RankPlan& plan, std::vector<MetNode> nodes, std::chrono::milliseconds silence, WakeDescriptor wake);
  Peer& of(int node) { return *peers_[static_cast<std::size_t>(node)]; }
  // Data.
  void begin_send(Peer& peer, std::uint32_t op, std::uint64_t length, const GivenParts& given);
  void begin_receive(Peer& peer, std::uint32_t op, std::optional<std::uint64_t> bytes);
  bool move_all();
  Moved move_each(bool& all_done);
  static Moved send_some(Peer& peer);
  static Moved receive_some(Peer& peer);
  bool wait_for_sockets();
  bool agrees(Peer& peer, std::uint64_t bytes);
  bool closed(Peer& peer);
  // Control.
  void run(const std::stop_token& stop);
  void say_alive();
  void look_at(Peer& peer, bool round);
  void take_frames(Peer& peer);
  void look_at_silence(Peer& peer);
  void look_for_stall(Peer& peer);
  void wait_for_control();
  void lose(Peer& peer, std::string_view how);
  void tell_lost(const Error& why, int node);
  std::string describe(const Peer& peer) const;

  const RankPlan plan_;
  std::vector<std::unique_ptr<Peer>> peers_;  // by node; none: our own
  std::vector<int> order_;                    // the others, from the next one on
  std::chrono::milliseconds round_;
  int most_silent_rounds_ = 0;
  Patience patience_;
  WakeDescriptor wake_;
  LossWord loss_;
  std::atomic<bool> stopped_ = false;
  std::atomic<int> awaited_ = -1;
  std::atomic<std::uint64_t> sent_ = 0;
  std::atomic<std::uint32_t> begun_ = 0;  // the operation that we send
  std::mutex control_;                    // of all that is written to control connections
  std::jthread thread_;
};

}  // namespace espalier::ranks
