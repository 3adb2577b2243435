// Tree, allocator and disk tier together, with one number for the keys and values of a token: it is a function of
// every token up to there, so a single wrong slot is seen. Random arrivals, departures, evictions, restarts, damage and
// failing disks; ESPALIER_OPERATIONS sets the number of operations (100,000; a million with ESPALIER_LONG_TESTS).
#include "cache/disk/disk_prefixes.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "base/log.h"
#include "cache/testing/number_copier.h"
#include "cache/testing/test_folder.h"
#include "testing/data.h"

namespace espalier::disk_prefixes_test {
namespace {

using namespace std::chrono_literals;
using Tokens = std::vector<TokenId>;
using testing::NumberCopier;
using testing::Value;
using testing::values_of;

struct World {
  explicit World(std::filesystem::path folder, int slots = 600, std::uint64_t capacity = 2 << 20,
                 std::uint64_t host_bytes = 0)
      : values(static_cast<std::size_t>(slots)), pool(slots), tree(pool), copier(values) {
    options.base = std::move(folder);
    options.keep = true;
    options.key = "numbers";
    options.capacity = capacity;
    options.host_bytes = host_bytes;
    options.block_bytes = kBlockTokens * sizeof(Value);
    options.wake = [this] {
      std::lock_guard lock(mutex);
      ++wakes;
      woken.notify_one();
    };
    options.fault = [this](FileCall) { return failing ? EIO : 0; };
    if (host_bytes > 0) copier.settle_late();
    open();
  }
  ~World() { disk.reset(); }
  void open() {
    disk.reset();
    counters = std::make_unique<DiskTierCounters>();
    auto tier = DiskTier::open(options, *counters);
    EXPECT_TRUE(tier.ok()) << (tier.ok() ? "" : tier.error().message);
    disk = std::make_unique<DiskPrefixes>(std::move(tier).value(), tree, pool, copier);
  }
  static DiskTier::Time soon() { return std::chrono::steady_clock::now() + 20s; }
  void wait() {
    std::unique_lock lock(mutex);
    woken.wait_for(lock, 5ms, [&] { return std::exchange(wakes, 0) > 0; });
  }

  std::optional<OwnedSlots> take(int count) {
    if (pool.free_slots() < count) tree.evict(count - pool.free_slots());
    if (pool.free_slots() < count && disk->give_up()) tree.evict(count - pool.free_slots());
    return pool.allocate(count);
  }
  void write(const ExtentList& slots, std::span<const Value> what) {
    for (int i = 0; i < slots.length(); ++i)
      values[static_cast<std::size_t>(slots.slot_at(i))] = what[static_cast<std::size_t>(i)];
  }
  bool holds(const ExtentList& slots, std::span<const Value> what) const {
    for (int i = 0; i < slots.length(); ++i)
      if (values[static_cast<std::size_t>(slots.slot_at(i))] != what[static_cast<std::size_t>(i)]) return false;
    return true;
  }
  // Computes a whole sequence and leaves it unpinned in the tree.
  void put(const Tokens& tokens, std::string_view scope = "") {
    auto slots = take(static_cast<int>(tokens.size()));
    ASSERT_TRUE(slots);
    write(slots->extents(), values_of(scope, tokens));
    tree.insert({scope, tokens}, std::move(*slots));
  }
  // As the engine does: waits for the disk while that is said to pay, then matches. The length of the match.
  int get(const Tokens& tokens, std::string_view scope = "") {
    DiskMemory memory;
    const int limit = static_cast<int>(tokens.size()) - 1;
    for (int i = 0; i < 1000; ++i) {
      disk->collect();
      const int matched = tree.peek({scope, tokens}, {.length = limit}).length;
      if (!disk->wait_for({1, {scope, tokens}, limit, matched}, memory)) break;
      wait();
    }
    Match match = tree.match({scope, tokens}, {.length = limit});
    disk->forget(1);
    EXPECT_TRUE(holds(match.extents, values_of(scope, tokens)));
    return match.length;
  }
  void settle() {
    disk->collect(0);
    EXPECT_TRUE(disk->tier().flush(soon()));
    disk->collect();
  }

