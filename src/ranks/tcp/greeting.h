// greeting.h: what nodes tell each other when they connect, and whether they belong together.
//
//   caller                      called
//   hello              ->
//                      <-       hello, proof
//   proof              ->
//
// A proof is a digest of both hellos, each with its own random bytes, keyed with the group's secret: who does not know it can
// neither make one nor use one again. What must be equal is compared only behind the proofs. Nothing is encrypted.
// Threads: one. Fails: see GreetingEnd.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ranks/tcp/frames.h"

namespace espalier::ranks {

constexpr std::uint32_t kRankProtocol = 1;

// What a connection is for.
enum class ConnectionRole : std::uint8_t { control, data };

// A node's word about itself and its group.
struct Hello {
  std::uint32_t protocol = kRankProtocol;
  ConnectionRole role = ConnectionRole::control;
  bool has_secret = false;
  int node = 0, nodes = 1, size = 1;
  int pid = 0;
  std::uint16_t port = 0;  // where this node listens
  std::uint64_t max_part_bytes = 0;
  std::string nonce;    // kNonceBytes of chance
  std::string version;  // of the program
  std::string key;      // what must be equal
  std::string host;     // its name
};
constexpr std::size_t kNonceBytes = 32;

std::string to_bytes(const Hello& hello);
Result<Hello> read_hello(std::string_view bytes);
std::string random_nonce();

// Why two nodes do not belong together, with what each has; none: they do.
std::optional<Error> difference(const Hello& ours, const Hello& theirs);

// How a greeting ended.
enum class GreetingEnd : std::uint8_t {
  pending,
  agreed,
  foreign,   // whoever called is not of the group: no rank, another secret, another protocol, gone
  disagrees  // a rank that knows the secret, but was started otherwise
};

// One connection's greeting, from either end.
class Greeting {
 public:
  Greeting(FrameSocket socket, bool calls, Hello ours, std::string secret);

  // Goes as far as it can without waiting.
  GreetingEnd advance();
  const Hello& theirs() const { return *theirs_; }  // once agreed
  const Error& error() const { return error_; }     // once foreign or disagrees
  FrameSocket& socket() { return socket_; }
  FrameSocket take() { return std::move(socket_); }

 private:
  GreetingEnd read_frames();
  GreetingEnd take_frame(const Frame& frame);
  GreetingEnd take_hello(const Frame& frame);
  GreetingEnd take_proof(const Frame& frame);
  GreetingEnd refuse(Error why, GreetingEnd end);
  std::string proof(bool of_caller) const;

  FrameSocket socket_;
  const bool calls_;
  const Hello ours_;
  const std::string secret_, our_bytes_;
  std::string their_bytes_;
  std::optional<Hello> theirs_;
  GreetingEnd end_ = GreetingEnd::pending;
  Error error_;
};

}  // namespace espalier::ranks
