// Any bytes for any message between servers: refused with a sentence, or written anew as they came; what a frame of blocks says of
// itself is never more than there is.
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "cache/peers/peer_wire.h"
#include "cache/remote/block_value.h"

namespace espalier {
namespace {

void demand(bool holds) {
  if (!holds) std::abort();
}

template <class T>
void read_as(const Result<T>& read, std::string_view bytes) {
  if (!read.ok()) return demand(!read.error().message.empty());
  demand(to_bytes(*read) == bytes);
}

// A frame as it comes: what stands before its body says how much of the rest is read, and as what.
void read_frame(std::string_view bytes) {
  if (bytes.size() < kPeerHeadBytes) return;
  const auto head = read_peer_head(bytes.substr(0, kPeerHeadBytes), kMostPeerWish);
  read_as(head, bytes.substr(0, kPeerHeadBytes));
  if (!head.ok()) return;
  const std::string_view body = bytes.substr(kPeerHeadBytes);
  if (head->kind == PeerFrameKind::blocks) {
    constexpr std::size_t kStride = 64;
    const std::string_view start = body.substr(0, kPeerPieceBytes);
    const auto piece = read_peer_piece(start, head->bytes, kStride, INT_MAX);
    read_as(piece, start);
    if (piece.ok())
      demand(piece->first >= 0 && piece->count > 0 &&
             static_cast<std::uint64_t>(piece->count) * (kBlockHeader + kStride) + kPeerPieceBytes == head->bytes);
  } else {
    demand(head->bytes <= kMostPeerWish);
  }
}

void read_wish(std::string_view bytes) {
  const auto wish = read_peer_wish(bytes);
  read_as(wish, bytes);
  if (wish.ok())
    demand(wish->first >= 0 && wish->tokens.size() % kBlockTokens == 0 &&
           static_cast<std::size_t>(wish->first) <= wish->tokens.size() / kBlockTokens &&
           wish->scope.size() <= kMostPeerScope);
}

void greet(std::string_view bytes) {
  const auto hello = read_peer_hello(bytes);
  read_as(hello, bytes);
  if (!hello.ok()) return;
  const auto other = difference(make_peer_hello(BlockNamer("model", "").model(), 4096), *hello);
  demand(!other || !other->message.empty());
}

}  // namespace
}  // namespace espalier

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  greet(bytes);
  read_frame(bytes);
  read_wish(bytes);
  read_as(read_peer_ending(bytes), bytes);
  read_as(read_peer_piece(bytes, 8 + 3 * (kBlockHeader + 4096), 4096, 256), bytes);
  if (bytes.size() > kPeerHeadBytes) {
    read_wish(bytes.substr(kPeerHeadBytes));
    read_as(read_peer_ending(bytes.substr(kPeerHeadBytes)), bytes.substr(kPeerHeadBytes));
  }
  return 0;
}
