// Servers that pull prefixes out of each other's trees over real sockets, with one number for the keys and values of a token: it is a
// function of every token up to there, so a single wrong slot is seen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "cache/testing/peer_server.h"

namespace espalier::peers_test {
namespace {

using namespace std::chrono_literals;
using testing::counting;
using testing::join;
using testing::PeerFleet;
using testing::PeerRequest;
using testing::PeerServer;
using testing::PeerServerWish;
using testing::Tokens;

PeerServerWish late() {
  PeerServerWish wish;
  wish.late = true;
  return wish;
}
// A frame holds 32 blocks, a buffer of the tier 128.
PeerServerWish large_blocks() {
  PeerServerWish wish;
  wish.block_bytes = 1 << 17;
  return wish;
}

TEST(Peers, APrefixPulledThroughARoomIsWhatTheOtherComputed) {
  for (const PeerServerWish& wish : {PeerServerWish(), large_blocks()}) {
    PeerFleet fleet;
    PeerServer &giver = fleet.add(wish), &asker = fleet.add(wish);
    const Tokens tokens = counting(1, 1003);
    giver.given().begins(7);
    giver.compute(tokens);
    EXPECT_EQ(fleet.serve(asker, asker.request(tokens, giver.port(), 7)), 992) << "all whole blocks";
    EXPECT_EQ(asker.counters.rooms.value(), 1u);
    EXPECT_EQ(asker.counters.rooms_failed.value(), 0u);
    EXPECT_EQ(asker.counters.pulled_tokens.value(), 992u);
    EXPECT_EQ(asker.counters.pulled_bytes.value(), 62 * asker.us.stride);
    EXPECT_TRUE(fleet.until([&] { return giver.counters.given_tokens.value() == 992; }));
    EXPECT_EQ(giver.counters.given_bytes.value(), 62 * giver.us.stride);
    EXPECT_EQ(giver.counters.wishes.value(), 1u);
    EXPECT_EQ(asker.holds(tokens), 992);
    asker.check();
    giver.check();
  }
}

TEST(Peers, OfAPromptOfWholeBlocksAllButItsLastTokenIsOfUse) {
  PeerFleet fleet;
  PeerServer &giver = fleet.add(), &asker = fleet.add();
  const Tokens tokens = counting(1, 640);
  giver.given().begins(7);
  giver.compute(tokens);
  EXPECT_EQ(fleet.serve(asker, asker.request(tokens, giver.port(), 7)), 639);
}

TEST(Peers, WhatTheAskerHoldsIsNotPulled) {
  PeerFleet fleet;
  PeerServer &giver = fleet.add(), &asker = fleet.add();
  const Tokens tokens = counting(1, 1003);
  giver.given().begins(7);
  giver.compute(tokens);
  asker.compute(tokens, 405);
  EXPECT_EQ(fleet.serve(asker, asker.request(tokens, giver.port(), 7)), 992);
  EXPECT_EQ(asker.counters.pulled_tokens.value(), 592u) << "from the block on of which it has a part";
  EXPECT_EQ(fleet.serve(asker, asker.request(tokens, giver.port(), 8)), 992);
  EXPECT_EQ(asker.counters.rooms_unneeded.value(), 1u);
  EXPECT_EQ(giver.counters.wishes.value(), 1u);
  asker.check();
}

TEST(Peers, AWishBeforeItsRequestWaitsAndGetsBlocksAsTheyAreComputed) {
  for (const bool settle_late : {false, true}) {
    PeerFleet fleet;
    PeerServer &giver = fleet.add(settle_late ? late() : PeerServerWish()), &asker = fleet.add();
    const Tokens tokens = counting(1, 2200);
    PeerRequest request = asker.request(tokens, giver.port(), 7);
    ASSERT_TRUE(asker.waits(request));
    ASSERT_TRUE(fleet.until([&] { return giver.counters.wishes.value() == 1; }));
    EXPECT_TRUE(asker.waits(request));
    EXPECT_EQ(asker.holds(tokens), 0);
    giver.given().begins(7);
    for (const int count : {100, 111, 112, 512, 700, 1024, 2048}) {
      giver.compute(tokens, static_cast<std::size_t>(count));
      EXPECT_TRUE(fleet.until([&] { return asker.holds(tokens) == count / 16 * 16; })) << count;
      EXPECT_TRUE(asker.waits(request)) << "more comes";
    }
    giver.compute(tokens);
    giver.given().ends(7);
    EXPECT_EQ(fleet.serve(asker, request), 2192);
    EXPECT_EQ(asker.counters.rooms_failed.value(), 0u);
    asker.check();
  }
}

TEST(Peers, ARoomThatEndedEarlyGivesWhatThereIs) {
  PeerFleet fleet;
  PeerServer &giver = fleet.add(), &asker = fleet.add();
  const Tokens tokens = counting(1, 2200);
  giver.given().begins(7);
  giver.compute(tokens, 1100);
  giver.given().ends(7);
  EXPECT_EQ(fleet.serve(asker, asker.request(tokens, giver.port(), 7)), 1088) << "whole blocks";
  EXPECT_EQ(asker.counters.rooms_failed.value(), 1u);
  asker.compute(tokens);
  giver.given().begins(8);
  EXPECT_TRUE(fleet.until([&] { return asker.prefixes->idle(); }));
  // Likewise one that ends while it is waited for.
  const Tokens others = counting(9000, 700);
  PeerRequest request = asker.request(others, giver.port(), 8);
  ASSERT_TRUE(asker.waits(request));
  giver.compute(others, 520);
  ASSERT_TRUE(fleet.until([&] { return asker.holds(others) == 512; }));
  EXPECT_TRUE(asker.waits(request));
  giver.given().ends(8);
  EXPECT_EQ(fleet.serve(asker, request), 512);
  asker.check();
}

TEST(Peers, AnUnknownRoomIsWaitedForUntilPatienceEnds) {
  PeerFleet fleet;
  PeerServerWish wish;
  wish.gives = false;
  PeerServer &asker = fleet.add(), &holder = fleet.add(wish);
  auto listener = PeerListener::open({{"127.0.0.1", 0}, holder.us, [&] { fleet.bell().ring(); }, {}}, holder.counters);
  ASSERT_TRUE(listener.ok());
  GivenPrefixes given(std::move(*listener), holder.tree, holder.copier, 8, 30s);
  const Tokens tokens = counting(1, 1200);
  holder.compute(tokens, 600);
  PeerRequest request = asker.request(tokens, given.port(), 7);
  auto now = GivenPrefixes::Clock::now();
  const auto until = [&](const auto& holds) {
    return fleet.until([&] {
      given.collect(8, now);
      return holds();
    });
  };
  ASSERT_TRUE(asker.waits(request));
  EXPECT_TRUE(until([&] { return asker.holds(tokens) == 592; })) << "what there is comes at once";
  now += 29s;
  for (int i = 0; i < 20; ++i) until([] { return true; });
  EXPECT_TRUE(asker.waits(request));
  now += 2s;
  EXPECT_TRUE(until([&] { return !asker.waits(request); }));
  EXPECT_EQ(asker.admit(request), 592);
  EXPECT_EQ(asker.counters.rooms_failed.value(), 1u);
  asker.check();
}

// An engine that has nothing else to do does something after a wake alone. In time: a beat wakes it, too, but once a second.
TEST(Peers, AnEngineThatWakesBringAloneGivesAllInTime) {
  for (const bool settle_late : {false, true}) {
    PeerFleet fleet;
    PeerServerWish wish;
    wish.slots = 110'000;
    PeerServer& asker = fleet.add(wish);
    wish.late = settle_late;
    wish.gives = false;
    PeerServer& holder = fleet.add(wish);
    std::atomic<int> wakes = 0;
    auto listener = PeerListener::open({{"127.0.0.1", 0}, holder.us, [&] { ++wakes; }, {}}, holder.counters);
    ASSERT_TRUE(listener.ok());
    GivenPrefixes given(std::move(*listener), holder.tree, holder.copier, 1);
    const Tokens tokens = counting(1, 25 * 256 * kBlockTokens);  // 25 frames
    holder.compute(tokens);
    given.begins(7);
    PeerRequest request = asker.request(tokens, given.port(), 7);
    int seen = 0;
    const auto start = GivenPrefixes::Clock::now();
    EXPECT_TRUE(fleet.until([&] {
      if (const int now = wakes; now != std::exchange(seen, now)) {
        holder.copier.settle();
        given.filled();
        given.collect(1);
      }
      return !asker.waits(request);
    }));
    EXPECT_EQ(asker.admit(request), request.limit());
    EXPECT_LT(GivenPrefixes::Clock::now() - start, 15s);
  }
}

TEST(Peers, WishesOfThoseWhoLeftAreForgottenAtAnyMoment) {
  PeerFleet fleet;
  PeerServer& giver = fleet.add();
  const Tokens tokens = counting(1, 5000);
  giver.compute(tokens);
  std::atomic<bool> done = false;
  std::jthread leaver([&, at = giver.port(), us = giver.us, whole = counting(1, 4992)] {
    for (int i = 0; i < 200; ++i) {
      const WaitUntil soon{std::chrono::steady_clock::now() + 20s, {}};
      const auto link = PeerLink::open({"127.0.0.1", at}, us, soon);
      if (link.ok()) static_cast<void>((*link)->ask({0, false, 0, "", whole}, soon));
    }
    done = true;
  });
  while (!done) giver.prefixes->collect();
  EXPECT_TRUE(fleet.until([&] { return giver.counters.asking.value() == 0 && giver.given().open() == 0; }));
}

TEST(Peers, WhatIsOwedToARoomIsToldOnceItWasGiven) {
  PeerFleet fleet;
  PeerServer &giver = fleet.add(), &asker = fleet.add();
  EXPECT_FALSE(giver.given().owes(7)) << "nobody came with it";
  giver.given().begins(7);
  giver.compute(counting(1, 300));
  giver.given().ends(7);
  EXPECT_TRUE(giver.given().owes(7));
  EXPECT_THAT(giver.given().take_given(), ::testing::IsEmpty());
  EXPECT_EQ(fleet.serve(asker, asker.request(counting(1, 300), giver.port(), 7)), 288);
  EXPECT_TRUE(fleet.until([&] { return !giver.given().owes(7); }));
  EXPECT_THAT(giver.given().take_given(), ::testing::ElementsAre(7u));
  EXPECT_THAT(giver.given().take_given(), ::testing::IsEmpty());
  giver.given().begins(7);
  EXPECT_TRUE(giver.given().owes(7)) << "whoever sends it again pulls it again";
}

TEST(Peers, AGiverThatEndsInTheMiddleCostsTheRest) {
  PeerFleet fleet;
  PeerServer &giver = fleet.add(), &asker = fleet.add();
  const Tokens tokens = counting(1, 2200);
  PeerRequest request = asker.request(tokens, giver.port(), 7);
  ASSERT_TRUE(asker.waits(request));
  giver.given().begins(7);
  giver.compute(tokens, 1100);
  ASSERT_TRUE(fleet.until([&] { return asker.holds(tokens) == 1088; }));
  EXPECT_TRUE(asker.waits(request));
  fleet.end(giver);
  EXPECT_EQ(fleet.serve(asker, request), 1088);
  EXPECT_EQ(asker.counters.rooms_failed.value(), 1u);
  asker.check();
}

TEST(Peers, SeveralAskersAtTheSameTimeAllGetRightValues) {
  PeerFleet fleet;
  PeerServer& giver = fleet.add(large_blocks());
  std::vector<std::pair<PeerServer*, PeerRequest>> waiting;
  std::vector<Tokens> texts;
  for (int i = 0; i < 3; ++i) texts.push_back(join(counting(1, 200), counting(10'000 * (i + 1), 700)));
  for (int i = 0; i < 6; ++i) {
    PeerServer& asker = fleet.add(large_blocks());
    const auto which = static_cast<std::size_t>(i % 3);
    waiting.emplace_back(&asker, asker.request(texts[which], giver.port(), 70 + which));
    ASSERT_TRUE(asker.waits(waiting.back().second));
  }
  for (std::size_t room = 70; room < 73; ++room) giver.given().begins(room);
  for (std::size_t count = 150; count <= 900; count += 150)
    for (const Tokens& text : texts) {
      giver.compute(text, count);
      fleet.turn();
    }
  for (auto& [asker, request] : waiting) {
    EXPECT_EQ(fleet.serve(*asker, request), 896);
    asker->check();
  }
  EXPECT_EQ(giver.counters.wishes.value(), 6u);
}

TEST(Peers, PromptsThatStandStillHoldUpNoOthers) {
  PeerFleet fleet;
  PeerServer &giver = fleet.add(), &asker = fleet.add();
  std::vector<PeerRequest> still;
  for (int i = 0; i < 6; ++i) {  // more than the tier has buffers
    const Tokens tokens = counting(10'000 * (i + 1), 700);
    giver.given().begins(static_cast<std::uint64_t>(i) + 1);
    giver.compute(tokens, 100);
    still.push_back(asker.request(tokens, giver.port(), static_cast<std::uint64_t>(i) + 1));
    ASSERT_TRUE(asker.waits(still.back()));
    ASSERT_TRUE(fleet.until([&] { return asker.holds(tokens) == 96; }));
  }
  const Tokens tokens = counting(1, 700);
  giver.given().begins(99);
  giver.compute(tokens);
  EXPECT_EQ(fleet.serve(asker, asker.request(tokens, giver.port(), 99)), 688);
  for (PeerRequest& request : still) {
    EXPECT_TRUE(asker.waits(request));
    giver.compute(request.tokens);
    EXPECT_EQ(fleet.serve(asker, request), 688);
  }
  asker.check();
}

TEST(Peers, OneAskerPullsSeveralPromptsFromSeveralServers) {
  PeerFleet fleet;
  std::vector<PeerServer*> givers;
  for (int i = 0; i < 3; ++i) givers.push_back(&fleet.add(i == 0 ? late() : PeerServerWish()));
  PeerServer& asker = fleet.add(late());
  std::vector<PeerRequest> waiting;
  for (int i = 0; i < 6; ++i) {
    PeerServer& giver = *givers[static_cast<std::size_t>(i) % givers.size()];
    const Tokens tokens = counting(10'000 * (i + 1), 600 + i);
    giver.given().begins(static_cast<std::uint64_t>(i) + 1);
    giver.compute(tokens);
    waiting.push_back(asker.request(tokens, giver.port(), static_cast<std::uint64_t>(i) + 1));
    asker.waits(waiting.back());
  }
  for (PeerRequest& request : waiting) EXPECT_GE(fleet.serve(asker, request), 592);
  asker.check();
}

TEST(Peers, RequestsOfOnePromptShareItsPullAndTheOthersAreNotHarmedWhenItsOwnerLeaves) {
  PeerFleet fleet;
  PeerServer &giver = fleet.add(), &asker = fleet.add();
  const Tokens tokens = counting(1, 1003);
  PeerRequest first = asker.request(tokens, giver.port(), 7), second = asker.request(tokens, giver.port(), 8);
  ASSERT_TRUE(asker.waits(first));
  ASSERT_TRUE(asker.waits(second));
  EXPECT_EQ(asker.counters.rooms.value(), 1u);
  giver.given().begins(7);
  giver.given().begins(8);
  giver.compute(tokens, 520);
  ASSERT_TRUE(fleet.until([&] { return asker.holds(tokens) == 512; }));
  asker.prefixes->forget(first.owner);
  giver.compute(tokens);
  const int found = fleet.serve(asker, second);
  EXPECT_TRUE(found >= 512 && found <= 992) << found << ": the rest is computed, unless it had come already";
  asker.check();
}

TEST(Peers, WhoLeavesWhileItWaitsIsWaitedForByNobody) {
  const auto start = std::chrono::steady_clock::now();
  {
    PeerFleet fleet;
    PeerServerWish patient;
    patient.pull_seconds = 3600;
    PeerServer &giver = fleet.add(), &asker = fleet.add(patient);
    giver.given().begins(7);
    giver.given().begins(8);
    PeerRequest leaves = asker.request(counting(1, 1200), giver.port(), 7),
                stays = asker.request(counting(9000, 1200), giver.port(), 8);
    ASSERT_TRUE(asker.waits(leaves));
    ASSERT_TRUE(asker.waits(stays));
    ASSERT_TRUE(fleet.until([&] { return giver.counters.asking.value() == 2; }));
    asker.prefixes->forget(leaves.owner);
    ASSERT_TRUE(fleet.until([&] { return giver.counters.asking.value() == 1; })) << "it hangs up";
    EXPECT_EQ(asker.counters.rooms_failed.value(), 0u) << "nobody missed anything";
    fleet.end(asker);
    ASSERT_TRUE(fleet.until([&] { return giver.counters.asking.value() == 0; }));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, 60s) << "instead of an hour";
}

TEST(Peers, AFlushEndsWhatIsPulledAndTheNextPullsAnew) {
  PeerFleet fleet;
  PeerServer &giver = fleet.add(), &asker = fleet.add();
  const Tokens tokens = counting(1, 1003);
  giver.given().begins(7);
  PeerRequest request = asker.request(tokens, giver.port(), 7);
  ASSERT_TRUE(asker.waits(request));
  giver.compute(tokens, 600);
  ASSERT_TRUE(fleet.until([&] { return asker.holds(tokens) == 592; }));
  asker.prefixes->clear();
  EXPECT_EQ(fleet.serve(asker, request), 0);
  giver.compute(tokens);
  EXPECT_EQ(fleet.serve(asker, asker.request(tokens, giver.port(), 7)), 992);
  asker.check();
}

// Memory that runs short ends a load while its thread still waits for the other server; the next load reads the same blocks.
TEST(Peers, ALoadThatWasGivenUpIsBegunAnewWhileTheFirstStillWaits) {
  PeerFleet fleet;
  PeerServer &giver = fleet.add(), &asker = fleet.add();
  const Tokens tokens = counting(1, 2200);
  giver.given().begins(7);
  PeerRequest request = asker.request(tokens, giver.port(), 7);
  for (std::size_t count = 0; count < tokens.size(); count += 200) {
    giver.compute(tokens, count);
    for (int i = 0; i < 4; ++i) fleet.turn();
    asker.waits(request);
    asker.prefixes->give_up();
  }
  giver.compute(tokens);
  EXPECT_GE(fleet.serve(asker, request), 0);
  asker.check();
}

TEST(Peers, AddressesThatAreNotAllowedAreNotConnectedTo) {
  PeerFleet fleet;
  PeerServerWish nowhere, local;
  nowhere.allowed = [](const SocketAddress&) { return false; };
  local.allowed = is_local;
  PeerServer &giver = fleet.add(), &refuses = fleet.add(nowhere), &asker = fleet.add(local);
  const Tokens tokens = counting(1, 1003);
  giver.given().begins(7);
  giver.compute(tokens);
  EXPECT_EQ(fleet.serve(refuses, refuses.request(tokens, giver.port(), 7)), 0);
  EXPECT_EQ(refuses.counters.rooms_failed.value(), 1u);
  EXPECT_EQ(giver.counters.wishes.value(), 0u);
  EXPECT_EQ(fleet.serve(asker, asker.request(tokens, giver.port(), 7)), 992);
}

TEST(Peers, OtherSecretsModelsAndNameSpacesShareNothing) {
  PeerFleet fleet;
  PeerServerWish secret, other_secret, other_model;
  secret.secret = other_model.secret = "s";
  other_secret.secret = "S";
  other_model.key = "other numbers";
  PeerServer& giver = fleet.add(secret);
  const Tokens tokens = counting(1, 1003);
  giver.given().begins(7);
  giver.given().ends(7);
  giver.compute(tokens, tokens.size(), "salt");
  for (const PeerServerWish& wish : {PeerServerWish(), other_secret, other_model}) {
    PeerServer& stranger = fleet.add(wish);
    EXPECT_EQ(fleet.serve(stranger, stranger.request(tokens, giver.port(), 7, "salt")), 0);
    EXPECT_EQ(stranger.counters.rooms_failed.value(), 1u);
  }
  EXPECT_EQ(giver.counters.given_tokens.value(), 0u);
  PeerServer& asker = fleet.add(secret);
  EXPECT_EQ(fleet.serve(asker, asker.request(tokens, giver.port(), 7, "")), 0);
  EXPECT_EQ(fleet.serve(asker, asker.request(tokens, giver.port(), 7, "pepper")), 0);
  EXPECT_EQ(fleet.serve(asker, asker.request(tokens, giver.port(), 7, "salt")), 992);
}

TEST(Peers, AServerThatIsAskedForPrefixesGivesTheLongestOfAll) {
  PeerFleet fleet;
  PeerServer &one = fleet.add(), &another = fleet.add(late());
  const Tokens tokens = counting(1, 6000), others = counting(20'000, 900);
  one.compute(tokens, 1600);
  another.compute(tokens, 4800);
  one.compute(others);
  PeerServerWish wish;
  wish.peers = {one.port(), another.port()};
  wish.slots = 10'000;
  PeerServer& asker = fleet.add(wish);
  EXPECT_EQ(fleet.serve(asker, asker.request(tokens)), 4800);
  EXPECT_EQ(one.counters.given_tokens.value(), 0u);
  EXPECT_EQ(fleet.serve(asker, asker.request(others)), 896);
  EXPECT_EQ(fleet.serve(asker, asker.request(join(others, counting(1, 50)))), 896) << "out of its own tree";
  EXPECT_EQ(asker.remote_counters.read_tokens.value(), 5696u);
  EXPECT_EQ(asker.remote_counters.errors.value(), 0u);
  asker.check();
}

TEST(Peers, OneThatIsGoneLeavesTheOthersToBeAsked) {
  PeerFleet fleet;
  PeerServer &one = fleet.add(), &another = fleet.add();
  PeerServerWish wish;
  wish.peers = {one.port(), another.port()};
  PeerServer& asker = fleet.add(wish);
  for (int i = 0; i < 3; ++i) {
    const Tokens tokens = counting(10'000 * i, 700);
    another.compute(tokens);
    if (i < 2) one.compute(tokens, 320);
    EXPECT_EQ(fleet.serve(asker, asker.request(tokens)), 688);
    if (i == 1) fleet.end(one);
  }
  fleet.end(another);
  EXPECT_EQ(fleet.serve(asker, asker.request(counting(90'000, 700))), 0);
  EXPECT_EQ(fleet.serve(asker, asker.request(counting(80'000, 700))), 0);
  asker.check();
}

}  // namespace
}  // namespace espalier::peers_test
