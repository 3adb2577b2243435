// links.h: what connects the first ranks of a group's nodes: they give each other what all ranks of their node give.
//
// Frames carry the number of the group's operation and their length; a peer that comes with another ends the group.
// Threads: exchange(), send(), receive(): one at a time; the rest: any. Units: bytes.
// Fails: after a loss calls return false at once; the loss was told (watch()) by then, or is being told.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/error.h"

namespace espalier::ranks {

// Who is at the other end.
struct LinkPeer {
  std::string host;
  int pid = 0;
};

// Parts of one node, in the order of its ranks.
using GivenParts = std::vector<std::span<const std::byte>>;
using TakenParts = std::vector<std::span<std::byte>>;

// The connections of one node with all others.
class Links {
 public:
  virtual ~Links() = default;  // says goodbye
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  virtual std::string_view name() const = 0;  // "tcp", "mpi"
  virtual LinkPeer peer(int node) const = 0;

  // Called once, by any thread, when a peer is lost: with the line that says which, and its node.
  using Lost = std::function<void(const Error& why, int node)>;
  virtual void watch(Lost lost) = 0;

  // Ours to every other node, theirs to where taken[node] says.
  virtual bool exchange(std::uint32_t op, const GivenParts& given, const std::vector<TakenParts>& taken) = 0;
  // A piece of a message of `length` bytes to every other node.
  virtual bool send(std::uint32_t op, std::uint64_t length, std::span<const std::byte> piece) = 0;
  // The same from `node`: as much as `offset` bytes before it left over, no more than the room. The message's length.
  virtual std::optional<std::uint64_t> receive(std::uint32_t op, int node, std::uint64_t offset,
                                               std::span<std::byte> room) = 0;

  virtual int awaited_node() const = 0;  // that a call waits for; -1: none does
  virtual std::uint64_t bytes_sent() const = 0;
  virtual void end(const Error& why) = 0;  // tells the others that the group ends
  // Calls of this node return from now on, as after a loss.
  virtual void stop() = 0;

 protected:
  Links() = default;
};

}  // namespace espalier::ranks
