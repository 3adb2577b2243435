// What is read through a window, on disk: it goes there before its tokens or with them, comes back into window slots, and a prefix is
// as long as what is there of it.
#include "cache/disk/disk_windows.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <random>

#include "base/log.h"
#include "cache/disk/disk_prefixes.h"
#include "cache/testing/number_copier.h"
#include "cache/testing/test_folder.h"
#include "testing/data.h"

namespace espalier::disk_windows_test {
namespace {

using namespace std::chrono_literals;
using Tokens = std::vector<TokenId>;
using testing::Value;
using testing::values_of;

// One number a token in window slots.
class WindowNumberCopier final : public WindowCopier {
 public:
  explicit WindowNumberCopier(std::vector<Value>& pool) : pool_(pool) {}
  std::size_t window_block_bytes() const override { return kBlockTokens * sizeof(Value); }
  void copy_window_out(const ExtentList& slots, std::span<std::byte> blocks) override {
    for (int i = 0; i < slots.length(); ++i)
      std::memcpy(&blocks[static_cast<std::size_t>(i) * sizeof(Value)], &at(slots, i), sizeof(Value));
  }
  void copy_window_in(std::span<const std::byte> blocks, int first, const ExtentList& slots) override {
    for (int i = 0; i < slots.length(); ++i)
      std::memcpy(&at(slots, i), &blocks[static_cast<std::size_t>(first + i) * sizeof(Value)], sizeof(Value));
  }

 private:
  Value& at(const ExtentList& slots, int i) { return pool_[static_cast<std::size_t>(slots.slot_at(i))]; }
  std::vector<Value>& pool_;
};

WindowRule sliding(int size) {
  return {[size](int position) { return std::max(position - size + 1, 0); }, size};
}
WindowRule own_chunk(int size) {
  return {[size](int position) { return position / size * size; }, size};
}

// Tree, both spaces and tier.
struct World {
  World(std::filesystem::path folder, WindowRule rule, int slots, int window_slots)
      : numbers(static_cast<std::size_t>(slots)),
        window_numbers(static_cast<std::size_t>(window_slots)),
        windows(slots, window_slots, std::move(rule)),
        pool(slots, &windows) {
    options.base = std::move(folder);
    options.keep = true;
    options.key = "numbers and windows";
    options.capacity = 16 << 20;
    options.block_bytes = kBlockTokens * sizeof(Value);
    options.wake = [this] {
      std::lock_guard lock(mutex);
      ++wakes;
      woken.notify_one();
    };
    auto tier = DiskTier::open(options, counters);
    EXPECT_TRUE(tier.ok()) << (tier.ok() ? "" : tier.error().message);
    disk = std::make_unique<DiskPrefixes>(std::move(tier).value(), tree, pool, copier);
    disk->keep_windows(window_copier, [this](int count) { make_room(count); });
  }
  ~World() {
    EXPECT_TRUE(tree.check().ok());
    EXPECT_TRUE(windows.check(pool).ok());
    disk.reset();
  }
  static DiskTier::Time soon() { return std::chrono::steady_clock::now() + 20s; }

