// Snapshots of recurrent states on disk: they go there as they leave the tree, and a prefix comes back up to one.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <random>

#include "base/log.h"
#include "cache/testing/number_copier.h"
#include "cache/testing/test_folder.h"
#include "testing/data.h"

namespace espalier::disk_states_test {
namespace {

using namespace std::chrono_literals;
using Tokens = std::vector<TokenId>;
using testing::Value;
using testing::values_of;

constexpr int kSlots = 600, kCells = 6;

// Tree, cells and tier. `each`: numbers of a state; 2000 of them take four blocks.
struct World {
  World(std::filesystem::path folder, std::size_t numbers_each) : each(numbers_each) {
    options.base = std::move(folder);
    options.keep = true;
    options.key = "numbers and states";
    options.capacity = 8 << 20;
    options.block_bytes = kBlockTokens * sizeof(Value);
    options.wake = [this] {
      std::lock_guard lock(mutex);
      ++wakes;
      woken.notify_one();
    };
    auto tier = DiskTier::open(options, counters);
    EXPECT_TRUE(tier.ok()) << (tier.ok() ? "" : tier.error().message);
    disk = std::make_unique<DiskPrefixes>(std::move(tier).value(), tree, pool, copier);
  }
  ~World() {
    EXPECT_TRUE(tree.check().ok());
    disk.reset();
  }
  static DiskTier::Time soon() { return std::chrono::steady_clock::now() + 20s; }

  // What a state must hold: its last number tells every token before it.
  std::vector<Value> state_of(const Tokens& tokens, int position) const {
    std::vector<Value> state(each, values_of("", tokens)[static_cast<std::size_t>(position) - 1]);
    for (std::size_t i = 0; i < each; ++i) state[i] += i;
    return state;
  }
  // Computes a text, and leaves its state at these positions.
  void put(const Tokens& tokens, std::initializer_list<int> positions) {
    const auto count = static_cast<int>(tokens.size());
    if (pool.free_slots() < count) tree.evict(count - pool.free_slots());
    auto slots = pool.allocate(count);
    ASSERT_TRUE(slots);
    const auto values = values_of("", tokens);
    for (int i = 0; i < count; ++i)
      numbers[static_cast<std::size_t>(slots->extents().slot_at(i))] = values[static_cast<std::size_t>(i)];
    tree.insert({"", tokens}, std::move(*slots));
    const Match match = tree.match({"", tokens}, {.with_state = false});
    for (const int position : positions) {
      if (cells.free() == 0) tree.evict_states(1);
      StateCell cell = cells.take();
      ASSERT_TRUE(cell);
      std::ranges::copy(state_of(tokens, position),
                        states.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(cell.index()) * each));
      tree.leave_state(match.pin, position, std::move(cell));
    }
  }
  // As the engine does: waits for the disk while that is said to pay, then matches. The length of the match.
  int get(const Tokens& tokens) {
    DiskMemory memory;
    const int limit = static_cast<int>(tokens.size()) - 1;
    for (int i = 0; i < 1000; ++i) {
      disk->collect();
      const int matched = tree.peek({"", tokens}, {.length = limit}).length;
      if (!disk->wait_for({1, {"", tokens}, limit, matched}, memory)) break;
      std::unique_lock lock(mutex);
      woken.wait_for(lock, 5ms, [&] { return std::exchange(wakes, 0) > 0; });
    }
    const Match match = tree.match({"", tokens}, {.length = limit});
    read_back = disk->forget(1);
    const auto values = values_of("", tokens);
    for (int i = 0; i < match.length; ++i)
      EXPECT_EQ(numbers[static_cast<std::size_t>(match.extents.slot_at(i))], values[static_cast<std::size_t>(i)]);
    EXPECT_EQ(static_cast<bool>(match.state), match.length > 0);
    if (match.state) {
      const auto begin =
          states.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(match.state.index()) * each);
      EXPECT_EQ(std::vector(begin, begin + static_cast<std::ptrdiff_t>(each)), state_of(tokens, match.length));
    }
    return match.length;
  }
  void settle() {
    EXPECT_TRUE(disk->tier().flush(soon()));
    disk->collect();
  }

  const std::size_t each;
  std::mutex mutex;
  std::condition_variable woken;
  int wakes = 0, read_back = 0;
  std::vector<Value> numbers = std::vector<Value>(kSlots), states = std::vector<Value>(kCells * each);
  SlotAllocator pool{kSlots};
  StateCells cells{kCells};
  RadixTree tree{pool, EvictionKind::lru, &cells};
  testing::NumberCopier copier{numbers, states, each};
  DiskTierOptions options;
  DiskTierCounters counters;
  std::unique_ptr<DiskPrefixes> disk;
};

