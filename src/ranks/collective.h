// collective.h: a group of processes ("ranks") that compute one model together, and what they give each other.
//
// All ranks make the same calls in the same order: exchange(), broadcast() and barrier() are the group's operations, and the nth of
// one rank meets the nth of all others. Nothing is added up: bytes arrive as they were given, so results are the same at every size.
//
// An exchange has three parts, so that a compute team can pack and unpack with all its threads:
//
//   std::byte* mine = group.outgoing(bytes[group.rank()]);  // packed by all threads
//   group.exchange(bytes);                                  // by one thread, when all have packed
//   group.incoming(r)                                       // read by all threads, for every r, our own too
//
// There are two areas for each rank, used in turn. So a part may be read until the next exchange() is called, also while the part
// for that one is packed, and no barrier is needed behind the reading.
//
// What follows a loss: when a rank ends, says goodbye while somebody waits for it, does not answer any more, or disagrees about
// what is exchanged, the group's loss handler (group.h) is called once in each process; the default writes one line and ends the
// process. Where a handler returns, waiting calls and all later ones return at once, ended() is true and what is read is not
// defined; the memory stays readable.
//
// Threads: outgoing(), incoming(): any, ordered with exchange() by the caller (a compute team's barrier); exchange(), broadcast(),
// barrier(): one at a time; the rest: any. Units: bytes, seconds. Fails: a part larger than max_part_bytes() is a bug of the
// caller: std::length_error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace espalier::ranks {

// What a rank's calls have moved so far.
struct CollectiveFigures {
  std::uint64_t exchanges = 0;
  std::uint64_t broadcasts = 0;
  std::uint64_t barriers = 0;
  std::uint64_t bytes_sent = 0;       // this rank's own parts and messages, once each, however many read them
  std::uint64_t bytes_received = 0;   // those of all others
  std::uint64_t link_bytes_sent = 0;  // over connections between hosts, by this process: once for each other host
  double waited_seconds = 0;          // in these calls, for whatever reason
};

// A rank that others wait for.
struct LateRank {
  int rank = 0;
  std::string host;  // its name, or "" for our own host
  int pid = 0;       // 0: not known
  std::string what;  // what is awaited: "exchange of 16384 bytes"
  double seconds = 0;
};

// One rank's place in a group.
class Collective {
 public:
  virtual ~Collective() = default;  // says goodbye
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // How the group talks: "shared memory", "tcp", "mpi", "shared memory and tcp", ...
  virtual std::string_view name() const = 0;
  // The most that a rank may give in one exchange. Larger ones are refused; memory is taken only for what is used, so that a high
  // bound costs addresses alone.
  virtual std::size_t max_part_bytes() const = 0;

  // Where this rank's part of the next exchange goes: the same place until exchange(), aligned to 64 bytes at least.
  virtual std::byte* outgoing(std::size_t bytes) = 0;
  // bytes[r]: how much rank r gives, known to all ranks alike, 0 too. Returns when the parts of all are there.
  virtual void exchange(std::span<const std::size_t> bytes) = 0;
  // Rank r's part of the last exchange, aligned as outgoing(); readable until the next exchange() is called.
  virtual const std::byte* incoming(int rank) const = 0;

  // `root` sends, the others receive as many bytes. Any length; does not touch the parts of exchanges.
  virtual void broadcast(int root, std::span<std::byte> bytes) = 0;
  // The same where only `root` knows the length: the others get a message of that length.
  virtual void broadcast(int root, std::vector<std::byte>& message) = 0;
  virtual void barrier() = 0;

  // This rank ends the group: the others are told why, as by a loss.
  virtual void end(const std::string& why) = 0;
  virtual bool ended() const = 0;

  virtual CollectiveFigures figures() const = 0;
  // Whom the call that this rank is in waits for, and since when; none: no call waits. For a watchdog, which knows what is long.
  virtual std::optional<LateRank> waiting_for() const = 0;

 protected:
  Collective() = default;
};

}  // namespace espalier::ranks
