// peer_server.h: a server for tests of cache/peers/: a pool of numbers (number_copier.h), a tree, and others to pull from and to give
// to, over real sockets of this machine. The test's thread is the engine thread of all of them.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cache/disk/disk_prefixes.h"
#include "cache/peers/peer_source.h"
#include "cache/remote/source_group.h"
#include "cache/testing/number_copier.h"
#include "cache/testing/test_tokens.h"

namespace espalier::testing {

// Rung by the threads of all servers when one has something to do.
class Bell {
 public:
  void ring() {
    const std::lock_guard lock(mutex_);
    rung_ = true;
    woken_.notify_one();
  }
  void wait() {  // not for long: time passes for some of them, too
    std::unique_lock lock(mutex_);
    woken_.wait_for(lock, std::chrono::milliseconds(5), [&] { return std::exchange(rung_, false); });
  }

 private:
  std::mutex mutex_;
  std::condition_variable woken_;
  bool rung_ = false;
};

// What a test's server is like.
struct PeerServerWish {
  std::string key = "numbers", secret;
  int slots = 6000;
  bool late = false;  // copies settle late, as a device's
  std::size_t block_bytes = kBlockTokens * sizeof(Value);
  bool gives = true, pulls = true;
  double pull_seconds = 60;
  AddressFilter allowed;
  std::vector<std::uint16_t> peers;  // are asked for what they have
};

// A request that waits on a server for what others have.
struct PeerRequest {
  Tokens tokens;
  std::string scope;
  Handoff handoff;  // no host: nobody computes it elsewhere
  std::uint64_t owner = 0;
  DiskMemory memory;
  int limit() const { return static_cast<int>(tokens.size()) - 1; }
  CacheKey key() const { return {scope, tokens}; }
};

// One server: a pool, a tree, no disk, and connections to others.
class PeerServer {
 public:
  PeerServer(const PeerServerWish& wish, Bell& bell)
      : values(static_cast<std::size_t>(wish.slots)), pool(wish.slots), tree(pool), copier(values), bell_(bell) {
    if (wish.late) copier.settle_late();
    DiskTierOptions options;
    options.block_bytes = wish.block_bytes;
    options.foreign_threads = 8;
    options.wake = [this] { bell_.ring(); };
    auto tier = DiskTier::open(options, disk_counters).value();
    us.namer = BlockNamer(wish.key, wish.secret);
    us.stride = tier->block_stride();
    prefixes = std::make_unique<DiskPrefixes>(std::move(tier), tree, pool, copier, false);
    if (!wish.peers.empty()) share(wish);
    if (wish.pulls) prefixes->fleet().pull({us, wish.allowed, 1, wish.pull_seconds}, counters);
    if (!wish.gives) return;
    auto listener = PeerListener::open({{"127.0.0.1", 0}, us, [this] { bell_.ring(); }, {}}, counters);
    EXPECT_TRUE(listener.ok()) << (listener.ok() ? "" : listener.error().message);
    if (listener.ok()) prefixes->fleet().give(std::move(*listener), 64);
  }
  PeerServer(const PeerServer&) = delete;
  PeerServer& operator=(const PeerServer&) = delete;
  ~PeerServer() { prefixes.reset(); }

  std::uint16_t port() const { return prefixes->fleet().given()->port(); }
  GivenPrefixes& given() const { return *prefixes->fleet().given(); }

  // The first `count` tokens are computed and published, as by one chunk of a prompt.
  void compute(const Tokens& tokens, std::size_t count, std::string_view scope = "") {
    const auto text = std::span<const TokenId>(tokens).first(count);
    Match match = tree.match({scope, text});
    const int rest = static_cast<int>(count) - match.length;
    if (rest == 0) return;
    if (pool.free_slots() < rest) tree.evict(rest - pool.free_slots());
    if (pool.free_slots() < rest && prefixes->give_up()) tree.evict(rest - pool.free_slots());
    auto slots = pool.allocate(rest);
    ASSERT_TRUE(slots);
    const auto all = values_of(scope, text);
    for (int i = 0; i < rest; ++i)
      values[static_cast<std::size_t>(slots->extents().slot_at(i))] = all[static_cast<std::size_t>(match.length + i)];
    tree.extend(match.pin, text.subspan(static_cast<std::size_t>(match.length)), std::move(*slots));
  }
  void compute(const Tokens& tokens) { compute(tokens, tokens.size()); }
  int holds(const Tokens& tokens, std::string_view scope = "") const { return tree.peek({scope, tokens}).length; }