class DiskStates : public ::testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override { log::configure(log::Level::error, log::Format::text); }
  Tokens text(TokenId first, int count) {
    Tokens tokens = {first};
    while (static_cast<int>(tokens.size()) < count) tokens.push_back(static_cast<TokenId>(random_() % 50));
    return tokens;
  }
  std::mt19937_64 random_{testing::seed()};
  testing::TestFolder folder_{testing::TestFolder::Where::memory};
};

TEST_P(DiskStates, AnEvictedPrefixComesBackUpToItsLastState) {
  World world(folder_.path(), GetParam());
  const Tokens a = text(1, 300);
  world.put(a, {100, 283});
  world.tree.evict_all();
  world.settle();
  EXPECT_EQ(world.cells.used(), 0);
  EXPECT_EQ(world.get(a), 283);
  EXPECT_EQ(world.read_back, 283);
}

TEST_P(DiskStates, AStateComesBackAloneWhereTheTokensWereKept) {
  World world(folder_.path(), GetParam());
  const Tokens a = text(1, 200), b = text(2, 50);
  world.put(a, {64, 199});
  world.tree.evict_states(2);
  world.settle();
  EXPECT_EQ(world.tree.held_tokens(), 200);
  EXPECT_EQ(world.get(a), 199);
  EXPECT_EQ(world.counters.loaded_tokens.value(), 0u);
  EXPECT_EQ(world.get(b), 0);
}

TEST_P(DiskStates, ADivergingRequestTakesTheLastStateBeforeTheDivergence) {
  World world(folder_.path(), GetParam());
  const Tokens a = text(1, 300);
  world.put(a, {7, 37, 150, 299});
  for (int i = 0; i < 4; ++i) {  // not more at once than there are buffers
    world.tree.evict_states(1);
    world.settle();
  }
  world.tree.evict_all();
  world.settle();
  Tokens b(a.begin(), a.begin() + 149);
  b.insert(b.end(), {-5, -6, -7});
  EXPECT_EQ(world.get(b), 37) << "inside a block whose other tokens differ";
  Tokens c(a.begin(), a.begin() + 12);
  c.push_back(-9);
  world.tree.evict_all();
  EXPECT_EQ(world.get(c), 7) << "inside the first block";
}

TEST_P(DiskStates, ARestartFindsWhatWasSaved) {
  const Tokens a = text(1, 250), b = text(2, 120);
  {
    World world(folder_.path(), GetParam());
    world.put(a, {128, 249});
    world.put(b, {119});
    world.disk->save(World::soon());
  }
  World world(folder_.path(), GetParam());
  EXPECT_EQ(world.get(a), 249);
  EXPECT_EQ(world.get(b), 119);
}

TEST_P(DiskStates, WithoutItsStateAPrefixIsOfNoUse) {
  World world(folder_.path(), GetParam());
  const Tokens a = text(1, 300);
  world.put(a, {});
  world.tree.evict_all();
  world.settle();
  EXPECT_EQ(world.get(a), 0);
  EXPECT_EQ(world.counters.loads.value(), 0u) << "and is not read";
}

TEST_P(DiskStates, RequestsOfOneStateShareItsLoad) {
  World world(folder_.path(), GetParam());
  const Tokens a = text(1, 300);
  world.put(a, {299});
  world.tree.evict_all();
  world.settle();
  DiskMemory memory[3];
  const auto ask = [&](std::uint64_t owner) {
    const int matched = world.tree.peek({"", a}, {.length = 299}).length;
    return world.disk->wait_for({owner, {"", a}, 299, matched}, memory[owner]);
  };
  for (std::uint64_t owner = 0; owner < 3; ++owner) EXPECT_TRUE(ask(owner));
  EXPECT_EQ(world.counters.loads.value(), 2u) << "tokens and state";
  for (int i = 0; i < 1000 && ask(0); ++i) {
    std::unique_lock lock(world.mutex);
    world.woken.wait_for(lock, 5ms);
    lock.unlock();
    world.disk->collect();
  }
  EXPECT_EQ(world.tree.peek({"", a}, {.length = 299}).length, 299);
  EXPECT_EQ(world.tree.evictable_states(), 0) << "kept for those who wait";
  for (std::uint64_t owner = 0; owner < 3; ++owner) EXPECT_EQ(world.disk->forget(owner), 299);
  EXPECT_EQ(world.tree.evictable_states(), 1);
}

TEST_P(DiskStates, WithoutACellTheTextIsComputed) {
  World world(folder_.path(), GetParam());
  const Tokens a = text(1, 300);
  world.put(a, {299});
  world.tree.evict_all();
  world.settle();
  std::vector<StateCell> others;
  while (StateCell cell = world.cells.take()) others.push_back(std::move(cell));
  EXPECT_EQ(world.get(a), 0);
  others.clear();
  EXPECT_EQ(world.get(a), 299);
}

INSTANTIATE_TEST_SUITE_P(OfOneBlockAndOfMany, DiskStates, ::testing::Values(1, 2000));

}  // namespace
}  // namespace espalier::disk_states_test
