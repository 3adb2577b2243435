#include "ranks/tcp/tcp_links.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/system/socket_calls.h"
#include "base/threads/start_thread.h"
#include "base/threads/thread_name.h"
#include "ranks/ending.h"

namespace espalier::ranks {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kDataMark = 0x52505345;  // "ESPR"
constexpr std::size_t kPiecesPerCall = 64;
constexpr int kBeats = 16;          // of a silence
constexpr auto kWordOfEnd = 500ms;  // that a peer's word comes behind the end of its data

}  // namespace

// Another node, from here.
struct TcpLinks::Peer {
  int node = 0, pid = 0;
  std::string host;
  UniqueFd data;
  // Of the thread that exchanges.
  ByteRun out, in;
  DataHead sent, got;
  std::uint32_t op = 0;              // that is received
  std::optional<std::uint64_t> due;  // its bytes, where they are known beforehand
  bool checked = false;              // `got`
  // Of both threads.
  std::atomic<std::uint64_t> awaited_op = 0;  // with bit 32; 0: nothing is awaited
  std::atomic<std::uint64_t> moved = 0;       // bytes that came
  std::atomic<bool> left = false;             // it said goodbye
  std::atomic<bool> gone = false;             // its control connection is closed
  // Of the thread that watches; `control` is written under the mutex.
  FrameSocket control;
  std::uint32_t begun = 0;
  bool beat = false;
  int silent_rounds = 0, stalled_rounds = 0;
  std::uint64_t moved_before = 0;
};

Result<std::unique_ptr<TcpLinks>> TcpLinks::make(const RankPlan& plan, std::vector<MetNode> nodes,
                                                 std::chrono::milliseconds silence) {
  ESP_TRY(WakeDescriptor wake, WakeDescriptor::open());
  std::unique_ptr<TcpLinks> links(new TcpLinks(plan, std::move(nodes), silence, std::move(wake)));
  ESP_TRY(links->thread_, start_thread<std::jthread>(
                              "links' watch", [self = links.get()](const std::stop_token& stop) { self->run(stop); }));
  return links;
}

TcpLinks::TcpLinks(const RankPlan& plan, std::vector<MetNode> nodes, std::chrono::milliseconds silence,
                   WakeDescriptor wake)
    : plan_(plan),
      round_(std::clamp(silence / kBeats, 10ms, 1000ms)),
      most_silent_rounds_(silence.count() > 0 ? static_cast<int>(silence / round_) : 0),
      patience_(plan.local_size),
      wake_(std::move(wake)) {
  for (int i = 0; i < plan.nodes; ++i) {
    peers_.push_back(i == plan.node ? nullptr : std::make_unique<Peer>());
    if (i == plan.node) continue;
    MetNode& met = nodes[static_cast<std::size_t>(i)];
    Peer& peer = *peers_.back();
    peer.node = i;
    peer.pid = met.pid;
    peer.host = met.host;
    peer.data = std::move(met.data);
    peer.control = std::move(met.control);
  }
  for (int i = 1; i < plan.nodes; ++i) order_.push_back((plan.node + i) % plan.nodes);
}

TcpLinks::~TcpLinks() {
  thread_.request_stop();
  wake_.notify();
  if (thread_.joinable()) thread_.join();
  for (const int node : order_) {
    of(node).control.send(FrameKind::goodbye, {});
    ::shutdown(of(node).control.fd(), SHUT_WR);
    static_cast<void>(of(node).control.read());  // what lies unread would reset the connection, and the goodbye with it
  }
}

LinkPeer TcpLinks::peer(int node) const {
  const Peer& peer = *peers_[static_cast<std::size_t>(node)];
  return {peer.host, peer.pid};
}

std::string TcpLinks::describe(const Peer& peer) const {
  const int first = peer.node * plan_.local_size;
  return describe_ranks(first, first + plan_.local_size - 1, plan_.size, peer.pid, peer.host);
}

// --- data -------------------------------------------------------------------------------------------------------------------

void TcpLinks::begin_send(Peer& peer, std::uint32_t op, std::uint64_t length, const GivenParts& given) {
  std::size_t bytes = 0;
  for (const auto& part : given) bytes += part.size();
  peer.sent = {kDataMark, op, length, bytes};
  peer.out.clear();
  peer.out.add(&peer.sent, sizeof peer.sent);
  for (const auto& part : given) peer.out.add(part.data(), part.size());
  sent_.fetch_add(bytes, std::memory_order_relaxed);
}

void TcpLinks::begin_receive(Peer& peer, std::uint32_t op, std::optional<std::uint64_t> bytes) {
  peer.op = op;
  peer.due = bytes;
  peer.checked = false;
  peer.got = {};
  peer.in.clear();
  peer.in.add(&peer.got, sizeof peer.got);
  peer.awaited_op.store(std::uint64_t{1} << 32 | op, std::memory_order_release);
}