  void make_room(int count) {
    std::vector<WindowUse> uses;
    disk->add_window_uses(uses);
    if (windows.pool().free_slots() < count) TreeWindows::evict(tree, count - windows.pool().free_slots(), uses);
  }
  // Computes a text on what the tree has of it; of what it computes only the last window keeps its window slots, or all.
  void put(const Tokens& tokens, bool keep_all = false) {
    Match match = tree.match({"", tokens});
    const int count = static_cast<int>(tokens.size()) - match.length;
    if (count == 0) return;
    if (pool.free_slots() < count) tree.evict(count - pool.free_slots());
    auto slots = pool.allocate(count);
    ASSERT_TRUE(slots);
    const int from =
        keep_all ? 0 : std::max(windows.first_read(static_cast<int>(tokens.size()) - 16) - match.length, 0);
    const ExtentList seen = slots->extents().slice(from, count - from);
    make_room(seen.length());
    ASSERT_TRUE(windows.give(seen, cursor));
    const auto values = values_of("", tokens);
    for (int i = 0; i < count; ++i) {
      const Slot slot = slots->extents().slot_at(i);
      const Value value = values[static_cast<std::size_t>(match.length) + static_cast<std::size_t>(i)];
      numbers[static_cast<std::size_t>(slot)] = value;
      if (windows.of(slot) >= 0) window_numbers[static_cast<std::size_t>(windows.of(slot))] = ~value;
    }
    tree.extend(match.pin, std::span(tokens).subspan(static_cast<std::size_t>(match.length)), std::move(*slots));
  }
  // As the engine does: waits for the disk while that is said to pay, then matches. The length of the match, all of which
  // must hold what was computed.
  int get(const Tokens& tokens) {
    DiskMemory memory;
    PeekMemory peeked;
    const int limit = static_cast<int>(tokens.size()) - 1;
    for (int i = 0; i < 1000; ++i) {
      disk->collect();
      const int matched = tree.peek({"", tokens}, {.length = limit}, &peeked).length;
      if (!disk->wait_for({1, {"", tokens}, limit, matched}, memory)) break;
      std::unique_lock lock(mutex);
      woken.wait_for(lock, 5ms, [&] { return std::exchange(wakes, 0) > 0; });
    }
    const Match match = tree.match({"", tokens}, {.length = limit});
    EXPECT_EQ(match.length, tree.peek({"", tokens}, {.length = limit}, &peeked).length) << "a peek that remembers";
    disk->forget(1);
    const auto values = values_of("", tokens);
    for (int i = 0; i < match.length; ++i) {
      const Slot slot = match.extents.slot_at(i);
      EXPECT_EQ(numbers[static_cast<std::size_t>(slot)], values[static_cast<std::size_t>(i)]);
      if (i < windows.first_read(match.length)) continue;
      const Slot own = windows.of(slot);
      EXPECT_EQ(own < 0 ? 0 : window_numbers[static_cast<std::size_t>(own)], ~values[static_cast<std::size_t>(i)]);
    }
    return match.length;
  }
  // A little at a time: a tier has few buffers.
  void evict_all() {
    settle();
    while (tree.evict(64) > 0) settle();
  }
  void evict_all_windows() {
    while (TreeWindows::evict(tree, 64, {}) > 0) settle();
  }
  void settle() {
    EXPECT_TRUE(disk->tier().flush(soon()));
    disk->collect();
  }

