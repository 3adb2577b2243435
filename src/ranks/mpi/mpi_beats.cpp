#include "ranks/mpi/mpi_beats.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/sockets/wire_fields.h"
#include "base/threads/start_thread.h"
#include "base/threads/thread_name.h"
#include "ranks/ending.h"
#include "ranks/tcp/frames.h"

namespace espalier::ranks {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int kBeatsOfSilence = 16;                         // of a silence
constexpr auto kListenEvery = 50ms;                         // at most
constexpr auto kTellingEnd = 300ms;                         // to all
constexpr int kGoodbyeRounds = 2;                           // in which what was sent before a goodbye comes
constexpr std::size_t kMostWhy = 1500;                      // of the line that ends a group
constexpr std::uint64_t kSlowest = std::uint64_t{1} << 20;  // bytes that a link carries in a second

std::string word_of(FrameKind kind, std::string_view body = {}) {
  WireWriter writer;
  writer.number(static_cast<std::uint64_t>(kind), 1).bytes += body;
  return std::move(writer.bytes);
}

}  // namespace

MpiBeats::MpiBeats(const RankPlan& plan, std::vector<LinkPeer> peers, MpiPort& port, std::chrono::milliseconds silence)
    : plan_(plan),
      port_(port),
      round_(std::clamp<std::chrono::milliseconds>(silence / kBeatsOfSilence, 10ms, 1000ms)),
      most_silent_(silence.count() > 0 ? static_cast<Rounds>(silence / round_) : 0) {
  for (int node = 0; node < plan.nodes; ++node) {
    if (node == plan.node) continue;
    peers_.emplace_back();
    peers_.back().node = node;
    peers_.back().who = std::move(peers[static_cast<std::size_t>(node)]);
  }
}

Result<std::unique_ptr<MpiBeats>> MpiBeats::start(const RankPlan& plan, std::vector<LinkPeer> peers, MpiPort& port,
                                                  std::chrono::milliseconds silence) {
  std::unique_ptr<MpiBeats> beats(new MpiBeats(plan, std::move(peers), port, silence));
  ESP_TRY(beats->thread_, start_thread<std::jthread>(
                              "links' watch", [self = beats.get()](const std::stop_token& stop) { self->run(stop); }));
  return beats;
}

void MpiBeats::run(const std::stop_token& stop) {
  name_this_thread("ranks-links");
  const auto pause = std::min<std::chrono::milliseconds>(round_ / 2, kListenEvery);
  auto last = Clock::now() - round_;
  while (!stop.stop_requested() && !stopped_) {
    const bool round = Clock::now() - last >= round_;
    if (round) last = Clock::now();
    if (round && !leaving_) say_alive();
    if (leaving_) say_goodbye();
    hear();
    if (round) look_at_peers();
    std::this_thread::sleep_for(pause);
  }
}

void MpiBeats::look_at_peers() {
  const std::uint64_t pieces = port_.pieces.load(std::memory_order_relaxed);
  const bool moved = pieces_before_ != pieces;
  pieces_before_ = pieces;
  for (Peer& peer : peers_) {
    if (!peer.left && most_silent_ > 0) look_at_silence(peer);
    look_for_stall(peer, moved);
  }
}

// Whether the word is on its way. A thread that does not come out of MPI does not keep this one from counting.
bool MpiBeats::tell(int node, const std::string& word) {
  const std::unique_lock lock(port_.calls, round_);
  return lock && port_.table.tell(node, word.data(), word.size()) == 1;
}

void MpiBeats::say_alive() {
  const std::string beat =
      word_of(FrameKind::beat, WireWriter().number(port_.op.load(std::memory_order_acquire), 4).bytes);
  for (const Peer& peer : peers_)
    if (!peer.left) tell(peer.node, beat);
}

void MpiBeats::say_goodbye() {
  bool all = true;
  for (Peer& peer : peers_) {
    peer.told_goodbye = peer.told_goodbye || tell(peer.node, word_of(FrameKind::goodbye));
    all = all && peer.told_goodbye && peer.left;
  }
  all_left_ = all;
}

