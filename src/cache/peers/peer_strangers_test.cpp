// Those who talk nonsense to a server that gives blocks, and those who give nonsense to one that asks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "base/sockets/wire_fields.h"
#include "cache/testing/fake_giver.h"
#include "cache/testing/peer_server.h"
#include "testing/data.h"

namespace espalier::peer_strangers_test {
namespace {

using namespace std::chrono_literals;
using testing::counting;
using testing::FakeGiver;
using ::testing::HasSubstr;
using testing::PeerFleet;
using testing::PeerRequest;
using testing::PeerServer;
using testing::PeerServerWish;
using testing::Tokens;

WaitUntil soon() {
  return {std::chrono::steady_clock::now() + 20s, {}};
}

// --- who asks ---

// A connection to a server that gives, on which a test says what it likes.
class Stranger {
 public:
  explicit Stranger(std::uint16_t port) : socket_(connect_to({"127.0.0.1", port}, soon()).value()) {}
  bool say(std::string_view bytes) const {
    return send_all(socket_.get(), std::as_bytes(std::span(bytes)), soon()).ok();
  }
  std::string hear(std::size_t bytes) const {
    std::string text(bytes, '\0');
    const auto heard = receive_all(socket_.get(), std::as_writable_bytes(std::span(text)), soon());
    EXPECT_TRUE(heard.ok()) << (heard.ok() ? "" : heard.error().message);
    return text;
  }
  // The greeting as it should be; say() goes on behind it.
  void greet(const PeerIdentity& us) const {
    const std::string ours = to_bytes(make_peer_hello(us.namer.model(), us.stride));
    say(ours);
    const std::string theirs = hear(kPeerHelloBytes + kPeerProofBytes).substr(0, kPeerHelloBytes);
    say(peer_proof(us.namer.secret(), PeerSide::asks, ours, theirs));
  }
  // Nothing else comes than the end of the connection.
  bool is_dropped() const {
    std::byte byte;
    for (;;) {
      const auto heard = receive_all(socket_.get(), std::span(&byte, 1), soon());
      if (!heard.ok()) return heard.error().kind == Error::Kind::network;
    }
  }