  std::mutex mutex;
  std::condition_variable woken;
  int wakes = 0;
  std::vector<Value> numbers, window_numbers;
  WindowSlots windows;
  SlotAllocator pool;
  SlotCursor cursor;
  RadixTree tree{pool};
  testing::NumberCopier copier{numbers};
  WindowNumberCopier window_copier{window_numbers};
  DiskTierOptions options;
  DiskTierCounters counters;
  std::unique_ptr<DiskPrefixes> disk;
};

class DiskWindowsTest : public ::testing::TestWithParam<int> {  // of the window
 protected:
  void SetUp() override { log::configure(log::Level::error, log::Format::text); }
  Tokens text(TokenId first, int count) {
    Tokens tokens = {first};
    while (static_cast<int>(tokens.size()) < count) tokens.push_back(static_cast<TokenId>(random_() % 50));
    return tokens;
  }
  Tokens on(Tokens tokens, int count) {
    tokens.resize(tokens.size() + static_cast<std::size_t>(count), 77);
    return tokens;
  }
  std::mt19937_64 random_{testing::seed()};
  testing::TestFolder folder_{testing::TestFolder::Where::memory};
};

TEST_P(DiskWindowsTest, AnEvictedTextIsGoneOnFromItsLastWholeBlock) {
  World world(folder_.path(), sliding(GetParam()), 1024, 512);
  const Tokens a = text(1, 400);
  world.put(a);
  world.evict_all();
  EXPECT_EQ(world.windows.pool().used_slots(), 0);
  EXPECT_EQ(world.get(on(a, 20)), 400);
  EXPECT_LE(world.windows.pool().used_slots(), GetParam() + 16) << "no more than its window";
}

TEST_P(DiskWindowsTest, WindowSlotsThatWentBeforeTheirTokensComeBackAlone) {
  World world(folder_.path(), sliding(GetParam()), 1024, 512);
  const Tokens a = text(1, 400);
  world.put(a);
  world.evict_all_windows();
  EXPECT_EQ(world.windows.pool().used_slots(), 0);
  EXPECT_EQ(world.get(on(a, 20)), 400);
  EXPECT_EQ(world.counters.loaded_tokens.value(), 0u);
  EXPECT_EQ(world.tree.held_tokens(), 400);
}

TEST_P(DiskWindowsTest, ATextWithoutItsWindowIsOfNoUseAndNotRead) {
  World world(folder_.path(), sliding(GetParam()), 1024, 512);
  const Tokens a = text(1, 400);
  world.put(a);
  world.windows.drop(Extent{0, 1024});
  world.evict_all();
  EXPECT_EQ(world.get(on(a, 20)), 0);
  EXPECT_EQ(world.counters.loads.value(), 0u);
}

TEST_P(DiskWindowsTest, ARestartFindsWhatWasSaved) {
  const Tokens a = text(1, 400), b = text(2, 90);
  {
    World world(folder_.path(), sliding(GetParam()), 1024, 512);
    world.put(a);
    world.put(b);
    world.disk->save(World::soon());
  }
  World world(folder_.path(), sliding(GetParam()), 1024, 512);
  EXPECT_EQ(world.get(on(a, 20)), 400);
  EXPECT_EQ(world.get(on(b, 20)), 80) << "whole blocks";
}

TEST_P(DiskWindowsTest, ATextThatDivergesGoesBackToWhereAWindowIsKnown) {
  World world(folder_.path(), sliding(GetParam()), 1024, 512);
  const Tokens a = text(1, 400);
  world.put(a, true);
  world.evict_all();
  Tokens b(a.begin(), a.begin() + 380), c(a.begin(), a.begin() + 70);
  EXPECT_EQ(world.get(on(b, 30)), 256) << "behind a whole group";
  world.evict_all();
  EXPECT_EQ(world.get(on(c, 30)), 0) << "inside the first group";
}

TEST_P(DiskWindowsTest, ABeginningThatManyShareComesBackForEach) {
  World world(folder_.path(), sliding(GetParam()), 1024, 512);
  const Tokens system = text(1, 200);
  Tokens a = on(system, 60), b = on(system, 70), c = on(system, 50);
  b[200] = 55;
  c[200] = 66;
  for (const Tokens& tokens : {system, a, c}) world.put(tokens);
  world.evict_all_windows();
  world.evict_all();
  EXPECT_EQ(world.get(b), 192) << "the last whole block";
  EXPECT_EQ(world.get(on(a, 9)), 256);
}

TEST_P(DiskWindowsTest, WithoutRoomForItsWindowTheTextIsComputed) {
  World world(folder_.path(), sliding(GetParam()), 1024, 512);
  const Tokens a = text(1, 400), b = text(2, 500);
  world.put(a);
  world.evict_all();
  auto slots = world.pool.allocate(500);
  ASSERT_TRUE(world.windows.give(slots->extents(), world.cursor));
  EXPECT_EQ(world.get(on(a, 20)), 0);
  slots.reset();
  EXPECT_EQ(world.get(on(a, 20)), 400);
}

INSTANTIATE_TEST_SUITE_P(OfFewAndOfManyTokens, DiskWindowsTest, ::testing::Values(9, 40, 300));

// Texts that share beginnings are computed, asked for, lose tokens and windows in any order: what comes back is always what was
// computed (World::get), and never shorter than what memory has.
class RandomDiskWindows : public ::testing::TestWithParam<bool> {};  // chunks

TEST_P(RandomDiskWindows, WhatComesBackIsWhatWasComputed) {
  log::configure(log::Level::error, log::Format::text);
  testing::TestFolder folder{testing::TestFolder::Where::memory};
  World world(folder.path(), GetParam() ? own_chunk(24) : sliding(20), 700, 256);
  std::mt19937_64 rng(testing::seed());
  std::vector<Tokens> texts;
  for (int i = 0; i < 8; ++i) {
    Tokens text = i < 3 ? Tokens{static_cast<TokenId>(i)} : texts[rng() % texts.size()];
    if (text.size() > 60) text.resize(20 + rng() % 60);
    while (text.size() < 150 + 10 * static_cast<std::size_t>(i)) text.push_back(static_cast<TokenId>(rng() % 50));
    texts.push_back(std::move(text));
  }
  for (int i = 0; i < 600; ++i) {
    Tokens text = texts[rng() % texts.size()];
    text.resize(30 + rng() % (text.size() - 30));
    switch (rng() % 5) {
      case 0:
      case 1: {
        const int in_memory = world.tree.peek({"", text}, {.length = static_cast<int>(text.size()) - 1}).length;
        EXPECT_GE(world.get(text), in_memory);
        break;
      }
      case 2:
        world.put(text);
        break;
      case 3:
        world.tree.evict(static_cast<int>(rng() % 200));
        break;
      default:
        TreeWindows::evict(world.tree, static_cast<int>(rng() % 60), {});
    }
    if (rng() % 4 == 0) world.settle();
    const auto sound = world.tree.check();
    ASSERT_TRUE(sound.ok()) << sound.error().message;
    ASSERT_TRUE(world.windows.check(world.pool).ok());
  }
  EXPECT_GT(world.counters.loaded_tokens.value(), 0u);
  EXPECT_EQ(world.counters.damaged_files.value(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Rules, RandomDiskWindows, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "Chunks" : "Windows"; });

}  // namespace
}  // namespace espalier::disk_windows_test
