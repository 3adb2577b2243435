// peer_link.h: a connection to a server that gives blocks, from the side of who asks.
//
// It greets, asks one wish after another, and reads what comes (peer_wire.h). A server that says nothing for five seconds is gone,
// however long may be waited for blocks: it says every second that it lives.
// Units:   bytes, blocks. Threads: one at a time. Calls wait.
// Fails:   timeout (or stopped), network (refused, closed, silent), unauthorized (another secret), unsupported (other keys and
//          values), bad_request (garbled). The connection is of no use afterwards.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/sockets/timed_socket.h"
#include "cache/peers/peer_wire.h"

namespace espalier {

// Who a server is for the others of its fleet.
struct PeerIdentity {
  BlockNamer namer{"", ""};
  std::size_t stride = 0;  // bytes of a block
};

// A greeted connection.
class PeerLink {
 public:
  static Result<std::unique_ptr<PeerLink>> open(const HostAndPort& where, const PeerIdentity& us,
                                                const WaitUntil& until, const AddressFilter& allowed = {});

  Result<> ask(const PeerWish& wish, const WaitUntil& until);

  // A frame's kind, and what it says. Of blocks, which follow: each is to be taken before the next frame is asked for.
  struct Said {
    PeerFrameKind kind = PeerFrameKind::end;
    int found = 0;
    PeerPiece piece;
    PeerEnding ending;
  };
  Result<Said> next(const WaitUntil& until);
  // The next block of a piece, and whether it is this one: bad_file says what is wrong with it.
  Result<> take(const BlockChain& chain, int block, std::span<std::byte> into, const WaitUntil& until);

 private:
  PeerLink(UniqueFd socket, const PeerIdentity& us) : socket_(std::move(socket)), us_(us) {}
  Result<> greet(const WaitUntil& until);
  Result<std::string> receive(std::size_t bytes, const WaitUntil& until);
  Result<> receive(std::span<std::byte> into, const WaitUntil& until);
  Result<> send(std::string_view bytes, const WaitUntil& until);

  const UniqueFd socket_;
  const PeerIdentity us_;
};

}  // namespace espalier