 private:
  const UniqueFd socket_;
};

std::string wish_for(const Tokens& tokens, std::uint64_t room = 0) {
  return peer_frame(PeerFrameKind::wish, to_bytes(PeerWish{room, false, 0, "", tokens}));
}

TEST(PeerStrangers, NonsenseIsDroppedAndTheOthersAreServed) {
  PeerFleet fleet;
  PeerServer &giver = fleet.add(), &asker = fleet.add();
  const Tokens tokens = counting(1, 1003), whole = counting(1, 992);
  giver.given().begins(7);
  giver.compute(tokens);
  const auto at = giver.port();
  const std::string hello = to_bytes(make_peer_hello(giver.us.namer.model(), giver.us.stride));
  const Stranger http(at), half(at), silent(at), no_proof(at), other_secret(at), garbled(at), two(at), found(at),
      long_wish(at), cut_wish(at);
  http.say("GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n" + std::string(kPeerHelloBytes, ' '));
  half.say(hello.substr(0, 20));
  no_proof.say(hello);
  other_secret.say(hello + std::string(kPeerProofBytes, 'p'));
  for (const Stranger* each : {&garbled, &two, &found, &long_wish, &cut_wish}) each->greet(giver.us);
  garbled.say(std::string(200, 'g'));
  two.say(wish_for(whole, 99) + wish_for(whole, 99));
  found.say(peer_frame(PeerFrameKind::found, "1234"));
  long_wish.say(to_bytes(PeerFrameHead{PeerFrameKind::wish, kMostPeerWish + 1}));
  cut_wish.say(wish_for(whole).substr(0, 1000));
  EXPECT_EQ(fleet.serve(asker, asker.request(tokens, at, 7)), 992);
  for (const Stranger* each : {&http, &other_secret, &garbled, &two, &found, &long_wish})
    EXPECT_TRUE(each->is_dropped());
  EXPECT_EQ(giver.counters.refused.value(), 1u) << "who did not know the secret";
  EXPECT_EQ(fleet.serve(asker, asker.request(tokens, at, 8)), 992);
}

TEST(PeerStrangers, OnesThatStopHalfWayAreDroppedInTime) {
  PeerFleet fleet;
  PeerServer& giver = fleet.add();
  const Stranger half(giver.port()), silent(giver.port()), no_proof(giver.port()), half_wish(giver.port());
  const std::string hello = to_bytes(make_peer_hello(giver.us.namer.model(), giver.us.stride));
  half.say(hello.substr(0, 20));
  no_proof.say(hello);
  half_wish.greet(giver.us);
  half_wish.say(wish_for(counting(1, 160)).substr(0, 100));
  for (const Stranger* each : {&half, &silent, &no_proof, &half_wish}) EXPECT_TRUE(each->is_dropped());
}

TEST(PeerStrangers, OnesThatAskForNothingGiveTheirPlaceToOthers) {
  PeerFleet fleet;
  PeerServer &giver = fleet.add(), &asker = fleet.add();
  const Tokens tokens = counting(1, 1003);
  giver.given().begins(7);
  giver.compute(tokens);
  std::vector<std::unique_ptr<PeerLink>> idle;
  for (int i = 0; i < 300; ++i) {
    auto link = PeerLink::open({"127.0.0.1", giver.port()}, giver.us, soon());
    ASSERT_TRUE(link.ok()) << i << ": " << link.error().message;
    idle.push_back(std::move(*link));
  }
  EXPECT_EQ(fleet.serve(asker, asker.request(tokens, giver.port(), 7)), 992);
  EXPECT_FALSE(idle.front()->next(soon()).ok()) << "the first of them had to go";
  ASSERT_TRUE(idle.back()->ask({0, true, 0, "", counting(1, 992)}, soon()).ok());
  ASSERT_TRUE(fleet.until([&] { return giver.counters.wishes.value() == 2 && giver.given().open() == 0; }));
  EXPECT_EQ(idle.back()->next(soon()).value().found, 62);
}

TEST(PeerStrangers, OnesThatReadNothingHoldUpNobody) {
  PeerFleet fleet;
  PeerServerWish large;
  large.block_bytes = 1 << 19;  // more than sockets take
  PeerServer &giver = fleet.add(large), &asker = fleet.add(large);
  const Tokens tokens = counting(1, 1003);
  giver.given().begins(7);
  giver.compute(tokens);
  std::vector<std::unique_ptr<Stranger>> deaf;
  for (int i = 0; i < 3; ++i) {
    deaf.push_back(std::make_unique<Stranger>(giver.port()));
    deaf.back()->greet(giver.us);
    deaf.back()->say(wish_for(counting(1, 992)));
  }
  ASSERT_TRUE(fleet.until([&] { return giver.counters.wishes.value() == 3; }));
  EXPECT_EQ(fleet.serve(asker, asker.request(tokens, giver.port(), 7)), 992);
  EXPECT_EQ(giver.counters.asking.value(), 3) << "they are there all the while";
  EXPECT_TRUE(fleet.until([&] { return giver.counters.asking.value() == 0; })) << "they are dropped in the end";
}

TEST(PeerStrangers, OnesThatLeaveAtAnyMomentLeaveNothingBehind) {
  PeerFleet fleet;
  PeerServer &giver = fleet.add(), &asker = fleet.add();
  const Tokens tokens = counting(1, 5000), whole = counting(1, 4992);
  giver.compute(tokens);
  for (int i = 0; i < 60; ++i) {
    auto link = PeerLink::open({"127.0.0.1", giver.port()}, giver.us, soon());
    ASSERT_TRUE(link.ok()) << link.error().message;
    ASSERT_TRUE((*link)->ask({i % 3 == 0 ? 99u : 0u, false, 0, "", whole}, soon()).ok());
    if (i % 2 == 0) fleet.turn();
    if (i % 4 == 0) static_cast<void>((*link)->next({std::chrono::steady_clock::now() + 10ms, {}}));
    link->reset();
    if (i % 5 == 0) fleet.turn();
  }
  EXPECT_TRUE(fleet.until([&] { return giver.counters.asking.value() == 0; }));
  giver.given().begins(7);
  EXPECT_EQ(fleet.serve(asker, asker.request(tokens, giver.port(), 7)), 4992);
}

// --- who gives ---

TEST(PeerStrangers, OtherSecretsModelsAndProtocolsAreRefusedInASentence) {
  PeerIdentity us{BlockNamer("numbers", "s"), 4096};
  const FakeGiver giver(us, [](const FakeGiver::Call&) {}), older(us, [](const FakeGiver::Call&) {}, 7);
  const auto refusal = [](const FakeGiver& of, const PeerIdentity& asker) {
    const auto link = PeerLink::open({"127.0.0.1", of.port()}, asker, soon());
    return link.ok() ? Error{} : link.error();
  };
  EXPECT_EQ(refusal(giver, us).message, "");
  const Error secret = refusal(giver, {BlockNamer("numbers", "S"), 4096});
  EXPECT_EQ(secret.kind, Error::Kind::unauthorized);
  EXPECT_THAT(secret.message, HasSubstr("--cache-remote-secret-file"));
  for (const PeerIdentity& other :
       {PeerIdentity{BlockNamer("other numbers", "s"), 4096}, PeerIdentity{BlockNamer("numbers", "s"), 8192}}) {
    const Error model = refusal(giver, other);
    EXPECT_EQ(model.kind, Error::Kind::unsupported);
    EXPECT_THAT(model.message, HasSubstr("other keys and values"));
  }
  const Error protocol = refusal(older, us);
  EXPECT_EQ(protocol.kind, Error::Kind::unsupported);
  EXPECT_THAT(protocol.message, HasSubstr("version 7"));
  PeerFleet fleet;
  const Error nobody = PeerLink::open({"127.0.0.1", 1}, us, soon()).error();
  EXPECT_EQ(nobody.kind, Error::Kind::network);
}

TEST(PeerStrangers, ASequenceGoesOnInOneWishAndAnotherIsAskedAnew) {
  const PeerIdentity us{BlockNamer("numbers", ""), 4096};
  const FakeGiver giver(us, [](const FakeGiver::Call& call) {
    if (call.wish.only_find) {
      call.say(peer_frame(PeerFrameKind::found, WireWriter().number(1000, 4).bytes));
      return;
    }
    for (int b = call.wish.first; b < call.chain.blocks(); b += 3)
      call.say(call.right(b, std::min(3, call.chain.blocks() - b)));
    call.say(FakeGiver::Call::end(PeerEnd::all));
  });
  BlockPull pull({"127.0.0.1", giver.port()}, us);
  const BlockChain chain = us.namer.chain("", counting(1, 320)), other = us.namer.chain("", counting(2, 320));
  std::vector<std::byte> into(20 * us.stride);
  const auto read = [&](const BlockChain& of, int first, std::size_t blocks) {
    const auto came = pull.read(of, 0, first, std::span(into).first(blocks * us.stride), soon());
    return came.ok() ? came->blocks : -1;
  };
  EXPECT_EQ(read(chain, 2, 4), 4);
  EXPECT_EQ(read(chain, 6, 5), 5);
  EXPECT_EQ(giver.calls(), 1);
  EXPECT_EQ(read(chain, 6, 5), 5) << "what was read already";
  EXPECT_EQ(giver.calls(), 2);
  EXPECT_EQ(read(other, 11, 9), 9);
  EXPECT_EQ(giver.calls(), 3);
  EXPECT_EQ(pull.find(chain, 5, soon()).value(), 15) << "no more than there are";
  EXPECT_EQ(read(chain, 18, 4), 2);
  EXPECT_EQ(pull.why_ended().why, PeerEnd::all);
  EXPECT_EQ(read(chain, 0, 20), 20);
  EXPECT_EQ(giver.calls(), 6);
}

// What a giver does that tells the truth up to block `right`, and how many of its tokens may be taken.
struct Lie {
  std::string name;
  FakeGiver::Answer answer;
  double pull_seconds = 30;
};

FakeGiver::Answer after(int right, const std::function<std::string(const FakeGiver::Call&, int)>& lie) {
  return [right, lie](const FakeGiver::Call& call) {
    if (!call.say(call.right(0, right)) || !call.say(lie(call, right))) return;
    while (!call.hung_up()) {
    }
  };
}

std::string changed(std::string bytes, std::size_t at) {
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  return bytes;
}

std::vector<Lie> every_lie(int right) {
  using Call = FakeGiver::Call;
  const auto one = [](const Call& call, int b, const std::string& block) { return call.frame(b, 1, block); };
  const auto other = [](const Call& call) {
    return call.us.namer.chain("", counting(500, static_cast<int>(call.chain.tokens.size())));
  };
  std::vector<Lie> lies;
  const auto add = [&](std::string name, const std::function<std::string(const Call&, int)>& lie) {
    lies.push_back({std::move(name), after(right, lie), 30});
  };
  add("a changed value", [=](const Call& c, int b) { return one(c, b, changed(c.block(b), kBlockHeader + 5)); });
  add("changed padding",
      [=](const Call& c, int b) { return one(c, b, changed(c.block(b), kBlockHeader + c.us.stride - 1)); });
  add("a changed header", [=](const Call& c, int b) { return one(c, b, changed(c.block(b), 150)); });
  add("a block of other tokens", [=](const Call& c, int b) { return one(c, b, c.block_of(other(c), b)); });
  add("a block of another place", [=](const Call& c, int b) { return one(c, b, c.block(b + 1)); });
  add("a block of another name space",
      [=](const Call& c, int b) { return one(c, b, c.block_of(c.us.namer.chain("tenant", c.chain.tokens), b)); });
  add("a block of another model", [=](const Call& c, int b) {
    Call stranger = c;
    stranger.us.namer = BlockNamer("other numbers", "");
    return one(c, b, stranger.block_of(stranger.us.namer.chain("", c.chain.tokens), b));
  });
  add("the next ones first", [](const Call& c, int b) { return c.right(b + 1, 2); });
  add("the last ones again", [](const Call& c, int b) { return c.right(b - 1, 2); });
  add("more than are left", [](const Call& c, int b) {
    return c.frame(b, c.chain.blocks() - b + 1, std::string(kBlockHeader + c.us.stride, 'x'));
  });
  add("more than a number holds", [](const Call&, int b) {
    return to_bytes(PeerFrameHead{PeerFrameKind::blocks, UINT64_MAX}) + to_bytes(PeerPiece{b, INT_MAX});
  });
  add("none", [](const Call& c, int b) { return c.frame(b, 0, ""); });
  add("fewer bytes than blocks", [](const Call& c, int b) {
    return to_bytes(PeerFrameHead{PeerFrameKind::blocks, 100}) + to_bytes(PeerPiece{b, 1}) + c.block(b);
  });
  add("a number of blocks", [](const Call&, int) { return peer_frame(PeerFrameKind::found, std::string(4, '\1')); });
  add("a wish", [](const Call& c, int) { return peer_frame(PeerFrameKind::wish, to_bytes(c.wish)); });
  add("a beat as long as memory",
      [](const Call&, int) { return to_bytes(PeerFrameHead{PeerFrameKind::beat, 1ull << 50}); });
  add("an ending that is none", [](const Call&, int) { return peer_frame(PeerFrameKind::end, "because"); });
  add("another protocol", [](const Call&, int) { return std::string("HTTP/1.1 200 OK\r\n\r\n"); });
  add("that all was given", [](const Call&, int) { return Call::end(PeerEnd::all); });
  lies.push_back(
      {"half a block", [right](const Call& c) { c.say(c.right(0, right) + c.right(right, 1).substr(0, 300)); }, 1});
  lies.push_back({"beats without an end and without a pause",
                  [right](const Call& c) {
                    std::string beats;
                    for (int i = 0; i < 1000; ++i) beats += peer_frame(PeerFrameKind::beat, "");
                    c.say(c.right(0, right));
                    while (!c.until.stop.cancelled() && c.say(beats)) {
                    }
                  },
                  1});
  lies.push_back({"nothing", after(right, [](const Call&, int) { return std::string(); }), 1});
  return lies;
}

TEST(PeerStrangers, WhatALyingServerGivesNeverComesIntoTheTree) {
  constexpr int kRight = 40;  // blocks
  const Tokens tokens = counting(1, 1203);
  for (Lie& lie : every_lie(kRight)) {
    SCOPED_TRACE(lie.name);
    PeerFleet fleet;
    PeerServerWish wish;
    wish.pull_seconds = lie.pull_seconds;
    PeerServer& asker = fleet.add(wish);
    const FakeGiver giver(asker.us, std::move(lie.answer));
    const int found = fleet.serve(asker, asker.request(tokens, giver.port(), 7));
    EXPECT_EQ(found, kRight * kBlockTokens) << "what came before was right";
    EXPECT_EQ(asker.counters.rooms_failed.value(), 1u);
    EXPECT_EQ(giver.calls(), 1) << "it is not asked again";
    asker.check();
  }
}

TEST(PeerStrangers, BeatsWithoutAnEndDoNotKeepWhoLeaves) {
  const auto start = std::chrono::steady_clock::now();
  {
    PeerFleet fleet;
    PeerServerWish patient;
    patient.pull_seconds = 3600;
    PeerServer& asker = fleet.add(patient);
    std::atomic<bool> beating = false;
    const FakeGiver giver(asker.us, [&](const FakeGiver::Call& call) {
      std::string beats;
      for (int i = 0; i < 1000; ++i) beats += peer_frame(PeerFrameKind::beat, "");
      while (!call.until.stop.cancelled() && call.say(beats)) beating = true;
    });
    PeerRequest request = asker.request(counting(1, 1203), giver.port(), 7);
    ASSERT_TRUE(asker.waits(request));
    ASSERT_TRUE(fleet.until([&] { return beating.load(); }));
    asker.prefixes->forget(request.owner);
    fleet.end(asker);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, 60s);
}

TEST(PeerStrangers, ALyingPeerCostsHitsAlone) {
  PeerIdentity us{BlockNamer("numbers", ""), 4096};
  const auto found = [](const FakeGiver::Call& call, std::uint64_t count) {
    call.say(peer_frame(PeerFrameKind::found, WireWriter().number(count, 4).bytes));
  };
  for (const std::uint64_t count : {std::uint64_t{10}, std::uint64_t{UINT32_MAX}}) {
    const FakeGiver giver(us, [&](const FakeGiver::Call& call) {
      if (call.wish.only_find) return found(call, count);
      call.say(call.right(call.wish.first, 4));
      call.say(call.frame(call.wish.first + 4, 1, changed(call.block(call.wish.first + 4), 400)));
    });
    PeerFleet fleet;
    PeerServerWish wish;
    wish.peers = {giver.port()};
    PeerServer& asker = fleet.add(wish);
    EXPECT_EQ(fleet.serve(asker, asker.request(counting(1, 700))), 0);
    EXPECT_EQ(asker.remote_counters.damaged_blocks.value(), 1u);
    asker.check();
  }
}

}  // namespace
}  // namespace espalier::peer_strangers_test