  PeerRequest request(Tokens tokens, std::string scope = "") {
    return {std::move(tokens), std::move(scope), {}, ++owners_, {}};
  }
  // Of which the server at this port computes the prompt.
  PeerRequest request(Tokens tokens, std::uint16_t port, std::uint64_t room, std::string scope = "") {
    PeerRequest request = this->request(std::move(tokens), std::move(scope));
    request.handoff = {Handoff::Part::output, "127.0.0.1", port, room};
    return request;
  }
  bool waits(PeerRequest& request) {
    DiskPrefixes::LoadRequest load{request.owner, request.key(), request.limit()};
    load.matched = tree.peek(request.key(), {.length = request.limit()}).length;
    if (!request.handoff.host.empty()) load.handoff = &request.handoff;
    return prefixes->wait_for(load, request.memory);
  }
  // It is admitted: how many of its tokens are there. Each is looked at.
  int admit(PeerRequest& request) {
    Match match = tree.match(request.key(), {.length = request.limit()});
    prefixes->forget(request.owner);
    expect_right(request, match.extents);
    return match.length;
  }
  void expect_right(const PeerRequest& request, const ExtentList& slots) const {
    const auto wanted = values_of(request.scope, request.tokens);
    for (int i = 0; i < slots.length(); ++i)
      ASSERT_EQ(values[static_cast<std::size_t>(slots.slot_at(i))], wanted[static_cast<std::size_t>(i)])
          << "token " << i;
  }
  void check() const {
    for (const auto& result : {tree.check(), prefixes->tier().catalogue().check()})
      EXPECT_TRUE(result.ok()) << result.error().message;
    EXPECT_EQ(prefixes->tier().catalogue().files(), 0u) << "what others have is named only while somebody waits for it";
  }

  PeerIdentity us;
  std::vector<Value> values;
  SlotAllocator pool;
  RadixTree tree;
  NumberCopier copier;
  DiskTierCounters disk_counters;
  RemoteTierCounters remote_counters;
  PeerCounters counters;
  std::unique_ptr<DiskPrefixes> prefixes;

 private:
  void share(const PeerServerWish& wish) {
    RemoteTierOptions remote;
    remote.shown = "servers of a test";
    remote.who = "the remote cache at servers of a test";
    remote.namer = us.namer;
    remote.stride = us.stride;
    remote.weighs = false;
    remote.ask_seconds = 5;
    remote.wake = [this] { bell_.ring(); };
    std::vector<std::shared_ptr<RemoteHealth>> health;
    for (std::size_t i = 0; i < wish.peers.size(); ++i)
      health.push_back(std::make_shared<RemoteHealth>("a server of a test", state_));
    remote.open = [ports = wish.peers, us = us, stop = remote.stop, health,
                   choices = std::make_shared<SharedChoices>()]() {
      std::vector<SourceGroup::Member> members;
      for (std::size_t i = 0; i < ports.size(); ++i)
        members.push_back({std::make_unique<PeerSource>(HostAndPort{"127.0.0.1", ports[i]}, us, stop), health[i]});
      return std::make_unique<SourceGroup>(std::move(members), choices);
    };
    prefixes->fleet().share(std::make_unique<RemoteTier>(std::move(remote), remote_counters), RemotePolicy::never);
  }

  Bell& bell_;
  Gauge state_;
  std::uint64_t owners_ = 0;
};

// Servers that take their turns on the test's thread, until something holds.
class PeerFleet {
 public:
  PeerServer& add(const PeerServerWish& wish = {}) {
    servers_.push_back(std::make_unique<PeerServer>(wish, bell_));
    return *servers_.back();
  }
  void end(PeerServer& server) {
    std::erase_if(servers_, [&](const auto& each) { return each.get() == &server; });
  }
  void turn() {
    for (const auto& server : servers_) server->prefixes->collect();
  }
  template <class Holds>
  bool until(const Holds& holds) {  // false: it does not for all of a minute
    for (const auto start = std::chrono::steady_clock::now();
         std::chrono::steady_clock::now() - start < std::chrono::minutes(1);) {
      turn();
      if (holds()) return true;
      bell_.wait();
    }
    return false;
  }
  // Until it may be admitted: how many of its tokens are there then.
  int serve(PeerServer& server, PeerRequest request) {
    EXPECT_TRUE(until([&] { return !server.waits(request); }));
    return server.admit(request);
  }
  Bell& bell() { return bell_; }
  std::vector<std::unique_ptr<PeerServer>>& servers() { return servers_; }

 private:
  Bell bell_;
  std::vector<std::unique_ptr<PeerServer>> servers_;
};

}  // namespace espalier::testing
