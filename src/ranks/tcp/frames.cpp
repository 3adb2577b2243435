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

FieldWriter& FieldWriter::number(std::uint64_t value, int count) {
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(value >> (8 * i));
  return *this;
}

FieldWriter& FieldWriter::text(std::string_view value) {
  const std::string_view kept = value.substr(0, 0xffff);
  number(kept.size(), 2);
  bytes += kept;
  return *this;
}

std::string_view FieldReader::take(std::size_t count) {
  if (count > left_.size()) bad_ = true;
  if (bad_) return {};
  const std::string_view taken = left_.substr(0, count);
  left_.remove_prefix(count);
  return taken;
}

std::uint64_t FieldReader::number(int count) {
  std::uint64_t value = 0;
  int at = 0;
  for (const char byte : take(static_cast<std::size_t>(count)))
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(byte)) << (8 * at++);
  return value;
}

std::string FieldReader::text(std::size_t most) {
  const std::size_t length = number(2);
  if (length > most) bad_ = true;
  return std::string(take(length));
}

std::string to_bytes(FrameKind kind, std::string_view body) {
  FieldWriter writer;
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
  FieldReader head(std::string_view(held_).substr(kMark.size()));
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