bool TcpLinks::exchange(std::uint32_t op, const GivenParts& given, const std::vector<TakenParts>& taken) {
  std::uint64_t own = 0;
  for (const auto& part : given) own += part.size();
  for (const int node : order_) {
    Peer& peer = of(node);
    begin_send(peer, op, own, given);
    const TakenParts& parts = taken[static_cast<std::size_t>(node)];
    std::uint64_t theirs = 0;
    for (const auto& part : parts) theirs += part.size();
    begin_receive(peer, op, theirs);
    for (const auto& part : parts) peer.in.add(part.data(), part.size());
  }
  begun_.store(op, std::memory_order_release);
  return move_all();
}

bool TcpLinks::send(std::uint32_t op, std::uint64_t length, std::span<const std::byte> piece) {
  const GivenParts given{piece};
  for (const int node : order_) begin_send(of(node), op, length, given);
  begun_.store(op, std::memory_order_release);
  return move_all();
}

std::optional<std::uint64_t> TcpLinks::receive(std::uint32_t op, int node, std::uint64_t offset,
                                               std::span<std::byte> room) {
  Peer& peer = of(node);
  begin_receive(peer, op, std::nullopt);
  if (!move_all()) return std::nullopt;
  const std::uint64_t length = peer.got.length;
  const std::size_t bytes = std::min<std::uint64_t>(room.size(), length - std::min(offset, length));
  if (!agrees(peer, bytes)) return std::nullopt;
  if (bytes == 0) return length;
  peer.in.clear();
  peer.in.add(room.data(), bytes);
  peer.awaited_op.store(std::uint64_t{1} << 32 | op, std::memory_order_release);
  if (!move_all()) return std::nullopt;
  return length;
}

// A head that tells another length than is due would have other bytes read as its own: it is looked at as soon as it is there.
bool TcpLinks::agrees(Peer& peer, std::uint64_t bytes) {
  if (peer.got.mark == kDataMark && peer.got.op == peer.op && peer.got.bytes == bytes) return true;
  tell_lost({Error::Kind::internal,
             peer.got.mark != kDataMark
                 ? fmt::format("what {} sent is damaged; the group ends", describe(peer))
                 : fmt::format(
                       "{} came with {} bytes of operation {} where {} bytes of operation {} were due; the group ends",
                       describe(peer), peer.got.bytes, peer.got.op, bytes, peer.op),
             {},
             {}},
            peer.node);
  return false;
}

