#include "cache/peers/peer_listener.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/log.h"
#include "base/sockets/wire_fields.h"
#include "base/system/socket_calls.h"
#include "base/threads/start_thread.h"
#include "base/threads/thread_name.h"

namespace espalier {
namespace {

using namespace std::chrono_literals;

constexpr int kBuffers = 16;
constexpr int kMostOnTheWay = 2;                // buffers of one wish
constexpr std::uint64_t kPieceBytes = 4 << 20;  // about; the engine copies it between two steps
constexpr std::size_t kMostClients = 256;
constexpr std::size_t kPiecesPerCall = 64;
constexpr std::size_t kReceive = 64 << 10;
constexpr auto kGreets = 5s;
constexpr auto kBeat = 1s;
constexpr auto kStuck = 10s;  // that an asker reads nothing
constexpr auto kRound = 200ms;
constexpr int kIdle = 30, kProbeEvery = 10, kProbes = 3;  // seconds; an asker whose machine is gone

}  // namespace

Result<std::unique_ptr<PeerListener>> PeerListener::open(PeerListenerOptions options, PeerCounters& counters) {
  ESP_TRY(UniqueFd socket, listen_at(options.where, {"the port for other servers", options.flag}));
  ESP_TRY(WakeDescriptor wake, WakeDescriptor::open());
  std::unique_ptr<PeerListener> listener(  // NOLINT: a private constructor
      new PeerListener(std::move(options), counters, std::move(socket), std::move(wake)));
  ESP_TRY(listener->thread_, start_thread<std::jthread>(
                                 "servers'", [it = listener.get()](const std::stop_token& stop) { it->run(stop); }));
  return listener;
}

PeerListener::PeerListener(PeerListenerOptions options, PeerCounters& counters, UniqueFd listener, WakeDescriptor wake)
    : options_(std::move(options)), counters_(counters), listener_(std::move(listener)), wake_(std::move(wake)) {
  while (static_cast<std::uint64_t>(2 * piece_blocks_) * options_.us.stride <= kPieceBytes && piece_blocks_ < 256)
    piece_blocks_ *= 2;
  buffers_ =
      std::make_shared<IoBuffers>(static_cast<std::size_t>(piece_blocks_) * options_.us.stride, kBuffers, options_.pin);
}

PeerListener::~PeerListener() {
  thread_.request_stop();
  wake_.notify();
}

// --- the engine thread ---

std::vector<PeerListener::Asked> PeerListener::take_asked() {
  const std::lock_guard lock(mutex_);
  return std::exchange(asked_, {});
}

std::vector<PeerListener::WishId> PeerListener::take_gone() {
  const std::lock_guard lock(mutex_);
  return std::exchange(gone_, {});
}

// Behind what is still being filled for the same wish.
void PeerListener::submit(Out out) {
  if (std::ranges::find(filling_, out.id, &Out::id) != filling_.end()) return filling_.push_back(std::move(out));
  {
    const std::lock_guard lock(mutex_);
    given_.push_back(std::move(out));
  }
  wake_.notify();
}

void PeerListener::answer(WishId id, int found) {
  Out out;
  out.id = id;
  out.text = peer_frame(PeerFrameKind::found, WireWriter().number(static_cast<std::uint64_t>(found), 4).bytes);
  out.last = true;
  submit(std::move(out));
}

void PeerListener::end(WishId id, const PeerEnding& ending) {
  Out out;
  out.id = id;
  out.text = peer_frame(PeerFrameKind::end, to_bytes(ending));
  out.last = true;
  submit(std::move(out));
}

bool PeerListener::may_give(WishId id) {
  const std::lock_guard lock(mutex_);
  const auto found = on_the_way_.find(id);
  return found != on_the_way_.end() && found->second < kMostOnTheWay;
}

bool PeerListener::give(WishId id, const Chain& chain, PeerPiece piece, const Fill& fill) {
  Out out;
  out.buffer = buffers_->try_acquire();
  if (!out.buffer.valid()) return false;
  fill(out.buffer.bytes().first(static_cast<std::size_t>(piece.count) * options_.us.stride));
  out.id = id;
  out.chain = chain;
  out.piece = piece;
  {
    const std::lock_guard lock(mutex_);
    if (const auto open = on_the_way_.find(id); open != on_the_way_.end()) ++open->second;
  }
  filling_.push_back(std::move(out));
  return true;
}

void PeerListener::filled() {
  if (filling_.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    std::ranges::move(filling_, std::back_inserter(given_));
  }
  filling_.clear();
  wake_.notify();
}

void PeerListener::come_again() const {
  if (options_.wake) options_.wake();
}

// --- the own thread ---

void PeerListener::run(const std::stop_token& stop) {
  name_this_thread("esp-peers");
  std::vector<pollfd> polled;
  while (!stop.stop_requested()) {
    const bool accepts = std::chrono::steady_clock::now() >= accepts_again_;
    polled.assign({{listener_.get(), static_cast<short>(accepts ? POLLIN : 0), 0}, {wake_.get(), POLLIN, 0}});
    for (const Client& client : clients_)
      polled.push_back({client.socket.get(), static_cast<short>(client.out.empty() ? POLLIN : POLLIN | POLLOUT), 0});
    ::poll(polled.data(), static_cast<nfds_t>(polled.size()), static_cast<int>(kRound.count()));
    wake_.clear();
    take_given();
    const Time now = std::chrono::steady_clock::now();
    std::size_t i = 2;
    for (Client& client : clients_) look_at(client, polled[i++].revents, now);
    std::erase_if(clients_, [](const Client& client) { return client.gone; });
    counters_.asking.set(static_cast<double>(std::ranges::count(clients_, Stage::asked, &Client::stage)));
    if (polled[0].revents != 0) accept_all();
  }
}

void PeerListener::accept_all() {
  for (;;) {
    SocketAddress from;
    from.length = sizeof from.storage;
    UniqueFd socket(accept_socket(listener_.get(), reinterpret_cast<sockaddr*>(&from.storage), &from.length));
    if (!socket) {
      accepts_again_ = errno == EAGAIN || errno == ECONNABORTED || errno == EINTR
                           ? Time()
                           : std::chrono::steady_clock::now() + kRound;  // of descriptors, or memory, there is none now
      return;
    }
    if (clients_.size() >= kMostClients && !drop_idle()) {
      counters_.refused.add();
      continue;
    }
    send_at_once(socket.get());
    keep_alive(socket.get(), kIdle, kProbeEvery, kProbes);
    Client& client = clients_.emplace_back();
    client.socket = std::move(socket);
    client.moved = client.spoke = std::chrono::steady_clock::now();
  }
}

// Of those who ask for nothing at present the one that has for the longest: it connects again when it wants something.
bool PeerListener::drop_idle() {
  auto oldest = clients_.end();
  for (auto client = clients_.begin(); client != clients_.end(); ++client)
    if (client->stage == Stage::idle && client->in.empty() &&
        (oldest == clients_.end() || client->spoke < oldest->spoke))
      oldest = client;
  if (oldest == clients_.end()) return false;
  clients_.erase(oldest);
  return true;
}

void PeerListener::take_given() {
  std::vector<Out> given;
  {
    const std::lock_guard lock(mutex_);
    given = std::exchange(given_, {});
  }
  bool freed = false;
  for (Out& out : given) {
    const auto client = std::ranges::find_if(clients_, [&](const Client& c) { return c.wish == out.id && !c.gone; });
    if (client == clients_.end()) {
      freed = freed || out.buffer.valid();
      out.buffer.reset();
      continue;
    }
    if (client->out.empty()) client->moved = std::chrono::steady_clock::now();
    client->out.push_back(std::move(out));
    prepare(client->out.back());
  }
  if (freed && options_.wake) options_.wake();
}

// The text, then each block behind its header, where they lie.
void PeerListener::prepare(Out& out) const {
  if (!out.chain) return out.run.add(out.text.data(), out.text.size());
  const std::size_t stride = options_.us.stride, count = static_cast<std::size_t>(out.piece.count);
  out.text = to_bytes(PeerFrameHead{PeerFrameKind::blocks, kPeerPieceBytes + count * (kBlockHeader + stride)}) +
             to_bytes(out.piece);
  out.run.add(out.text.data(), out.text.size());
  out.headers.reserve(count);
  for (std::size_t b = 0; b < count; ++b) {
    const auto data = out.buffer.bytes().subspan(b * stride, stride);
    out.headers.push_back(
        block_header(options_.us.namer.model(), *out.chain, out.piece.first + static_cast<int>(b), data));
    out.run.add(out.headers.back().data(), kBlockHeader);
    out.run.add(data.data(), data.size());
  }
}

void PeerListener::look_at(Client& client, short events, Time now) {
  const bool readable = (events & (POLLIN | POLLHUP | POLLERR)) != 0;
  if ((readable && !read(client)) || !write(client, now)) return leave(client);
  look_at_time(client, now);
}

// False: it has left, or talks nonsense.
bool PeerListener::read(Client& client) {
  std::array<char, kReceive> bytes;
  for (;;) {
    const ssize_t got = ::recv(client.socket.get(), bytes.data(), bytes.size(), 0);
    if (got == 0) return false;
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (client.stage == Stage::idle && client.in.empty()) client.moved = std::chrono::steady_clock::now();
    client.in.append(bytes.data(), static_cast<std::size_t>(got));
    if (!take_messages(client)) return false;
  }
}

bool PeerListener::take_messages(Client& client) {
  for (;;) {
    const std::size_t before = client.in.size();
    bool right = false;
    switch (client.stage) {
      case Stage::hello:
        right = take_hello(client);
        break;
      case Stage::proof:
        right = take_proof(client);
        break;
      case Stage::idle:
        right = take_wish(client);
        break;
      case Stage::asked:
        return client.in.empty();  // one wish at a time
    }
    if (!right) return false;
    if (client.in.size() == before) return true;  // the rest is on the way
  }
}

bool PeerListener::take_hello(Client& client) {
  if (client.in.size() < kPeerHelloBytes) return true;
  client.their_hello = client.in.substr(0, kPeerHelloBytes);
  client.in.erase(0, kPeerHelloBytes);
  const auto theirs = read_peer_hello(client.their_hello);
  if (!theirs.ok()) return false;
  const PeerHello ours = make_peer_hello(options_.us.namer.model(), options_.us.stride);
  client.our_hello = to_bytes(ours);
  if (auto other = difference(ours, *theirs)) log::warning("a server asks for blocks in vain: {}", other->message);
  say(client,
      client.our_hello + peer_proof(options_.us.namer.secret(), PeerSide::gives, client.their_hello, client.our_hello));
  client.stage = Stage::proof;
  return true;
}

bool PeerListener::take_proof(Client& client) {
  if (client.in.size() < kPeerProofBytes) return true;
  const std::string wanted =
      peer_proof(options_.us.namer.secret(), PeerSide::asks, client.their_hello, client.our_hello);
  if (!same_proof(client.in.substr(0, kPeerProofBytes), wanted)) {
    counters_.refused.add();
    log::warning("a server with another secret (--cache-remote-secret-file) asks for blocks; it gets none");
    return false;
  }
  client.in.erase(0, kPeerProofBytes);
  client.stage = Stage::idle;
  return true;
}

bool PeerListener::take_wish(Client& client) {
  if (client.in.size() < kPeerHeadBytes) return true;
  const auto head = read_peer_head(std::string_view(client.in).substr(0, kPeerHeadBytes), kMostPeerWish);
  if (!head.ok() || head->kind != PeerFrameKind::wish) return false;
  if (client.in.size() - kPeerHeadBytes < head->bytes) return true;
  auto wish = read_peer_wish(std::string_view(client.in).substr(kPeerHeadBytes, head->bytes));
  if (!wish.ok()) return false;
  client.in.erase(0, kPeerHeadBytes + head->bytes);
  client.stage = Stage::asked;
  client.wish = ++last_wish_;
  client.spoke = std::chrono::steady_clock::now();
  counters_.wishes.add();
  Asked asked{client.wish, wish->room, wish->only_find, wish->first,
              std::make_shared<const BlockChain>(options_.us.namer.chain(wish->scope, wish->tokens))};
  {
    const std::lock_guard lock(mutex_);
    on_the_way_.emplace(asked.id, 0);
    asked_.push_back(std::move(asked));
  }
  if (options_.wake) options_.wake();
  return true;
}

void PeerListener::say(Client& client, std::string text) {
  if (client.out.empty()) client.moved = std::chrono::steady_clock::now();
  Out& out = client.out.emplace_back();
  out.text = std::move(text);
  prepare(out);
}

bool PeerListener::write(Client& client, Time now) {
  while (!client.out.empty()) {
    Out& out = client.out.front();
    while (!out.run.done()) {
      const auto pieces = out.run.pieces();
      msghdr message{};
      message.msg_iov = pieces.data();
      message.msg_iovlen = static_cast<decltype(message.msg_iovlen)>(std::min(pieces.size(), kPiecesPerCall));
      const ssize_t sent = send_now(client.socket.get(), message);
      if (sent < 0) return errno == EAGAIN || errno == EINTR;
      out.run.moved(static_cast<std::size_t>(sent));
      client.moved = client.spoke = now;
    }
    finish(client, out);
    client.out.pop_front();
  }
  return true;
}

// All of it is on its way: its buffer serves the next.
void PeerListener::finish(Client& client, Out& out) {
  out.buffer.reset();
  if (out.chain) {
    counters_.given_tokens.add(static_cast<std::uint64_t>(out.piece.count) * kBlockTokens);
    counters_.given_bytes.add(static_cast<std::uint64_t>(out.piece.count) * options_.us.stride);
  }
  if (out.last) {
    client.stage = Stage::idle;
    client.wish = 0;
  }
  {
    const std::lock_guard lock(mutex_);
    if (out.last)
      on_the_way_.erase(out.id);
    else if (const auto open = on_the_way_.find(out.id); out.chain && open != on_the_way_.end())
      --open->second;
  }
  if (out.chain && options_.wake) options_.wake();
}

void PeerListener::look_at_time(Client& client, Time now) {
  const bool greets = client.stage == Stage::hello || client.stage == Stage::proof;
  const bool half_way = !client.out.empty() || (client.stage == Stage::idle && !client.in.empty());
  if ((greets && now - client.moved > kGreets) || (half_way && now - client.moved > kStuck)) return leave(client);
  if (client.stage == Stage::asked && client.out.empty() && now - client.spoke >= kBeat) {
    say(client, peer_frame(PeerFrameKind::beat, ""));
    client.spoke = now;
    if (options_.wake) options_.wake();  // it may have waited for long enough
  }
}

void PeerListener::leave(Client& client) {
  client.gone = true;
  client.out.clear();
  if (client.stage != Stage::asked) return;
  {
    const std::lock_guard lock(mutex_);
    on_the_way_.erase(client.wish);
    gone_.push_back(client.wish);
  }
  if (options_.wake) options_.wake();
}

}  // namespace espalier