  std::mutex mutex;
  std::condition_variable woken;
  int wakes = 0;
  std::atomic<bool> failing{false};
  std::vector<Value> values;
  SlotAllocator pool;
  RadixTree tree;
  NumberCopier copier;
  DiskTierOptions options;
  std::unique_ptr<DiskTierCounters> counters;
  std::unique_ptr<DiskPrefixes> disk;
};

class DiskPrefixesTest : public ::testing::Test {
 protected:
  void SetUp() override { log::configure(log::Level::error, log::Format::text); }
  Tokens random_tokens(int count) {
    Tokens tokens(static_cast<std::size_t>(count));
    for (TokenId& t : tokens) t = static_cast<TokenId>(random_() % 50);
    return tokens;
  }
  // No prefix of `other`, however short: one shared first token would be a hit.
  Tokens random_tokens_unlike(const Tokens& other, int count) {
    Tokens tokens = random_tokens(count);
    tokens.front() = (other.front() + 1) % 50;
    return tokens;
  }
  std::mt19937_64 random_{testing::seed()};
  testing::TestFolder folder_{testing::TestFolder::Where::memory};
};

TEST_F(DiskPrefixesTest, WhatWasEvictedComesBackWhenARequestNeedsIt) {
  World world(folder_.path());
  const Tokens a = random_tokens(500), b = random_tokens_unlike(a, 500);
  world.put(a);
  world.put(b);  // evicts nearly all of a
  world.settle();
  EXPECT_EQ(world.get(a), 496) << "whole blocks; what is left of the last one is computed";
  world.settle();
  EXPECT_EQ(world.get(b), 496);
  EXPECT_TRUE(world.tree.check().ok());
}

TEST_F(DiskPrefixesTest, WhatLiesInMemoryIsReadHoweverFastItIsComputed) {
  World world(folder_.path(), 600, 0, 4 << 20);
  const Tokens a = random_tokens(512);
  world.put(a);
  world.disk->computed(1'000'000, 1e-3);
  world.tree.evict_all();
  world.settle();
  EXPECT_EQ(world.get(a), 511);
  EXPECT_TRUE(world.disk->tier().folder().empty());
}

TEST_F(DiskPrefixesTest, ARequestEndsInsideABlockThatIsStored) {
  World world(folder_.path());
  Tokens a = random_tokens(320);
  world.put(a);
  world.disk->save(World::soon());
  world.tree.observe(nullptr);
  world.tree.evict_all();
  world.disk->collect();
  a.resize(160);
  EXPECT_EQ(world.get(a), 159) << "all but the token whose logits are wanted";
  a.resize(150);
  EXPECT_EQ(world.get(a), 149) << "in memory now";
}

TEST_F(DiskPrefixesTest, EvictedTokenByTokenNothingIsLost) {
  World world(folder_.path());
  const Tokens a = random_tokens(400);
  world.put(a);
  while (world.tree.evict(1) > 0) world.settle();
  EXPECT_EQ(world.get(a), 399);
}

TEST_F(DiskPrefixesTest, ARestartKeepsWhatWasSaved) {
  const Tokens a = random_tokens(300), b = random_tokens_unlike(a, 200);
  {
    World world(folder_.path());
    world.put(a);
    world.put(b, "tenant");
    EXPECT_EQ(world.disk->save(World::soon()), 288 + 192);
    EXPECT_EQ(world.disk->save(World::soon()), 0) << "all is there already";
  }
  World world(folder_.path());
  EXPECT_EQ(world.get(a), 288);
  EXPECT_EQ(world.get(b, "tenant"), 192);
  EXPECT_EQ(world.get(b), 0);
}

TEST_F(DiskPrefixesTest, SavingKeepsTheLastUsedWhenTheDiskIsSmall) {
  const Tokens a = random_tokens(200), b = random_tokens_unlike(a, 200);
  {
    World world(folder_.path(), 600, 80'000);  // one of the two
    world.put(a);
    world.put(b);
    world.get(a);
    world.disk->save(World::soon());
  }
  World world(folder_.path(), 600, 80'000);
  EXPECT_EQ(world.get(a), 192);
  EXPECT_EQ(world.get(b), 0);
}

TEST_F(DiskPrefixesTest, RequestsOfOnePrefixShareOneLoad) {
  World world(folder_.path());
  const Tokens a = random_tokens(300);
  world.put(a);
  world.tree.evict_all();
  world.settle();
  std::vector<DiskMemory> memory(8);
  const auto ask = [&](std::uint64_t owner) {
    const int matched = world.tree.peek({"", a}, {.length = 299}).length;
    return world.disk->wait_for({owner, {"", a}, 299, matched}, memory[owner]);
  };
  for (std::uint64_t owner = 0; owner < 8; ++owner) EXPECT_TRUE(ask(owner));
  EXPECT_EQ(world.disk->tier().counters().loads.value(), 1u);
  for (std::uint64_t owner = 0; owner < 4; ++owner) world.disk->forget(owner);
  for (int i = 0; i < 1000 && ask(7); ++i) {
    world.wait();
    world.disk->collect();
  }
  EXPECT_EQ(world.tree.peek({"", a}).length, 288);
  EXPECT_EQ(world.tree.evictable_tokens(), 0) << "pinned for those who wait";
  for (std::uint64_t owner = 4; owner < 8; ++owner) world.disk->forget(owner);
  EXPECT_EQ(world.tree.evictable_tokens(), 288);
  EXPECT_EQ(world.disk->tier().counters().loads.value(), 1u);
}

TEST_F(DiskPrefixesTest, WhatIsComputedFasterThanReadIsComputed) {
  World world(folder_.path());
  const Tokens a = random_tokens(300);
  world.put(a);
  world.disk->save(World::soon());
  world.disk->computed(1'000'000, 0.001);
  world.disk->tier().rates().read(4096, 0.01, 0.1);
  world.tree.evict_all();
  EXPECT_EQ(world.get(a), 0);
  EXPECT_EQ(world.disk->tier().counters().loads.value(), 0u);
  world.put(random_tokens(590));
  world.tree.evict_all();
  EXPECT_GT(world.disk->tier().counters().dropped_tokens_short.value(), 500u);
}

TEST_F(DiskPrefixesTest, ClearingLeavesNothingAnywhere) {
  World world(folder_.path());
  const Tokens a = random_tokens(300);
  world.put(a);
  world.disk->save(World::soon());
  world.disk->clear();
  world.settle();
  EXPECT_EQ(world.pool.free_slots(), world.pool.capacity());
  EXPECT_EQ(world.get(a), 0);
  world.open();
  EXPECT_EQ(world.get(a), 0);
}

class RandomOperations : public DiskPrefixesTest, public ::testing::WithParamInterface<std::uint64_t> {
 protected:
  struct Request {
    std::uint64_t owner = 0;
    std::string scope;
    Tokens tokens;
    int more = 0;  // tokens still to be computed one by one
    DiskMemory memory;
    PinnedPrefix pin;
    OwnedSlots own;
  };

  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  void arrive() {
    if (waiting_.size() >= 12) return;
    Request r;
    r.owner = ++owners_;
    r.scope = below(5) == 0 ? "b" : "";
    if (!known_.empty() && below(5) != 0) {
      r.tokens = known_[static_cast<std::size_t>(below(static_cast<int>(known_.size())))];
      if (below(2) == 0) r.tokens.resize(1 + static_cast<std::size_t>(below(static_cast<int>(r.tokens.size()))));
    }
    const Tokens tail = random_tokens(1 + below(60));
    r.tokens.insert(r.tokens.end(), tail.begin(), tail.end());
    if (r.tokens.size() > 250) r.tokens.resize(250);
    r.more = below(20);
    if (known_.size() < 60)
      known_.push_back(r.tokens);
    else
      known_[static_cast<std::size_t>(below(60))] = r.tokens;
    waiting_.push_back(std::move(r));
  }

  // The engine's step, as far as the cache sees it.
  void step() {
    world_->disk->collect();
    for (std::size_t i = 0; i < waiting_.size();) {
      Request& r = waiting_[i];
      const int limit = static_cast<int>(r.tokens.size()) - 1;
      const int matched = world_->tree.peek({r.scope, r.tokens}, {.length = limit}).length;
      const int room = running_.empty() ? INT_MAX : world_->pool.free_slots() + world_->tree.evictable_tokens();
      if (running_.size() >= 6 ||
          world_->disk->wait_for({r.owner, {r.scope, r.tokens}, limit, matched, room}, r.memory) || !admit(r)) {
        ++i;
        continue;
      }
      running_.push_back(std::move(r));
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    for (std::size_t i = 0; i < running_.size();) i += decode(running_[i]) ? 1u : finish(i);
  }

  bool admit(Request& r) {
    const int known = static_cast<int>(r.tokens.size());
    Match match = world_->tree.match({r.scope, r.tokens}, {.length = known - 1});
    const auto expected = values_of(r.scope, r.tokens);
    EXPECT_TRUE(world_->holds(match.extents, expected)) << "a wrong slot was handed out";
    EXPECT_TRUE(std::all_of(expected.begin(), expected.begin() + match.length, [&](Value v) {
      return computed_.contains(v);
    })) << "never computed";
    hits_ += match.length;
    auto slots = world_->take(known - match.length);
    if (!slots) return false;
    const auto rest = std::span(expected).subspan(static_cast<std::size_t>(match.length));
    world_->write(slots->extents(), rest);
    computed_.insert(rest.begin(), rest.end());
    r.pin = std::move(match.pin);
    const auto tail = std::span<const TokenId>(r.tokens).subspan(static_cast<std::size_t>(match.length));
    world_->tree.extend(r.pin, tail, std::move(*slots));
    world_->disk->forget(r.owner);
    return true;
  }

  // One more token; false when the request is at its end.
  bool decode(Request& r) {
    if (r.more-- <= 0) return false;
    auto slots = world_->take(1);
    if (!slots) return false;
    r.tokens.push_back(below(50));
    const auto expected = values_of(r.scope, r.tokens);
    world_->write(slots->extents(), std::span(expected).last(1));
    computed_.insert(expected.back());
    world_->tree.extend(r.pin, std::span<const TokenId>(r.tokens).last(1), std::move(*slots));
    return true;
  }
  std::size_t finish(std::size_t i) {
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    return 0;
  }

  void restart(bool save) {
    waiting_.clear();
    running_.clear();
    if (save) world_->disk->save(World::soon());
    world_->failing = false;
    world_->tree.observe(nullptr);
    loaded_ += world_->disk->tier().counters().loaded_tokens.value();
    stored_ += world_->disk->tier().counters().stored_tokens.value();
    world_->disk.reset();
    world_->tree.evict_all();
    world_->open();
    ++restarts_;
  }

  void damage() {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(world_->disk->tier().folder()))
      if (entry.path().extension() == ".kv") files.push_back(entry.path());
    if (files.empty()) return;
    const auto& path = files[static_cast<std::size_t>(below(static_cast<int>(files.size())))];
    std::error_code gone;  // the tier may remove it at the same time
    const auto bytes = std::filesystem::file_size(path, gone);
    if (gone) return;
    if (below(3) == 0) {
      std::filesystem::resize_file(path, static_cast<std::uintmax_t>(below(static_cast<int>(bytes))), gone);
    } else if (below(2) == 0) {
      std::filesystem::remove(path, gone);
    } else {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(below(static_cast<int>(bytes)));
      file.put(static_cast<char>(below(256)));
    }
  }

  void rare(int which) {
    if (which < 10) return damage();
    if (which < 14) return restart(below(2) == 0);
    if (which == 14) {
      waiting_.clear();
      running_.clear();
      world_->disk->clear();
      if (!world_->failing) computed_.clear();  // else files may stay
      cleared_ = true;
    }
    if (which == 15) {
      if (std::exchange(cleared_, false)) world_->settle();  // files that cannot be removed would stay
      world_->failing = true;                                // until the next restart
    }
    if (which == 16) {
      const auto bytes = [&] {
        std::uint64_t sum = 0;
        for (const auto& entry : std::filesystem::directory_iterator(world_->disk->tier().folder())) {
          std::error_code gone;  // a file that a late reading found damaged may be removed right now
          const auto size = entry.file_size(gone);
          if (!gone) sum += size;
        }
        return sum;
      };
      world_->settle();
      EXPECT_LE(bytes(), world_->options.capacity);
    }
  }

  void operate() {
    const int what = below(100);
    if (what < 25) return arrive();
    if (what < 75) return step();
    if (what < 85) {
      world_->tree.evict(below(200));
    } else if (what < 90 && !waiting_.empty()) {
      const auto leaving = waiting_.begin() + below(static_cast<int>(waiting_.size()));
      world_->disk->forget(leaving->owner);
      waiting_.erase(leaving);
    } else if (what < 93 && !running_.empty()) {
      running_.erase(running_.begin() + below(static_cast<int>(running_.size())));
    } else if (what == 93) {
      std::this_thread::yield();
    } else if (what == 94 && below(4) == 0) {
      rare(below(17));
    }
  }

  void check(long i) {
    const auto tree = world_->tree.check();
    ASSERT_TRUE(tree.ok()) << tree.error().message << ", operation " << i;
    const auto catalogue = world_->disk->tier().catalogue().check();
    ASSERT_TRUE(catalogue.ok()) << catalogue.error().message << ", operation " << i;
    ASSERT_EQ(world_->pool.used_slots(), world_->tree.held_tokens()) << "operation " << i;
    ASSERT_LE(world_->disk->tier().catalogue().bytes(), world_->options.capacity + world_->options.host_bytes);
  }

  // Whoever waits is admitted in the end, whatever the disk does.
  void drain() {
    for (int i = 0; i < 20'000 && !(waiting_.empty() && running_.empty()); ++i) {
      step();
      if (running_.empty() && !waiting_.empty()) world_->wait();
    }
    EXPECT_TRUE(waiting_.empty());
  }

  std::unique_ptr<World> world_;
  std::vector<Request> waiting_, running_;
  std::vector<Tokens> known_;
  std::set<Value> computed_;
  std::uint64_t owners_ = 0;
  std::int64_t hits_ = 0, restarts_ = 0;
  std::uint64_t loaded_ = 0, stored_ = 0;
  bool cleared_ = false;
};

INSTANTIATE_TEST_SUITE_P(BytesOfMemoryBeforeTheDisk, RandomOperations, ::testing::Values(0, 512 << 10),
                         ::testing::PrintToStringParamName());
TEST_P(RandomOperations, NoWrongSlotIsEverHandedOutAndNobodyWaitsForEver) {
  world_ = std::make_unique<World>(folder_.path(), 600, 2 << 20, GetParam());
  const long count = testing::operations(100'000, 1'000'000);
  for (long i = 0; i < count; ++i) {
    operate();
    if (i % 20 == 0) check(i);
    if (i % 5000 == 0) drain();
    ASSERT_FALSE(HasFailure()) << "seed " << testing::seed() << ", operation " << i;
    if (computed_.size() > 2'000'000) computed_.clear(), known_.clear(), restart(false), world_->disk->clear();
  }
  drain();
  check(count);
  std::printf("%ld operations: %ld tokens hit, %lu stored on disk, %lu read back, %ld restarts\n", count,
              static_cast<long>(hits_), static_cast<unsigned long>(stored_), static_cast<unsigned long>(loaded_),
              static_cast<long>(restarts_));
  world_->disk->clear();
  EXPECT_EQ(world_->pool.free_slots(), world_->pool.capacity());
  EXPECT_EQ(world_->pool.faults() + world_->tree.statistics().faults, 0);
}

}  // namespace
}  // namespace espalier::disk_prefixes_test