TcpLinks::Moved TcpLinks::send_some(Peer& peer) {
  if (peer.out.done()) return Moved::none;
  const auto pieces = peer.out.pieces();
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = static_cast<decltype(message.msg_iovlen)>(std::min(pieces.size(), kPiecesPerCall));
  const ssize_t sent = send_now(peer.data.get(), message);
  if (sent < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? Moved::none : Moved::closed;
  peer.out.moved(static_cast<std::size_t>(sent));
  return Moved::some;
}

TcpLinks::Moved TcpLinks::receive_some(Peer& peer) {
  if (peer.in.done()) return Moved::none;
  const auto pieces = peer.in.pieces();
  const ssize_t got =
      ::readv(peer.data.get(), pieces.data(), static_cast<int>(std::min(pieces.size(), kPiecesPerCall)));
  if (got == 0) return Moved::closed;
  if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? Moved::none : Moved::closed;
  peer.in.moved(static_cast<std::size_t>(got));
  peer.moved.fetch_add(static_cast<std::uint64_t>(got), std::memory_order_relaxed);
  if (peer.in.done()) peer.awaited_op.store(0, std::memory_order_release);
  return Moved::some;
}

TcpLinks::Moved TcpLinks::move_each(bool& all_done) {
  Moved moved = Moved::none;
  int awaited = -1;
  for (const int node : order_) {
    Peer& peer = of(node);
    const Moved sent = send_some(peer), got = receive_some(peer);
    if (sent == Moved::closed || got == Moved::closed) return closed(peer), Moved::closed;
    if (sent == Moved::some || got == Moved::some) moved = Moved::some;
    if (!peer.checked && peer.due && peer.in.moved() >= sizeof peer.got) {
      if (!agrees(peer, *peer.due)) return Moved::closed;
      peer.checked = true;
    }
    if (awaited < 0 && !(peer.out.done() && peer.in.done())) awaited = node;
  }
  awaited_.store(awaited, std::memory_order_relaxed);
  all_done = awaited < 0;
  return moved;
}

bool TcpLinks::move_all() {
  patience_.begin();
  for (bool all_done = false;;) {
    const Moved moved = move_each(all_done);
    if (moved == Moved::closed || stopped_.load(std::memory_order_relaxed)) return false;
    if (all_done) return true;
    if (moved == Moved::some) {
      patience_.begin();
    } else if (!patience_.look_again() && !wait_for_sockets()) {
      return false;
    }
  }
}

bool TcpLinks::wait_for_sockets() {
  std::vector<pollfd> waited{{wake_.get(), POLLIN, 0}};
  for (const int node : order_) {
    const Peer& peer = of(node);
    const int events = (peer.out.done() ? 0 : POLLOUT) | (peer.in.done() ? 0 : POLLIN);
    if (events != 0) waited.push_back({peer.data.get(), static_cast<short>(events), 0});
  }
  ::poll(waited.data(), static_cast<nfds_t>(waited.size()), 1000);
  return !stopped_;
}

// The peer's word on the control connection says more than the end of its data.
bool TcpLinks::closed(Peer& peer) {
  for (const auto until = Clock::now() + kWordOfEnd; Clock::now() < until && !stopped_ && !peer.left && !peer.gone;)
    std::this_thread::sleep_for(1ms);
  if (!stopped_) lose(peer, peer.left ? "left while others waited for it" : "ended: its connection was closed");
  return false;
}

// --- control ----------------------------------------------------------------------------------------------------------------

void TcpLinks::end(const Error& why) {
  const std::string body = WireWriter().number(static_cast<std::uint64_t>(why.kind), 1).text(why.message).bytes;
  const std::scoped_lock lock(control_);
  for (const int node : order_)
    if (of(node).control && !of(node).gone) of(node).control.send(FrameKind::end, body);
}

void TcpLinks::stop() {
  stopped_ = true;
  wake_.notify();
}

void TcpLinks::run(const std::stop_token& stop) {
  name_this_thread("ranks-links");
  auto last = Clock::now() - round_;
  while (!stop.stop_requested() && !stopped_) {
    const bool round = Clock::now() - last >= round_;
    if (round) {
      last = Clock::now();
      say_alive();
    }
    for (const int node : order_)
      if (!of(node).gone) look_at(of(node), round);
    wait_for_control();
  }
}

void TcpLinks::say_alive() {
  const std::string body = WireWriter().number(begun_.load(std::memory_order_acquire), 4).bytes;
  const std::scoped_lock lock(control_);
  for (const int node : order_) {
    FrameSocket& control = of(node).control;
    if (!of(node).gone && !control.has_unsent()) control.send(FrameKind::beat, body);
    static_cast<void>(control.flush());
  }
}

void TcpLinks::wait_for_control() {
  std::vector<pollfd> waited{{wake_.get(), POLLIN, 0}};
  for (const int node : order_)
    if (!of(node).gone) waited.push_back({of(node).control.fd(), POLLIN, 0});
  ::poll(waited.data(), static_cast<nfds_t>(waited.size()), static_cast<int>(round_.count()));
}

void TcpLinks::look_at(Peer& peer, bool round) {
  const bool open = peer.control.read();
  take_frames(peer);
  if (!open) {
    if (!peer.left && !stopped_) lose(peer, "ended: its connection was closed");
    peer.gone = true;
    return;
  }
  if (!round || peer.left || most_silent_rounds_ == 0) return;
  look_at_silence(peer);
  look_for_stall(peer);
}

void TcpLinks::take_frames(Peer& peer) {
  for (;;) {
    auto frame = peer.control.next();
    if (!frame.ok()) return lose(peer, "sent what is not of a rank");
    if (!*frame) return;
    WireReader body((*frame)->body);
    if ((*frame)->kind == FrameKind::beat) {
      peer.begun = static_cast<std::uint32_t>(body.number(4));
      peer.beat = true;
    } else if ((*frame)->kind == FrameKind::goodbye) {
      peer.left = true;
    } else if ((*frame)->kind == FrameKind::end) {
      const auto kind = static_cast<Error::Kind>(body.number(1));
      tell_lost({kind, body.text(2000), {}, {}}, peer.node);
      peer.gone = true;
    }
  }
}

void TcpLinks::look_at_silence(Peer& peer) {
  peer.silent_rounds = peer.beat ? 0 : peer.silent_rounds + 1;
  peer.beat = false;
  if (peer.silent_rounds > most_silent_rounds_)
    lose(peer, fmt::format("has not been heard of for {:.3g} s: its host is frozen or the link is down",
                           std::chrono::duration<double>(round_ * peer.silent_rounds).count()));
}

// It has begun to send what we wait for, and nothing of it comes.
void TcpLinks::look_for_stall(Peer& peer) {
  const std::uint64_t awaited = peer.awaited_op.load(std::memory_order_acquire), moved = peer.moved;
  const bool due = awaited != 0 && static_cast<std::int32_t>(peer.begun - static_cast<std::uint32_t>(awaited)) >= 0;
  peer.stalled_rounds = due && moved == peer.moved_before ? peer.stalled_rounds + 1 : 0;
  peer.moved_before = moved;
  if (peer.stalled_rounds > most_silent_rounds_)
    lose(peer, fmt::format("lives, but the link to it has stalled: nothing of what it sent came for {:.3g} s",
                           std::chrono::duration<double>(round_ * peer.stalled_rounds).count()));
}

void TcpLinks::lose(Peer& peer, std::string_view how) {
  tell_lost({Error::Kind::network, fmt::format("{} {}; the group ends", describe(peer), how), {}, {}}, peer.node);
}

// Nobody's call returns before the group has ended: whoever is told ends it, and then stops us.
void TcpLinks::tell_lost(const Error& why, int node) {
  if (loss_.tell(why, node)) return stop();
  for (const auto until = Clock::now() + 1s; !stopped_ && Clock::now() < until;) std::this_thread::sleep_for(1ms);
}

}  // namespace espalier::ranks
