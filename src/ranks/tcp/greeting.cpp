#include "ranks/tcp/greeting.h"

#include <fmt/format.h>

#include <random>
#include <utility>

#include "base/sha256.h"

namespace espalier::ranks {
namespace {

constexpr std::size_t kMostText = 4096, kMostName = 255;
constexpr std::uint64_t kMostNodes = 1024;

std::string who(const Hello& hello) {
  return fmt::format("node {} (pid {}, host {})", hello.node, hello.pid, hello.host);
}

// In the time that equal ones take.
bool same_digest(std::string_view a, std::string_view b) {
  unsigned different = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) different |= static_cast<unsigned char>(a[i] ^ b[i]);
  return different == 0;
}

Error other(const Hello& ours, const Hello& theirs, std::string_view what, std::string_view our,
            std::string_view their) {
  return bad_request(fmt::format("{} has {} \"{}\", but {} has \"{}\": all ranks must be started alike", who(theirs),
                                 what, their, who(ours), our));
}

}  // namespace

std::string random_nonce() {
  std::random_device random;
  WireWriter writer;
  for (std::size_t i = 0; i < kNonceBytes / 4; ++i) writer.number(random(), 4);
  return writer.bytes;
}

std::string to_bytes(const Hello& hello) {
  WireWriter writer;
  writer.number(hello.protocol, 4).number(static_cast<std::uint64_t>(hello.role), 1).number(hello.has_secret, 1);
  writer.number(static_cast<std::uint64_t>(hello.node), 4).number(static_cast<std::uint64_t>(hello.nodes), 4);
  writer.number(static_cast<std::uint64_t>(hello.size), 4).number(static_cast<std::uint64_t>(hello.pid), 4);
  writer.number(hello.port, 2).number(hello.max_part_bytes, 8);
  writer.bytes += hello.nonce;
  writer.text(hello.version.substr(0, kMostName)).text(hello.key.substr(0, kMostText));
  writer.text(hello.host.substr(0, kMostName));
  return writer.bytes;
}

Result<Hello> read_hello(std::string_view bytes) {
  WireReader reader(bytes);
  Hello hello;
  hello.protocol = static_cast<std::uint32_t>(reader.number(4));
  if (!reader.bad() && hello.protocol != kRankProtocol)
    return bad_request(
        fmt::format("it speaks version {} of the ranks' protocol, this program version {}: all ranks must be "
                    "of one version of the program",
                    hello.protocol, kRankProtocol));
  const std::uint64_t role = reader.number(1), secret = reader.number(1);
  const std::uint64_t node = reader.number(4), nodes = reader.number(4), size = reader.number(4);
  hello.pid = static_cast<int>(reader.number(4) & 0x7fffffff);
  hello.port = static_cast<std::uint16_t>(reader.number(2));
  hello.max_part_bytes = reader.number(8);
  hello.nonce = reader.take(kNonceBytes);
  hello.version = reader.text(kMostName);
  hello.key = reader.text(kMostText);
  hello.host = reader.text(kMostName);
  const bool counts = nodes >= 2 && nodes <= kMostNodes && node < nodes && size >= nodes && size <= kMostNodes;
  if (!reader.done() || role > 1 || secret > 1 || !counts) return bad_request("its greeting is not one of a rank");
  hello.role = static_cast<ConnectionRole>(role);
  hello.has_secret = secret == 1;
  hello.node = static_cast<int>(node);
  hello.nodes = static_cast<int>(nodes);
  hello.size = static_cast<int>(size);
  return hello;
}

std::optional<Error> difference(const Hello& ours, const Hello& theirs) {
  if (ours.version != theirs.version) return other(ours, theirs, "version", ours.version, theirs.version);
  if (ours.nodes != theirs.nodes)
    return other(ours, theirs, "--nnodes", std::to_string(ours.nodes), std::to_string(theirs.nodes));
  if (ours.size != theirs.size)
    return other(ours, theirs, "--tp-size", std::to_string(ours.size), std::to_string(theirs.size));
  if (ours.key != theirs.key) return other(ours, theirs, "model and options", ours.key, theirs.key);
  if (ours.max_part_bytes != theirs.max_part_bytes)
    return other(ours, theirs, "bytes of a part", std::to_string(ours.max_part_bytes),
                 std::to_string(theirs.max_part_bytes));
  if (ours.node == theirs.node)
    return bad_request(
        fmt::format("{} and {} were both started with --node-rank {}", who(ours), who(theirs), ours.node), "node-rank");
  return std::nullopt;
}

