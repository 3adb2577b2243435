// Trees of several servers that share their prefixes through a real Redis, with one number for the keys and values of a token: it
// is a function of every token up to there, so a single wrong slot is seen.
#include "cache/remote/remote_prefixes.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>

#include "cache/disk/disk_prefixes.h"
#include "cache/remote/redis_blocks.h"
#include "cache/testing/number_copier.h"
#include "cache/testing/redis_server.h"
#include "cache/testing/test_tokens.h"
#include "testing/data.h"

namespace espalier::remote_prefixes_test {
namespace {

using namespace std::chrono_literals;
using testing::counting;
using testing::join;
using testing::Tokens;
using testing::Value;
using testing::values_of;

struct Wish {
  RedisAddress address;
  RemotePolicy policy = RemotePolicy::write_through;
  std::string key = "numbers", secret;
  int slots = 4000;
  bool late = false;  // copies settle late, as a device's
  double ask_seconds = 20, move_seconds = 20;
};

// One server: a pool, a tree, and no disk.
struct Server {
  explicit Server(const Wish& wish)
      : values(static_cast<std::size_t>(wish.slots)), pool(wish.slots), tree(pool), copier(values) {
    if (wish.late) copier.settle_late();
    DiskTierOptions options;
    options.block_bytes = kBlockTokens * sizeof(Value);
    options.foreign_threads = 1;
    options.wake = [this] { wake(); };
    auto tier = DiskTier::open(options, disk_counters).value();
    RemoteTierOptions remote;
    remote.shown = "a Redis of a test";
    remote.who = "the remote cache at a Redis of a test";
    remote.namer = BlockNamer(wish.key, wish.secret);
    remote.stride = tier->block_stride();
    remote.weighs = false;
    remote.ask_seconds = wish.ask_seconds;
    remote.move_seconds = wish.move_seconds;
    remote.wake = [this] { wake(); };
    const RedisBlocksOptions blocks{wish.address, "test", 0, remote.namer.model(), remote.stride, remote.stop};
    remote.open = [blocks] { return std::make_unique<RedisBlocks>(blocks); };
    prefixes = std::make_unique<DiskPrefixes>(std::move(tier), tree, pool, copier, false);
    prefixes->fleet().share(std::make_unique<RemoteTier>(std::move(remote), counters), wish.policy);
  }
  ~Server() { prefixes.reset(); }

  void wake() {
    const std::lock_guard lock(mutex);
    ++wakes;
    woken.notify_one();
  }
  void wait() {
    std::unique_lock lock(mutex);
    woken.wait_for(lock, 5ms, [&] { return std::exchange(wakes, 0) > 0; });
  }
  bool holds(const ExtentList& slots, std::span<const Value> what) const {
    for (int i = 0; i < slots.length(); ++i)
      if (values[static_cast<std::size_t>(slots.slot_at(i))] != what[static_cast<std::size_t>(i)]) return false;
    return true;
  }
  // As the engine does: waits while more is being read, matches, computes the rest, and tells that it did. How many tokens were
  // found.
  int serve(const Tokens& tokens, std::string_view scope = "") {
    const CacheKey key{scope, tokens};
    const int found = get(tokens, scope);
    Match match = tree.match(key, {.length = static_cast<int>(tokens.size()) - 1});
    const int rest = static_cast<int>(tokens.size()) - match.length;
    if (pool.free_slots() < rest) tree.evict(rest - pool.free_slots());
    auto slots = pool.allocate(rest);
    EXPECT_TRUE(slots);
    if (!slots) return found;
    const auto all = values_of(scope, tokens);
    for (int i = 0; i < rest; ++i)
      values[static_cast<std::size_t>(slots->extents().slot_at(i))] =
          all[static_cast<std::size_t>(match.length) + static_cast<std::size_t>(i)];
    tree.extend(match.pin, std::span(tokens).subspan(static_cast<std::size_t>(match.length)), std::move(*slots));
    prefixes->fleet().prefixes()->computed(key, static_cast<int>(tokens.size()));
    return found;
  }
  int get(const Tokens& tokens, std::string_view scope = "") {
    DiskMemory memory;
    const int limit = static_cast<int>(tokens.size()) - 1;
    for (int i = 0; i < 8000; ++i) {
      prefixes->collect();
      const int matched = tree.peek({scope, tokens}, {.length = limit}).length;
      if (!prefixes->wait_for({owner, {scope, tokens}, limit, matched}, memory)) break;
      wait();
    }
    Match match = tree.match({scope, tokens}, {.length = limit});
    prefixes->forget(owner++);
    prefixes->fleet().prefixes()->used_again({scope, tokens}, match.length);
    EXPECT_TRUE(holds(match.extents, values_of(scope, tokens)));
    return match.length;
  }
  void give_all() { EXPECT_TRUE(prefixes->fleet().prefixes()->save(std::chrono::steady_clock::now() + 20s)); }
  void check() const {
    for (const auto& result : {tree.check(), prefixes->tier().catalogue().check()})
      EXPECT_TRUE(result.ok()) << result.error().message;
    EXPECT_EQ(prefixes->tier().catalogue().files(), 0u) << "what others have is named only while somebody waits for it";
  }

