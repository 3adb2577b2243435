#include "cache/peers/peer_wire.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <climits>
#include <random>

#include "base/sockets/wire_fields.h"
#include "cache/remote/block_value.h"

namespace espalier {
namespace {

constexpr std::string_view kHelloMark = "ESPKVPUL", kFrameMark = "ESPB";

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Error no_peer(std::string_view what) {
  return bad_request(fmt::format("{}: this is no server that gives blocks", what));
}

}  // namespace

// --- greeting ---

PeerHello make_peer_hello(const BlockName& model, std::size_t stride) {
  PeerHello hello{kPeerProtocol, stride, model, {}};
  if (::RAND_bytes(reinterpret_cast<unsigned char*>(hello.chance.data()), static_cast<int>(hello.chance.size())) != 1) {
    std::random_device source;
    for (std::byte& b : hello.chance) b = static_cast<std::byte>(source());
  }
  return hello;
}

std::string to_bytes(const PeerHello& hello) {
  WireWriter writer;
  writer.bytes = kHelloMark;
  writer.number(hello.protocol, 4).number(hello.stride, 8);
  writer.bytes += text_of(hello.model);
  writer.bytes += text_of(hello.chance);
  return std::move(writer.bytes);
}

Result<PeerHello> read_peer_hello(std::string_view bytes) {
  if (bytes.size() != kPeerHelloBytes || !bytes.starts_with(kHelloMark)) return no_peer("its greeting is another");
  WireReader reader(bytes.substr(kHelloMark.size()));
  PeerHello hello;
  hello.protocol = static_cast<std::uint32_t>(reader.number(4));
  hello.stride = reader.number(8);
  std::ranges::copy(std::as_bytes(std::span(reader.take(hello.model.size()))), hello.model.begin());
  std::ranges::copy(std::as_bytes(std::span(reader.take(hello.chance.size()))), hello.chance.begin());
  return hello;
}

std::string peer_proof(std::string_view secret, PeerSide of, std::string_view asker, std::string_view giver) {
  const std::string text = fmt::format("{} {}{}", of == PeerSide::asks ? "asks" : "gives", asker, giver);
  std::string proof(kPeerProofBytes, '\0');
  unsigned size = 0;
  const auto* made = ::HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
                            reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                            reinterpret_cast<unsigned char*>(proof.data()), &size);
  return made != nullptr ? proof : std::string();  // which proves nothing: OpenSSL may refuse a secret
}

bool same_proof(std::string_view a, std::string_view b) {
  return a.size() == b.size() && ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::optional<Error> difference(const PeerHello& ours, const PeerHello& theirs) {
  if (ours.protocol != theirs.protocol)
    return Error{Error::Kind::unsupported,
                 fmt::format("it speaks version {} of the protocol between servers, this one {}; start both from one "
                             "version of the program",
                             theirs.protocol, ours.protocol),
                 {},
                 {}};
  if (ours.model != theirs.model || ours.stride != theirs.stride)
    return Error{Error::Kind::unsupported,
                 "it computes other keys and values: its model, KV type, activations, instruction set or version is "
                 "another",
                 {},
                 {}};
  return std::nullopt;
}

// --- frames ---

std::string to_bytes(const PeerFrameHead& head) {
  WireWriter writer;
  writer.bytes = kFrameMark;
  writer.number(static_cast<std::uint64_t>(head.kind), 4).number(head.bytes, 8);
  return std::move(writer.bytes);
}

Result<PeerFrameHead> read_peer_head(std::string_view bytes, std::uint64_t most) {
  if (bytes.size() != kPeerHeadBytes || !bytes.starts_with(kFrameMark)) return no_peer("a frame begins otherwise");
  WireReader reader(bytes.substr(kFrameMark.size()));
  const std::uint64_t kind = reader.number(4);
  const std::uint64_t length = reader.number(8);
  if (kind < static_cast<std::uint64_t>(PeerFrameKind::wish) || kind > static_cast<std::uint64_t>(PeerFrameKind::end))
    return no_peer("a frame is of an unknown kind");
  const auto known = static_cast<PeerFrameKind>(kind);
  if (known != PeerFrameKind::blocks && length > most) return no_peer("a frame is too long");
  return PeerFrameHead{known, length};
}

std::string peer_frame(PeerFrameKind kind, std::string_view body) {
  return to_bytes(PeerFrameHead{kind, body.size()}) + std::string(body);
}

std::string to_bytes(const PeerWish& wish) {
  WireWriter writer;
  writer.number(wish.room, 8).number(wish.only_find ? 1 : 0, 1).number(static_cast<std::uint32_t>(wish.first), 4);
  writer.text(wish.scope).number(wish.tokens.size(), 4);
  for (const TokenId token : wish.tokens) writer.number(static_cast<std::uint32_t>(token), 4);
  return std::move(writer.bytes);
}

Result<PeerWish> read_peer_wish(std::string_view body) {
  WireReader reader(body);
  PeerWish wish;
  wish.room = reader.number(8);
  const std::uint64_t find = reader.number(1);
  wish.only_find = find != 0;
  const std::uint64_t first = reader.number(4);
  wish.scope = reader.text(kMostPeerScope);
  const std::uint64_t tokens = reader.number(4);
  const std::string_view ids = reader.take(static_cast<std::size_t>(tokens) * 4);
  if (!reader.done() || find > 1 || tokens % kBlockTokens != 0 || first > tokens / kBlockTokens)
    return no_peer("a wish is garbled");
  wish.first = static_cast<int>(first);
  WireReader each(ids);
  wish.tokens.reserve(tokens);
  for (std::uint64_t i = 0; i < tokens; ++i) wish.tokens.push_back(static_cast<TokenId>(each.number(4)));
  return wish;
}

std::string to_bytes(const PeerPiece& piece) {
  return WireWriter()
      .number(static_cast<std::uint32_t>(piece.first), 4)
      .number(static_cast<std::uint32_t>(piece.count), 4)
      .bytes;
}

Result<PeerPiece> read_peer_piece(std::string_view bytes, std::uint64_t body, std::size_t stride, int most) {
  WireReader reader(bytes);
  const std::uint64_t first = reader.number(4), count = reader.number(4);
  if (!reader.done() || first > INT_MAX || count == 0 || count > static_cast<std::uint64_t>(most) ||
      body != kPeerPieceBytes + count * (kBlockHeader + stride))
    return no_peer("a frame of blocks is garbled");
  return PeerPiece{static_cast<int>(first), static_cast<int>(count)};
}

std::string to_bytes(const PeerEnding& ending) {
  return WireWriter().number(static_cast<std::uint64_t>(ending.why), 1).text(ending.text).bytes;
}

Result<PeerEnding> read_peer_ending(std::string_view body) {
  WireReader reader(body);
  const std::uint64_t why = reader.number(1);
  std::string text = reader.text(1024);
  if (!reader.done() || why > static_cast<std::uint64_t>(PeerEnd::refused)) return no_peer("an ending is garbled");
  return PeerEnding{static_cast<PeerEnd>(why), std::move(text)};
}

std::string_view name(PeerEnd why) {
  switch (why) {
    case PeerEnd::all:
      return "it has given all";
    case PeerEnd::no_more:
      return "it has no more of them";
    case PeerEnd::no_room:
      return "no request with this room came there";
    case PeerEnd::busy:
      return "too many ask it";
    case PeerEnd::refused:
      break;
  }
  return "it refuses";
}

}  // namespace espalier
