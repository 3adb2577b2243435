#include "cache/peers/peer_link.h"

#include <algorithm>
#include <climits>

#include "base/sockets/wire_fields.h"
#include "cache/remote/block_value.h"

namespace espalier {
namespace {

constexpr auto kGreeting = std::chrono::seconds(2);
constexpr auto kSilence = std::chrono::seconds(5);
constexpr std::uint64_t kMostWord = 4096;    // bytes of a frame that has no blocks
constexpr std::size_t kProgress = 64 << 10;  // bytes that come within kSilence

WaitUntil at_most(const WaitUntil& until, std::chrono::seconds most) {
  return {std::min(until.time, std::chrono::steady_clock::now() + most), until.stop};
}

}  // namespace

Result<std::unique_ptr<PeerLink>> PeerLink::open(const HostAndPort& where, const PeerIdentity& us,
                                                 const WaitUntil& until, const AddressFilter& allowed) {
  const WaitUntil soon = at_most(until, kGreeting);
  ESP_TRY(UniqueFd socket, connect_to(where, soon, allowed));
  std::unique_ptr<PeerLink> link(new PeerLink(std::move(socket), us));  // NOLINT: a private constructor
  ESP_CHECK(link->greet(soon));
  return link;
}

Result<> PeerLink::greet(const WaitUntil& until) {
  const PeerHello ours = make_peer_hello(us_.namer.model(), us_.stride);
  const std::string hello = to_bytes(ours);
  ESP_CHECK(send(hello, until));
  ESP_TRY(const std::string answer, receive(kPeerHelloBytes + kPeerProofBytes, until));
  const std::string_view their_hello = std::string_view(answer).substr(0, kPeerHelloBytes);
  ESP_TRY(const PeerHello theirs, read_peer_hello(their_hello));
  const std::string& secret = us_.namer.secret();
  if (!same_proof(std::string_view(answer).substr(kPeerHelloBytes),
                  peer_proof(secret, PeerSide::gives, hello, their_hello)))
    return Error{
        Error::Kind::unauthorized, "its secret is another; give both the same --cache-remote-secret-file", {}, {}};
  if (auto other = difference(ours, theirs)) return *other;
  return send(peer_proof(secret, PeerSide::asks, hello, their_hello), until);
}

Result<std::string> PeerLink::receive(std::size_t bytes, const WaitUntil& until) {
  std::string text(bytes, '\0');
  ESP_CHECK(receive(std::as_writable_bytes(std::span(text)), until));
  return text;
}

// As long as some of it comes every few seconds; and where it always does, no longer than may be waited either.
Result<> PeerLink::receive(std::span<std::byte> into, const WaitUntil& until) {
  while (!into.empty()) {
    if (until.stop.cancelled() || std::chrono::steady_clock::now() >= until.time)
      return Error{Error::Kind::timeout, "it does not come to an end in time", {}, {}};
    const auto next = into.first(std::min(into.size(), kProgress));
    ESP_CHECK(receive_all(socket_.get(), next, at_most(until, kSilence)));
    into = into.subspan(next.size());
  }
  return success();
}

Result<> PeerLink::send(std::string_view bytes, const WaitUntil& until) {
  return send_all(socket_.get(), std::as_bytes(std::span(bytes)), until);
}

Result<> PeerLink::ask(const PeerWish& wish, const WaitUntil& until) {
  return send(peer_frame(PeerFrameKind::wish, to_bytes(wish)), until);
}

Result<PeerLink::Said> PeerLink::next(const WaitUntil& until) {
  Said said;
  for (;;) {
    ESP_TRY(const std::string bytes, receive(kPeerHeadBytes, until));
    ESP_TRY(const PeerFrameHead head, read_peer_head(bytes, kMostWord));
    said.kind = head.kind;
    if (head.kind == PeerFrameKind::blocks) {
      ESP_TRY(const std::string piece, receive(kPeerPieceBytes, until));
      ESP_TRY(said.piece, read_peer_piece(piece, head.bytes, us_.stride, INT_MAX));
      return said;
    }
    ESP_TRY(const std::string body, receive(static_cast<std::size_t>(head.bytes), until));
    if (head.kind == PeerFrameKind::beat) continue;
    if (head.kind == PeerFrameKind::end) {
      ESP_TRY(said.ending, read_peer_ending(body));
      return said;
    }
    WireReader reader(body);
    said.found = static_cast<int>(std::min<std::uint64_t>(reader.number(4), INT_MAX));
    if (!reader.done() || head.kind != PeerFrameKind::found) return bad_request("it says what nobody asked");
    return said;
  }
}

Result<> PeerLink::take(const BlockChain& chain, int block, std::span<std::byte> into, const WaitUntil& until) {
  BlockHeader header;
  ESP_CHECK(receive(header, until));
  ESP_CHECK(receive(into, until));
  return check_block(us_.namer.model(), chain, block, header, into);
}

}  // namespace espalier