void MpiBeats::hear() {
  std::array<char, kEspalierMpiWord> room{};
  for (int i = 0; i < 4 * plan_.nodes && !stopped_; ++i) {
    std::int32_t node = -1;
    std::uint64_t bytes = 0;
    {
      const std::unique_lock lock(port_.calls, round_);
      if (!lock || port_.table.hear(&node, room.data(), &bytes) != 1) return;
    }
    for (Peer& peer : peers_)
      if (peer.node == node) take(peer, {room.data(), bytes});
  }
}

void MpiBeats::take(Peer& peer, std::string_view word) {
  WireReader body(word);
  const auto kind = static_cast<FrameKind>(body.number(1));
  if (kind == FrameKind::beat) {
    peer.begun = static_cast<std::uint32_t>(body.number(4));
    peer.beat = true;
  } else if (kind == FrameKind::goodbye) {
    peer.left = true;
  } else if (kind == FrameKind::end) {
    const auto why = static_cast<Error::Kind>(body.number(1));
    if (loss_.tell({why, body.text(kMostWhy), {}, {}}, peer.node)) stop();
  }
}

void MpiBeats::look_at_silence(Peer& peer) {
  peer.silent = peer.beat ? 0 : peer.silent + 1;
  peer.beat = false;
  if (peer.silent > most_silent_)
    lose(peer.node, fmt::format("has not been heard of for {:.3g} s{}: it is frozen, or the link to it is down",
                                seconds(peer.silent), awaited_from(peer)));
}

// It has begun what we wait for, or has left, and nothing of it comes.
void MpiBeats::look_for_stall(Peer& peer, bool moved) {
  const bool awaited = port_.awaited.load(std::memory_order_acquire) == peer.node;
  const std::uint32_t op = port_.op.load(std::memory_order_acquire);
  const bool due = awaited && (peer.left || static_cast<std::int32_t>(peer.begun - op) >= 0);
  peer.stalled = due && !moved ? peer.stalled + 1 : 0;
  if (peer.left && peer.stalled > kGoodbyeRounds)
    lose(peer.node, "left while others waited for it");
  else if (most_silent_ > 0 && peer.stalled > most_stalled())
    lose(peer.node, fmt::format("lives, but the link to it has stalled: nothing came for {:.3g} s{}",
                                seconds(peer.stalled), awaited_from(peer)));
}

MpiBeats::Rounds MpiBeats::most_stalled() const {
  const std::chrono::seconds carrying(port_.bytes.load(std::memory_order_relaxed) / kSlowest);
  return most_silent_ + static_cast<Rounds>(carrying / round_);
}

std::string MpiBeats::awaited_from(const Peer& peer) const {
  if (port_.awaited.load(std::memory_order_acquire) != peer.node) return {};
  return fmt::format(", while operation {} ({} bytes) waits for it", port_.op.load(std::memory_order_acquire),
                     port_.bytes.load(std::memory_order_relaxed));
}

void MpiBeats::lose(int node, std::string_view how) {
  const auto peer = std::ranges::find(peers_, node, &Peer::node);
  const int first = node * plan_.local_size, last = first + plan_.local_size - 1;
  const Error why{
      Error::Kind::network,
      fmt::format("{} {}; the group ends", describe_ranks(first, last, plan_.size, peer->who.pid, peer->who.host), how),
      {},
      {}};
  if (leaving_) lost_leaving_ = why;
  if (loss_.tell(why, node)) stop();
}

// As long as it takes, within reason: who is frozen will not hear it.
void MpiBeats::end(const Error& why) {
  const std::string last =
      word_of(FrameKind::end,
              WireWriter().number(static_cast<std::uint64_t>(why.kind), 1).text(why.message.substr(0, kMostWhy)).bytes);
  std::vector<int> untold;
  for (const Peer& peer : peers_) untold.push_back(peer.node);
  for (const auto until = Clock::now() + kTellingEnd; !untold.empty() && Clock::now() < until;) {
    std::erase_if(untold, [&](int node) { return tell(node, last); });
    std::this_thread::sleep_for(10ms);
  }
}

Result<> MpiBeats::leave() {
  leaving_ = true;
  while (!all_left_ && !stopped_) std::this_thread::sleep_for(1ms);
  if (stopped_ && lost_leaving_) return *lost_leaving_;
  return success();
}

}  // namespace espalier::ranks