  std::mutex mutex;
  std::condition_variable woken;
  int wakes = 0;
  std::uint64_t owner = 1;
  std::vector<Value> values;
  SlotAllocator pool;
  RadixTree tree;
  testing::NumberCopier copier;
  DiskTierCounters disk_counters;
  RemoteTierCounters counters;
  std::unique_ptr<DiskPrefixes> prefixes;
};

class RemotePrefixesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (testing::redis_program().empty())
      GTEST_SKIP() << "left out: there is no Redis server here (Debian: redis-tools)";
    redis_.emplace();
    ASSERT_TRUE(redis_->running());
  }
  Wish wish() const {
    Wish wish;
    wish.address = redis_->address();
    return wish;
  }
  std::optional<testing::RedisServer> redis_;
};

TEST_F(RemotePrefixesTest, OneFindsWhatAnotherComputed) {
  Server one(wish()), another(wish());
  const Tokens tokens = counting(1, 1003);
  EXPECT_EQ(one.serve(tokens), 0);
  one.give_all();
  EXPECT_EQ(one.counters.written_tokens.value(), 992u);
  EXPECT_EQ(another.serve(tokens), 992) << "all whole blocks";
  another.give_all();
  EXPECT_EQ(another.counters.written_tokens.value(), 0u) << "what was found there is not sent";
  EXPECT_EQ(another.counters.read_tokens.value(), 992u);
  EXPECT_EQ(another.serve(tokens), 1002) << "from its own tree";
  EXPECT_EQ(another.counters.asks.value(), 1u);
  another.check();
}

TEST_F(RemotePrefixesTest, BlocksAreSharedThoughEachCutsItsTextsDifferently) {
  Server one(wish()), another(wish()), third(wish());
  const Tokens beginning = counting(1, 330);
  one.serve(join(beginning, counting(5000, 100)));
  another.serve(join(beginning, counting(7000, 100)));
  one.give_all();
  another.give_all();
  EXPECT_EQ(third.serve(join(beginning, counting(7000, 60))), 384);
  EXPECT_EQ(third.serve(join(beginning, counting(5000, 70))), 399) << "320 from its own tree, the rest from others";
  EXPECT_EQ(third.counters.read_tokens.value(), 384u + 80u);
  third.check();
}

TEST_F(RemotePrefixesTest, ScopesModelsAndSecretsShareNothing) {
  const Tokens tokens = counting(1, 200);
  Server one(wish());
  one.serve(tokens, "salt");
  one.give_all();
  Wish other_model = wish(), other_secret = wish();
  other_model.key = "other numbers";
  other_secret.secret = "s";
  EXPECT_EQ(Server(wish()).serve(tokens, ""), 0);
  EXPECT_EQ(Server(wish()).serve(tokens, "other salt"), 0);
  EXPECT_EQ(Server(other_model).serve(tokens, "salt"), 0);
  EXPECT_EQ(Server(other_secret).serve(tokens, "salt"), 0);
  EXPECT_EQ(Server(wish()).serve(tokens, "salt"), 192);
}

TEST_F(RemotePrefixesTest, CopiesThatSettleLateAreWholeWhenTheyAreSent) {
  Wish device = wish();
  device.late = true;
  Server one(device), another(device);
  for (int i = 0; i < 5; ++i) one.serve(counting(1000 * i, 690 + i));
  one.give_all();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(another.serve(counting(1000 * i, 690 + i)), 688);
  another.prefixes->collect();
  another.check();
}

