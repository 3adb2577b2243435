// peer_wire.h: what servers tell each other when one pulls blocks out of the other's memory over TCP.
//
//   who asks                         who gives
//   hello                    ->
//                            <-      hello, proof
//   proof                    ->
//   wish                     ->
//                            <-      found | blocks ... end, and a beat where a second passes without any
//
// A proof is a digest of both hellos, each with chance of its own, keyed with the secret that all servers of a fleet share. A
// hello tells what must be equal for keys and values to mean the same (the model key's hash), so that servers that compute
// otherwise know it before a block moves. Blocks go in the form in which they lie with others (cache/remote/block_value.h).
// Nothing is encrypted: tokens, name spaces and values are seen by whoever sees the network.
//
// A frame is "ESPB", its kind (4 bytes), the length of its body (8 bytes), and the body. Numbers are little-endian.
// Units:   bytes, blocks, tokens. Threads: pure functions and values.
// Fails:   bad_request: the bytes are none of these, or larger than may be.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/remote/block_chain.h"
#include "espalier/error.h"

namespace espalier {

inline constexpr std::uint32_t kPeerProtocol = 1;

// What a server says first.
struct PeerHello {
  std::uint32_t protocol = kPeerProtocol;
  std::uint64_t stride = 0;  // bytes of a block
  BlockName model = {};
  std::array<std::byte, 16> chance = {};
};
inline constexpr std::size_t kPeerHelloBytes = 8 + 4 + 8 + sizeof(BlockName) + 16;
inline constexpr std::size_t kPeerProofBytes = sizeof(BlockName);

std::string to_bytes(const PeerHello& hello);
Result<PeerHello> read_peer_hello(std::string_view bytes);
PeerHello make_peer_hello(const BlockName& model, std::size_t stride);
// Which of the two a proof is of.
enum class PeerSide { asks, gives };
std::string peer_proof(std::string_view secret, PeerSide of, std::string_view asker, std::string_view giver);
bool same_proof(std::string_view a, std::string_view b);  // in a time that does not tell where they differ
// Why keys and values of the other are of no use here; none: they are.
std::optional<Error> difference(const PeerHello& ours, const PeerHello& theirs);

// What a frame is for.
enum class PeerFrameKind : std::uint32_t { wish = 1, found, blocks, beat, end };

// What stands before a body.
struct PeerFrameHead {
  PeerFrameKind kind = PeerFrameKind::beat;
  std::uint64_t bytes = 0;
};
inline constexpr std::size_t kPeerHeadBytes = 16;
std::string to_bytes(const PeerFrameHead& head);
// most: of the body, where it is none of blocks.
Result<PeerFrameHead> read_peer_head(std::string_view bytes, std::uint64_t most);
std::string peer_frame(PeerFrameKind kind, std::string_view body);

// Blocks of a sequence, from one on.
struct PeerWish {
  std::uint64_t room = 0;  // whose prompt the other computes; 0: of nobody's, what lies there
  bool only_find = false;  // how many there are
  int first = 0;           // block
  std::string scope;
  std::vector<TokenId> tokens;  // whole blocks, from the start of the sequence
};
inline constexpr std::size_t kMostPeerScope = 16 << 10;
inline constexpr std::size_t kMostPeerWish = 16 << 20;  // bytes: three million tokens
std::string to_bytes(const PeerWish& wish);
Result<PeerWish> read_peer_wish(std::string_view body);

// Which blocks follow in a frame of them.
struct PeerPiece {
  int first = 0, count = 0;
};
inline constexpr std::size_t kPeerPieceBytes = 8;
std::string to_bytes(const PeerPiece& piece);
// Of a frame whose body has so many bytes: blocks of `stride`, each behind its header, and no more than `most`.
Result<PeerPiece> read_peer_piece(std::string_view bytes, std::uint64_t body, std::size_t stride, int most);

// Why no more comes.
enum class PeerEnd : std::uint8_t {
  all,      // of what was wished for
  no_more,  // is there, and nobody computes it
  no_room,  // nobody came with this room in time
  busy,     // too many ask
  refused,  // see the text
};
// The last word on a wish.
struct PeerEnding {
  PeerEnd why = PeerEnd::all;
  std::string text;
};
std::string to_bytes(const PeerEnding& ending);
Result<PeerEnding> read_peer_ending(std::string_view body);
std::string_view name(PeerEnd why);

}  // namespace espalier
