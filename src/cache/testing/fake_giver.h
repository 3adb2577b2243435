// fake_giver.h: a server of a test's own that greets as one that gives blocks, and then does with each wish what the test wants.
#pragma once

#include <poll.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/sockets/timed_socket.h"
#include "base/system/socket_calls.h"
#include "cache/peers/peer_link.h"
#include "cache/remote/block_value.h"
#include "cache/testing/number_copier.h"

namespace espalier::testing {

// Answers any number of connections, each on a thread of its own.
class FakeGiver {
 public:
  // A wish, and the connection on which it came. What cannot be sent any more is lost.
  struct Call {
    int socket = -1;
    WaitUntil until;
    PeerIdentity us;
    PeerWish wish;
    BlockChain chain;

    bool say(std::string_view bytes) const { return send_all(socket, std::as_bytes(std::span(bytes)), until).ok(); }
    bool hung_up() const {  // waits a little; whoever asks says nothing more
      pollfd waited{socket, POLLIN, 0};
      return ::poll(&waited, 1, 20) > 0 || until.stop.cancelled();
    }
    // A block as it goes over the wire.
    std::string block(int number) const { return block_of(chain, number); }
    std::string block_of(const BlockChain& of, int number) const {
      std::vector<std::byte> data(us.stride);
      const auto all = values_of(of.scope, of.tokens);
      std::memcpy(data.data(), &all[static_cast<std::size_t>(number) * kBlockTokens], kBlockTokens * sizeof(Value));
      const BlockHeader header = block_header(us.namer.model(), of, number, data);
      std::string text(reinterpret_cast<const char*>(header.data()), header.size());
      return text.append(reinterpret_cast<const char*>(data.data()), data.size());
    }
    // A frame that says it holds `count` blocks from `first` on, and what it holds.
    std::string frame(int first, int count, const std::string& blocks) const {
      return to_bytes(PeerFrameHead{PeerFrameKind::blocks,
                                    kPeerPieceBytes + static_cast<std::uint64_t>(count) * (kBlockHeader + us.stride)}) +
             to_bytes(PeerPiece{first, count}) + blocks;
    }
    std::string right(int first, int count) const {
      std::string blocks;
      for (int b = first; b < first + count; ++b) blocks += block(b);
      return frame(first, count, blocks);
    }
    static std::string end(PeerEnd why) { return peer_frame(PeerFrameKind::end, to_bytes(PeerEnding{why, {}})); }
  };
  using Answer = std::function<void(const Call&)>;

  // hello: what it says of itself, but for its chance.
  FakeGiver(PeerIdentity us, Answer answer, std::uint32_t protocol = kPeerProtocol)
      : us_(std::move(us)),
        answer_(std::move(answer)),
        protocol_(protocol),
        listener_(listen_at({"127.0.0.1", 0}, {"a test", "port"}).value()),
        thread_([this] { run(); }) {}
  FakeGiver(const FakeGiver&) = delete;
  FakeGiver& operator=(const FakeGiver&) = delete;
  ~FakeGiver() {
    stop_.cancel();
    thread_.join();
  }
  std::uint16_t port() const { return port_of(listener_.get()); }
  int calls() const { return calls_; }

 private:
  WaitUntil until() const { return {std::chrono::steady_clock::now() + std::chrono::seconds(60), stop_}; }

  void run() {
    while (!stop_.cancelled()) {
      if (!wait_on(listener_.get(), POLLIN, until()).ok()) continue;
      sockaddr_storage from{};
      socklen_t length = sizeof from;
      UniqueFd socket(accept_socket(listener_.get(), reinterpret_cast<sockaddr*>(&from), &length));
      if (!socket) continue;
      connections_.emplace_back([this, socket = std::move(socket)] {
        if (!greet(socket.get())) return;
        while (serve(socket.get())) {
        }
      });
    }
    for (std::thread& connection : connections_) connection.join();
  }
  Result<std::string> receive(int socket, std::size_t bytes) const {
    std::string text(bytes, '\0');
    ESP_CHECK(receive_all(socket, std::as_writable_bytes(std::span(text)), until()));
    return text;
  }
  bool greet(int socket) const {
    const auto theirs = receive(socket, kPeerHelloBytes);
    if (!theirs.ok()) return false;
    PeerHello hello = make_peer_hello(us_.namer.model(), us_.stride);
    hello.protocol = protocol_;
    const std::string ours = to_bytes(hello),
                      said = ours + peer_proof(us_.namer.secret(), PeerSide::gives, *theirs, ours);
    return send_all(socket, std::as_bytes(std::span(said)), until()).ok() && receive(socket, kPeerProofBytes).ok();
  }
  bool serve(int socket) {
    const auto head = receive(socket, kPeerHeadBytes);
    if (!head.ok()) return false;
    const auto read = read_peer_head(*head, kMostPeerWish);
    if (!read.ok()) return false;
    const auto body = receive(socket, read->bytes);
    if (!body.ok()) return false;
    auto wish = read_peer_wish(*body);
    if (!wish.ok()) return false;
    ++calls_;
    BlockChain chain = us_.namer.chain(wish->scope, wish->tokens);
    answer_({socket, until(), us_, std::move(*wish), std::move(chain)});
    return true;
  }

  const PeerIdentity us_;
  const Answer answer_;
  const std::uint32_t protocol_;
  const UniqueFd listener_;
  const CancelFlag stop_;
  std::atomic<int> calls_{0};
  std::vector<std::thread> connections_;  // of the thread
  std::thread thread_;
};

}  // namespace espalier::testing