TEST_F(RemotePrefixesTest, SelectiveGivesWhatWasUsedAgainAndBackWhatIsEvicted) {
  Wish selective = wish(), back = wish();
  selective.policy = RemotePolicy::write_through_selective;
  back.policy = RemotePolicy::write_back;
  const Tokens a = counting(1, 300), b = counting(10'000, 300);
  {
    Server one(selective);
    one.serve(a);
    one.give_all();
    EXPECT_EQ(one.counters.written_tokens.value(), 0u);
    one.serve(join(a, counting(500, 50)));
    one.give_all();
    EXPECT_EQ(one.counters.written_tokens.value(), 288u);
  }
  Server one(back);
  one.serve(b);
  one.give_all();
  EXPECT_EQ(one.counters.written_tokens.value(), 0u);
  one.tree.evict_all();
  one.give_all();
  EXPECT_EQ(one.counters.written_tokens.value(), 288u);
  EXPECT_EQ(Server(wish()).serve(a), 288);
  EXPECT_EQ(Server(wish()).serve(b), 288);
}

TEST_F(RemotePrefixesTest, AServerThatIsGoneAsleepOrFullCostsHitsAlone) {
  Wish quick = wish();
  quick.ask_seconds = quick.move_seconds = 0.1;
  Server one(quick);
  one.serve(counting(1, 500));
  one.give_all();
  {
    Server another(quick);
    redis_->freeze();
    EXPECT_EQ(another.serve(counting(1, 500)), 0);
    EXPECT_EQ(another.serve(counting(3000, 500)), 0);
    EXPECT_EQ(another.counters.state.value(), 0);
    redis_->go_on();
  }
  {
    Server another(quick);
    redis_->ask({"CONFIG", "SET", "maxmemory", "1"});
    EXPECT_EQ(another.serve(counting(1, 500)), 496) << "it is still read";
    EXPECT_EQ(another.serve(counting(4000, 500)), 0);
    another.give_all();
    EXPECT_EQ(another.counters.dropped_tokens_full.value(), 496u);
    EXPECT_EQ(another.counters.state.value(), 2);
    redis_->ask({"CONFIG", "SET", "maxmemory", "0"});
  }
  Server another(quick);
  redis_->kill();
  EXPECT_EQ(another.serve(counting(1, 500)), 0);
  redis_->start();
  Server third(quick);
  for (int i = 0; i < 2000 && third.counters.state.value() != 1; ++i) third.wait();
  third.serve(counting(1, 500));
  third.give_all();
  EXPECT_EQ(third.counters.written_tokens.value(), 496u) << "what an earlier life of the server had is sent again";
}

TEST_F(RemotePrefixesTest, AChangedBlockEndsWhatIsReadAndTheRestIsComputed) {
  Server one(wish());
  const Tokens tokens = counting(1, 500);
  one.serve(tokens);
  one.give_all();
  const BlockChain chain = BlockNamer("numbers", "").chain("", tokens);
  redis_->ask({"SETRANGE", "test:" + hex(chain.names[20]), "300", "x"});
  Server another(wish());
  const int found = another.serve(tokens);
  EXPECT_LE(found, 20 * kBlockTokens);
  EXPECT_EQ(another.counters.damaged_blocks.value(), 1u);
  EXPECT_EQ(another.serve(tokens), 499);
  another.check();
}

TEST_F(RemotePrefixesTest, AFlushForgetsItsOwnAndLeavesWhatOthersHave) {
  Server one(wish());
  const Tokens tokens = counting(1, 500);
  one.serve(tokens);
  one.give_all();
  one.prefixes->clear();
  EXPECT_EQ(one.serve(tokens), 496) << "it finds them with the others";
}

// Servers come and go, texts begin alike, blocks are changed and dropped, the server is flushed, killed and frozen meanwhile.
TEST_F(RemotePrefixesTest, NeverGivesAWrongValueWhateverHappens) {
  std::mt19937_64 rng(testing::seed());
  const auto below = [&](int n) { return static_cast<int>(rng() % static_cast<std::uint64_t>(n)); };
  std::vector<std::unique_ptr<Server>> servers;
  const auto fresh = [&] {
    Wish any = wish();
    any.slots = 1500 + below(1500);
    any.late = below(2) == 0;
    any.policy = below(4) == 0 ? RemotePolicy::write_back : RemotePolicy::write_through;
    any.ask_seconds = any.move_seconds = 0.2;
    return std::make_unique<Server>(any);
  };
  for (int i = 0; i < 3; ++i) servers.push_back(fresh());
  std::uint64_t read = 0;
  for (int i = 0; i < 400; ++i) {
    Server& server = *servers[rng() % servers.size()];
    Tokens tokens = counting(100 * below(4), 1 + below(500));
    if (below(2) == 0) tokens = join(std::move(tokens), counting(9000 + below(3), 1 + below(400)));
    server.serve(tokens, below(5) == 0 ? "tenant" : "");
    if (below(3) == 0) server.prefixes->collect();
    if (below(30) == 0) {
      const std::string key = redis_->ask({"RANDOMKEY"});
      if (!key.empty()) redis_->ask({"SETRANGE", key, std::to_string(below(4000)), "damage"});
    }
    if (below(40) == 0) redis_->ask({"DEL", redis_->ask({"RANDOMKEY"})});
    if (below(80) == 0) redis_->ask({"FLUSHALL"});
    if (below(60) == 0) {
      redis_->freeze();
      server.serve(join(tokens, counting(1, 40)));
      redis_->go_on();
    }
    if (below(100) == 0) {
      redis_->kill();
      server.serve(join(tokens, counting(2, 40)));
      redis_->start();
    }
    if (below(10) == 0) {
      auto& leaving = servers[rng() % servers.size()];
      read += leaving->counters.read_tokens.value();
      leaving = fresh();
    }
  }
  for (const auto& server : servers) read += server->counters.read_tokens.value();
  EXPECT_GT(read, 5000u);
}

}  // namespace
}  // namespace espalier::remote_prefixes_test
