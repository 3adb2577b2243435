#include "ranks/tcp/frames.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/system/socket_calls.h"

namespace espalier::ranks {
namespace {

constexpr std::string_view kMark = "ESPR";
constexpr std::size_t kHeadBytes = 12;
constexpr auto kLastKind = static_cast<std::uint64_t>(FrameKind::end);

}  // namespace

std::string to_bytes(FrameKind kind, std::string_view body) {
  WireWriter writer;
  writer.bytes = kMark;
  writer.number(static_cast<std::uint64_t>(kind), 4).number(body.size(), 4);
  writer.bytes += body;
  return std::move(writer.bytes);
}

Result<std::optional<Frame>> FrameReader::next() {
  const std::size_t seen = std::min(held_.size(), kMark.size());
  const Error foreign = bad_request("what came is not of a rank");
  if (std::string_view(held_).substr(0, seen) != kMark.substr(0, seen)) return foreign;
  if (held_.size() < kHeadBytes) return std::optional<Frame>();
  WireReader head(std::string_view(held_).substr(kMark.size()));
  const std::uint64_t kind = head.number(4), length = head.number(4);
  if (kind < 1 || kind > kLastKind || length > kMostFrameBytes) return foreign;
  if (held_.size() < kHeadBytes + length) return std::optional<Frame>();
  Frame frame{static_cast<FrameKind>(kind), held_.substr(kHeadBytes, length)};
  held_.erase(0, kHeadBytes + length);
  return std::optional<Frame>(std::move(frame));
}

void FrameSocket::send(FrameKind kind, std::string_view body) {
  unsent_ += to_bytes(kind, body);
  static_cast<void>(flush());
}

bool FrameSocket::flush() {
  while (!unsent_.empty()) {
    iovec piece{unsent_.data(), unsent_.size()};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    const ssize_t sent = send_now(socket_.get(), message);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    unsent_.erase(0, static_cast<std::size_t>(sent));
  }
  return true;
}

// No more than a few frames at a time: who sends without end is looked at in between.
bool FrameSocket::read() {
  std::array<char, 4096> bytes{};
  for (int i = 0; i < 16; ++i) {
    const ssize_t got = ::recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got > 0) reader_.add({bytes.data(), static_cast<std::size_t>(got)});
    if (got == 0) return false;
    if (got < 0 && errno != EINTR) return errno == EAGAIN || errno == EWOULDBLOCK;
  }
  return true;
}

}  // namespace espalier::ranks
