#include "cache/peers/peer_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <climits>
#include <functional>
#include <random>

#include "base/sockets/wire_fields.h"
#include "cache/remote/block_value.h"
#include "cache/testing/test_tokens.h"
#include "testing/data.h"

namespace espalier::peer_wire_test {
namespace {

using testing::counting;
using ::testing::HasSubstr;

BlockName model(std::string_view key) {
  return BlockNamer(key, "").model();
}

PeerWish some_wish(int blocks) {
  PeerWish wish;
  wish.room = 0x8000'0000'0000'0007;
  wish.first = blocks / 2;
  wish.scope = std::string("a tenant's salt\0and more", 24);
  wish.tokens = counting(-3, blocks * kBlockTokens);
  return wish;
}

// Every message, and how it is read; each reader gives back what the message says, written anew.
using Rewrite = std::function<Result<std::string>(std::string_view)>;
template <class Read>
Rewrite rewrite(Read read) {
  return [read](std::string_view bytes) -> Result<std::string> {
    ESP_TRY(const auto value, read(bytes));
    return to_bytes(value);
  };
}
struct Message {
  std::string name, bytes;
  Rewrite read;
};
constexpr std::size_t kStride = 4096;
constexpr std::uint64_t kPieceBody = kPeerPieceBytes + 3 * (kBlockHeader + kStride);

std::vector<Message> every_message() {
  const auto head = rewrite([](std::string_view b) { return read_peer_head(b, 1000); });
  const auto piece = rewrite([](std::string_view b) { return read_peer_piece(b, kPieceBody, kStride, 256); });
  const auto wish = rewrite(read_peer_wish);
  PeerWish find = some_wish(2);
  find.only_find = true;
  find.scope.clear();
  return {{"hello", to_bytes(make_peer_hello(model("m"), kStride)), rewrite(read_peer_hello)},
          {"head", to_bytes(PeerFrameHead{PeerFrameKind::end, 1000}), head},
          {"head of blocks", to_bytes(PeerFrameHead{PeerFrameKind::blocks, UINT64_MAX}), head},
          {"wish", to_bytes(some_wish(9)), wish},
          {"wish to find", to_bytes(find), wish},
          {"wish for nothing", to_bytes(PeerWish{}), wish},
          {"piece", to_bytes(PeerPiece{INT_MAX, 3}), piece},
          {"ending", to_bytes(PeerEnding{PeerEnd::refused, "why"}), rewrite(read_peer_ending)},
          {"ending without a word", to_bytes(PeerEnding{PeerEnd::no_room, ""}), rewrite(read_peer_ending)}};
}

TEST(PeerWire, EveryMessageIsReadAsItWasWritten) {
  for (const Message& message : every_message()) {
    const auto again = message.read(message.bytes);
    ASSERT_TRUE(again.ok()) << message.name << ": " << again.error().message;
    EXPECT_EQ(*again, message.bytes) << message.name;
  }
  const PeerWish wish = some_wish(9), read = read_peer_wish(to_bytes(wish)).value();
  EXPECT_EQ(read.room, wish.room);
  EXPECT_EQ(read.first, 4);
  EXPECT_EQ(read.scope, wish.scope);
  EXPECT_EQ(read.tokens, wish.tokens);
  EXPECT_FALSE(read.only_find);
  const PeerHello hello = make_peer_hello(model("m"), kStride);
  EXPECT_EQ(to_bytes(hello).size(), kPeerHelloBytes);
  EXPECT_EQ(read_peer_hello(to_bytes(hello))->model, hello.model);
  EXPECT_EQ(read_peer_hello(to_bytes(hello))->chance, hello.chance);
  EXPECT_EQ(peer_frame(PeerFrameKind::beat, "body"), to_bytes(PeerFrameHead{PeerFrameKind::beat, 4}) + "body");
}

TEST(PeerWire, EveryMessageThatIsCutOrGoesOnIsRefused) {
  for (const Message& message : every_message()) {
    for (std::size_t bytes = 0; bytes < message.bytes.size(); ++bytes) {
      const auto cut = message.read(message.bytes.substr(0, bytes));
      ASSERT_FALSE(cut.ok()) << message.name << ", " << bytes << " bytes";
      EXPECT_EQ(cut.error().kind, Error::Kind::bad_request);
      EXPECT_THAT(cut.error().message, HasSubstr("no server that gives blocks"));
    }
    EXPECT_FALSE(message.read(message.bytes + '\0').ok()) << message.name;
  }
}

// What is changed may say something else, but is never misread: it is refused, or written anew as it came.
TEST(PeerWire, ChangedMessagesAreRefusedOrSayWhatTheyNowSay) {
  std::mt19937_64 rng(testing::seed());
  const std::vector<Message> messages = every_message();
  int refused = 0;
  for (long i = 0; i < testing::operations(20'000, 1'000'000); ++i) {
    const Message& message = messages[rng() % messages.size()];
    std::string bytes = message.bytes;
    for (auto n = rng() % 3 + 1; n > 0; --n) bytes[rng() % bytes.size()] = static_cast<char>(rng());
    if (rng() % 8 == 0) bytes.insert(rng() % bytes.size(), 1, static_cast<char>(rng()));
    const auto again = message.read(bytes);
    refused += again.ok() ? 0 : 1;
    if (again.ok())
      ASSERT_EQ(*again, bytes) << message.name;
    else
      ASSERT_EQ(again.error().kind, Error::Kind::bad_request);
  }
  EXPECT_GT(refused, 100);
}

TEST(PeerWire, MarksKindsAndLengthsAreHeldTo) {
  EXPECT_FALSE(read_peer_hello("GET / HTTP/1.1" + std::string(kPeerHelloBytes - 14, ' ')).ok());
  const auto head = [](std::string_view mark, std::uint64_t kind, std::uint64_t bytes, std::uint64_t most) {
    return read_peer_head(std::string(mark) + WireWriter().number(kind, 4).number(bytes, 8).bytes, most).ok();
  };
  EXPECT_TRUE(head("ESPB", 1, 100, 100));
  EXPECT_FALSE(head("ESPC", 1, 100, 100));
  EXPECT_FALSE(head("ESPB", 1, 101, 100));
  EXPECT_FALSE(head("ESPB", 5, UINT64_MAX, 100));
  EXPECT_FALSE(head("ESPB", 0, 0, 100));
  EXPECT_FALSE(head("ESPB", 6, 0, 100));
  EXPECT_TRUE(head("ESPB", 3, 1ull << 40, 100)) << "blocks are counted by what stands before them";
}

TEST(PeerWire, AWishIsForWholeBlocksAndBeginsWithinThem) {
  const auto wish = [](std::uint64_t first, std::uint64_t says, std::size_t has, std::size_t scope = 3) {
    WireWriter writer;
    writer.number(7, 8).number(0, 1).number(first, 4).text(std::string(scope, 's')).number(says, 4);
    writer.bytes += std::string(4 * has, 't');
    return read_peer_wish(writer.bytes).ok();
  };
  EXPECT_TRUE(wish(0, 32, 32));
  EXPECT_TRUE(wish(2, 32, 32)) << "nothing more";
  EXPECT_FALSE(wish(3, 32, 32));
  EXPECT_FALSE(wish(UINT32_MAX, 32, 32));
  EXPECT_FALSE(wish(0, 33, 33)) << "a block that is not whole";
  EXPECT_FALSE(wish(0, 48, 32));
  EXPECT_FALSE(wish(0, 16, 32));
  EXPECT_FALSE(wish(0, 0xffff'fff0, 32));
  EXPECT_TRUE(wish(0, 32, 32, kMostPeerScope));
  EXPECT_FALSE(wish(0, 32, 32, kMostPeerScope + 1));
}

TEST(PeerWire, AFrameOfBlocksIsExactlyAsLongAsItsBlocks) {
  const auto piece = [](std::uint64_t first, std::uint64_t count, std::uint64_t body, int most = 256) {
    return read_peer_piece(WireWriter().number(first, 4).number(count, 4).bytes, body, kStride, most).ok();
  };
  EXPECT_TRUE(piece(0, 3, kPieceBody));
  EXPECT_FALSE(piece(0, 3, kPieceBody + 1));
  EXPECT_FALSE(piece(0, 2, kPieceBody));
  EXPECT_FALSE(piece(0, 0, kPeerPieceBytes)) << "none";
  EXPECT_FALSE(piece(0, 3, kPieceBody, 2)) << "too many";
  EXPECT_FALSE(piece(1ull << 31, 3, kPieceBody));
  EXPECT_FALSE(piece(0, UINT32_MAX, kPieceBody, INT_MAX));
  EXPECT_FALSE(piece(0, 3, 0));
}

TEST(PeerWire, ProofsAreOfOneSecretOneSideAndOneGreeting) {
  const std::string a = to_bytes(make_peer_hello(model("m"), kStride)),
                    b = to_bytes(make_peer_hello(model("m"), kStride));
  EXPECT_NE(a, b) << "each greeting has chance of its own";
  const std::string proof = peer_proof("secret", PeerSide::asks, a, b);
  EXPECT_EQ(proof.size(), kPeerProofBytes);
  EXPECT_TRUE(same_proof(proof, peer_proof("secret", PeerSide::asks, a, b)));
  EXPECT_FALSE(same_proof(proof, peer_proof("secret", PeerSide::gives, a, b)));
  EXPECT_FALSE(same_proof(proof, peer_proof("Secret", PeerSide::asks, a, b)));
  EXPECT_FALSE(same_proof(proof, peer_proof("", PeerSide::asks, a, b)));
  EXPECT_FALSE(same_proof(proof, peer_proof("secret", PeerSide::asks, b, a)));
  const std::string other = to_bytes(make_peer_hello(model("m"), kStride));
  EXPECT_FALSE(same_proof(proof, peer_proof("secret", PeerSide::asks, other, b)));
  EXPECT_FALSE(same_proof(proof, peer_proof("secret", PeerSide::asks, a, other)));
  EXPECT_FALSE(same_proof(proof, proof.substr(1)));
  EXPECT_FALSE(same_proof("", proof));
  EXPECT_TRUE(same_proof(peer_proof("", PeerSide::gives, a, b), peer_proof("", PeerSide::gives, a, b)));
  EXPECT_NE(peer_proof("", PeerSide::gives, a, b), std::string(kPeerProofBytes, '\0'));
}

TEST(PeerWire, WhatMakesBlocksUselessIsToldInASentence) {
  const PeerHello ours = make_peer_hello(model("m"), kStride);
  EXPECT_FALSE(difference(ours, make_peer_hello(model("m"), kStride)));
  PeerHello theirs = ours;
  theirs.protocol = 9;
  ASSERT_TRUE(difference(ours, theirs));
  EXPECT_EQ(difference(ours, theirs)->kind, Error::Kind::unsupported);
  EXPECT_THAT(difference(ours, theirs)->message, HasSubstr("version 9"));
  EXPECT_THAT(difference(ours, theirs)->message, HasSubstr("this one 1"));
  for (const PeerHello& other : {make_peer_hello(model("n"), kStride), make_peer_hello(model("m"), 2 * kStride)}) {
    ASSERT_TRUE(difference(ours, other));
    EXPECT_EQ(difference(ours, other)->kind, Error::Kind::unsupported);
    EXPECT_THAT(difference(ours, other)->message, HasSubstr("other keys and values"));
  }
}

TEST(PeerWire, EveryEndingHasASentence) {
  for (const PeerEnd why : {PeerEnd::all, PeerEnd::no_more, PeerEnd::no_room, PeerEnd::busy, PeerEnd::refused}) {
    EXPECT_FALSE(name(why).empty());
    EXPECT_EQ(read_peer_ending(to_bytes(PeerEnding{why, ""}))->why, why);
  }
  EXPECT_FALSE(read_peer_ending(std::string("\5\0\0", 3)).ok());
  EXPECT_FALSE(read_peer_ending(to_bytes(PeerEnding{PeerEnd::busy, std::string(1025, 'x')})).ok());
}

}  // namespace
}  // namespace espalier::peer_wire_test
