// Several servers that pull prefixes out of each other's trees, whatever happens meanwhile.
#include <gtest/gtest.h>

#include <random>

#include "cache/testing/peer_server.h"
#include "testing/data.h"

namespace espalier::peers_random_test {
namespace {

using testing::counting;
using testing::join;
using testing::PeerFleet;
using testing::PeerRequest;
using testing::PeerServer;
using testing::PeerServerWish;
using testing::Tokens;

// Servers come and go and evict, rooms begin, end, never come or end too early, requests leave while they wait, memory is given up.
TEST(PeersAtRandom, NeverGivesAWrongValueWhateverHappens) {
  std::mt19937_64 rng(testing::seed());
  const auto below = [&](int n) { return static_cast<int>(rng() % static_cast<std::uint64_t>(n)); };
  struct Waiting {
    PeerServer* asker;
    PeerRequest request;
  };
  PeerFleet fleet;
  std::vector<Waiting> waiting;
  std::uint64_t pulled = 0, admitted = 0, rooms = 0;
  const auto any = [&]() -> PeerServer& { return *fleet.servers()[rng() % fleet.servers().size()]; };
  const auto text = [&] {
    Tokens tokens = counting(100 * below(4), 1 + below(900));
    return below(2) == 0 ? join(std::move(tokens), counting(9000 + below(3), 1 + below(700))) : tokens;
  };
  const auto add = [&] {
    PeerServerWish wish;
    wish.slots = 2000 + below(3000);
    wish.late = below(2) == 0;
    wish.block_bytes = 1 << 13;
    wish.pull_seconds = 0.05 + 0.1 * below(6);
    for (const auto& other : fleet.servers())
      if (below(2) == 0) wish.peers.push_back(other->port());
    fleet.add(wish);
  };
  const auto leave = [&](PeerServer& server) {
    std::erase_if(waiting, [&](const Waiting& each) { return each.asker == &server; });
    pulled += server.counters.pulled_tokens.value() + server.remote_counters.read_tokens.value();
    fleet.end(server);
  };
  for (int i = 0; i < 4; ++i) add();
  for (long i = 0; i < testing::operations(600, 20'000); ++i) {
    PeerServer &giver = any(), &asker = any();
    const std::string scope = below(5) == 0 ? "tenant" : "";
    const Tokens tokens = text();
    const std::uint64_t room = below(8) == 0 ? 0 : ++rooms;
    if (below(3) == 0) {
      giver.compute(tokens, tokens.size(), scope);
      waiting.push_back({&asker, asker.request(tokens, scope)});
    } else {
      if (below(6) != 0) giver.given().begins(room);
      giver.compute(tokens, static_cast<std::size_t>(below(static_cast<int>(tokens.size()) + 1)), scope);
      waiting.push_back({&asker, asker.request(tokens, giver.port(), room, scope)});
      fleet.turn();
      asker.waits(waiting.back().request);
      if (below(3) != 0) giver.compute(tokens, tokens.size(), scope);
      if (below(3) != 0) giver.given().ends(room);
    }
    for (std::size_t w = 0; w < waiting.size();) {
      auto& [server, request] = waiting[w];
      const bool leaves = below(60) == 0;
      if (!leaves && server->waits(request)) {
        ++w;
        continue;
      }
      if (leaves)
        server->prefixes->forget(request.owner);
      else
        admitted += static_cast<std::uint64_t>(server->admit(request));
      waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(w));
    }
    fleet.turn();
    if (below(3) == 0) fleet.bell().wait();
    if (below(10) == 0) any().tree.evict(below(1500));
    if (below(40) == 0) any().prefixes->give_up();
    if (below(80) == 0) any().prefixes->clear();
    if (below(25) == 0) {
      leave(any());
      add();
    }
    ASSERT_FALSE(::testing::Test::HasFailure()) << "operation " << i;
  }
  for (auto& [server, request] : waiting) admitted += static_cast<std::uint64_t>(fleet.serve(*server, request));
  waiting.clear();
  for (const auto& server : fleet.servers()) server->check();
  while (!fleet.servers().empty()) leave(*fleet.servers().back());
  EXPECT_GT(admitted, 5000u);
  EXPECT_GT(pulled, 5000u);
}

}  // namespace
}  // namespace espalier::peers_random_test
