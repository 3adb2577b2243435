// frames.h: what control connections carry: short messages, each with its kind and its length; bytes of anybody are refused in words.
//
// A frame is "ESPR", its kind, its length (both of 4 bytes, the lowest first), and so many bytes.
// Threads: one owner each. Units: bytes. Fails: read(): bad_request: these are no frames.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/sockets/wire_fields.h"
#include "base/system/unique_fd.h"
#include "espalier/error.h"

namespace espalier::ranks {

// What a frame is for. The first six make a group, the others stand in one.
enum class FrameKind : std::uint32_t { hello = 1, proof, refusal, table, ready, go, beat, goodbye, end };

constexpr std::size_t kMostFrameBytes = 128u << 10;

// One message.
struct Frame {
  FrameKind kind = FrameKind::hello;
  std::string body;
};

std::string to_bytes(FrameKind kind, std::string_view body);

// Takes frames out of what comes, in any pieces.
class FrameReader {
 public:
  void add(std::string_view bytes) { held_ += bytes; }
  Result<std::optional<Frame>> next();

 private:
  std::string held_;
};

// A connection that carries frames; nothing of it waits.
class FrameSocket {
 public:
  FrameSocket() = default;
  explicit FrameSocket(UniqueFd socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }
  explicit operator bool() const { return static_cast<bool>(socket_); }
  UniqueFd release() { return std::move(socket_); }  // what was read behind the last frame is lost

  void send(FrameKind kind, std::string_view body);
  bool flush();  // false: the connection is broken
  bool has_unsent() const { return !unsent_.empty(); }
  // Reads what is there; false: the other side has closed, and all frames before that are there for next().
  bool read();
  Result<std::optional<Frame>> next() { return reader_.next(); }
  void close() { socket_.reset(); }

 private:
  UniqueFd socket_;
  FrameReader reader_;
  std::string unsent_;
};

}  // namespace espalier::ranks