Greeting::Greeting(FrameSocket socket, bool calls, Hello ours, std::string secret)
    : socket_(std::move(socket)),
      calls_(calls),
      ours_(std::move(ours)),
      secret_(std::move(secret)),
      our_bytes_(to_bytes(ours_)) {
  if (calls_) socket_.send(FrameKind::hello, our_bytes_);
}

std::string Greeting::proof(bool of_caller) const {
  const std::string& first = calls_ ? our_bytes_ : their_bytes_;
  const std::string& second = calls_ ? their_bytes_ : our_bytes_;
  const Sha256::Digest digest =
      keyed_digest(secret_, (of_caller ? "espalier caller" : "espalier called") + first + second);
  return {digest.begin(), digest.end()};
}

GreetingEnd Greeting::refuse(Error why, GreetingEnd end) {
  socket_.send(FrameKind::refusal, why.message);
  error_ = std::move(why);
  return end_ = end;
}

GreetingEnd Greeting::advance() {
  if (end_ != GreetingEnd::pending) return end_;
  const bool open = socket_.read();
  const GreetingEnd end = read_frames();
  if (end != GreetingEnd::pending) return end;
  if (socket_.flush() && open) return GreetingEnd::pending;
  error_ = {Error::Kind::network, "it closed the connection before it had greeted", {}, {}};
  return end_ = GreetingEnd::foreign;
}

GreetingEnd Greeting::read_frames() {
  while (end_ == GreetingEnd::pending) {
    auto frame = socket_.next();
    if (!frame.ok()) return refuse(frame.error(), GreetingEnd::foreign);
    if (!*frame) return GreetingEnd::pending;
    end_ = take_frame(**frame);
  }
  return end_;
}

GreetingEnd Greeting::take_frame(const Frame& frame) {
  if (frame.kind == FrameKind::refusal) {
    error_ = bad_request(frame.body.empty() ? "it refused without a word" : frame.body.substr(0, kMostText));
    return GreetingEnd::foreign;
  }
  if (frame.kind == FrameKind::hello && !theirs_) return take_hello(frame);
  if (frame.kind == FrameKind::proof && theirs_) return take_proof(frame);
  return refuse(bad_request("its greeting is not one of a rank"), GreetingEnd::foreign);
}

GreetingEnd Greeting::take_hello(const Frame& frame) {
  auto hello = read_hello(frame.body);
  if (!hello.ok()) return refuse(hello.error(), GreetingEnd::foreign);
  theirs_ = std::move(hello).value();
  their_bytes_ = frame.body;
  if (calls_) return GreetingEnd::pending;
  socket_.send(FrameKind::hello, our_bytes_);
  socket_.send(FrameKind::proof, proof(false));
  return GreetingEnd::pending;
}

GreetingEnd Greeting::take_proof(const Frame& frame) {
  if (!same_digest(frame.body, proof(!calls_)))
    return refuse({Error::Kind::unauthorized,
                   fmt::format("{} and {} have different secrets{}", who(ours_), who(*theirs_),
                               ours_.has_secret == theirs_->has_secret
                                   ? ""
                                   : fmt::format(": {} has none", ours_.has_secret ? who(*theirs_) : who(ours_))),
                   {},
                   {}},
                  GreetingEnd::foreign);
  if (calls_) socket_.send(FrameKind::proof, proof(true));
  if (auto different = difference(ours_, *theirs_)) {
    error_ = std::move(*different);  // the other side sees the same
    return GreetingEnd::disagrees;
  }
  return GreetingEnd::agreed;
}

}  // namespace espalier::ranks
