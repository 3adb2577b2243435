// block_pull.h: blocks of one sequence after another, out of another server's memory.
//
// A read that goes on where the last one ended takes what the server has already begun to send; any other asks anew.
// Units:   blocks, bytes. Threads: one at a time. Calls wait. Fails: as PeerLink; the next read connects again.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cache/peers/peer_link.h"
#include "cache/remote/block_source.h"

namespace espalier {

// A server that is asked, the connection to it, and what comes on it.
class BlockPull {
 public:
  BlockPull(HostAndPort where, PeerIdentity us, AddressFilter allowed = {})
      : where_(std::move(where)), us_(std::move(us)), allowed_(std::move(allowed)) {}

  const HostAndPort& where() const { return where_; }
  std::size_t stride() const { return us_.stride; }  // bytes of a block
  // How many blocks from `first` on lie there now.
  Result<int> find(const BlockChain& chain, int first, const WaitUntil& until);
  // Waits until the next block comes: how many come with it. Or none will: 0, and why_ended() says why.
  Result<int> await(const BlockChain& chain, std::uint64_t room, int first, const WaitUntil& until);
  // As many blocks from `first` on as `into` holds; fewer: no more come, or the next is damaged.
  Result<BlockSource::Read> read(const BlockChain& chain, std::uint64_t room, int first, std::span<std::byte> into,
                                 const WaitUntil& until);
  const PeerEnding& why_ended() const { return ending_; }

 private:
  Result<> connect(const WaitUntil& until);
  Result<> begin(const BlockChain& chain, std::uint64_t room, int first, const WaitUntil& until);
  bool goes_on(const BlockChain& chain, std::uint64_t room, int first) const;
  Result<int> next_piece(const BlockChain& chain, const WaitUntil& until);
  template <class T>
  Result<T> or_closed(Result<T> result);

  const HostAndPort where_;
  const PeerIdentity us_;
  const AddressFilter allowed_;
  std::unique_ptr<PeerLink> link_;
  // The wish that goes on.
  bool asked_ = false;
  BlockName last_ = {};  // the name of its last block
  std::uint64_t room_ = 0;
  int next_ = 0;  // block
  int left_ = 0;  // blocks of the frame that is being read
  PeerEnding ending_;
};

}  // namespace espalier
