// Window slots in the radix tree: what a match goes back to, what goes first, and random operations against a simple
// model.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "cache/tree/tree_windows.h"
#include "testing/data.h"

namespace espalier::tree_windows_test {
namespace {

WindowRule last_positions(int size) {
  return {[size](int position) { return std::max(position - size + 1, 0); }, size};
}
WindowRule own_chunk(int size) {
  return {[size](int position) { return position / size * size; }, size};
}

std::vector<TokenId> numbers(int first, int count) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(first + i);
  return tokens;
}

struct WindowedTree {
  WindowedTree(int slots_count, int window_slots, WindowRule rule)
      : windows(slots_count, window_slots, std::move(rule)), slots(slots_count, &windows), tree(slots) {}
  WindowSlots windows;
  SlotAllocator slots;
  RadixTree tree;
  SlotCursor nowhere, window_cursor;

  // Slots of so many tokens, of which the first `lacking` have lost their window slots.
  OwnedSlots take(int count, int lacking = 0) {
    auto got = slots.allocate(count);
    EXPECT_TRUE(got && windows.give(got->extents(), window_cursor));
    windows.drop(got->extents().slice(0, lacking));
    return std::move(*got);
  }
  void insert(const std::vector<TokenId>& tokens, int lacking = 0) {
    tree.insert({"", tokens}, take(static_cast<int>(tokens.size()), lacking));
  }
  int matched(const std::vector<TokenId>& tokens, MatchLimit limit = {}) {
    const Peek peek = tree.peek({"", tokens}, limit);
    const Match match = tree.match({"", tokens}, limit);
    EXPECT_EQ(peek.length, match.length);
    EXPECT_EQ(peek.end, match.end);
    last_end = match.end;
    const auto sound = tree.check();
    EXPECT_TRUE(sound.ok()) << sound.error().message;
    return match.length;
  }
  MatchEnd last_end = MatchEnd::cold;
};

TEST(TreeWindows, AMatchNeedsOnlyWhatTheNextRowReads) {
  WindowedTree t(256, 128, last_positions(9));
  t.insert(numbers(0, 100), 60);
  EXPECT_EQ(t.matched(numbers(0, 100)), 100);
  EXPECT_EQ(t.matched(numbers(0, 68)), 68);  // its next row reads positions 60 to 68
  EXPECT_EQ(t.last_end, MatchEnd::whole_key);
  EXPECT_EQ(t.matched(numbers(0, 67)), 0);
  EXPECT_EQ(t.last_end, MatchEnd::no_window);
  EXPECT_EQ(t.matched(numbers(0, 67), {.with_window = false}), 67);
}

TEST(TreeWindows, AChunksBorderNeedsNothing) {
  WindowedTree t(256, 128, own_chunk(16));
  t.insert(numbers(0, 100), 70);
  EXPECT_EQ(t.matched(numbers(0, 100)), 100);
  EXPECT_EQ(t.matched(numbers(0, 75)), 64);
  EXPECT_EQ(t.last_end, MatchEnd::no_window);
  EXPECT_EQ(t.matched(numbers(0, 31)), 16);
}

TEST(TreeWindows, WhatIsComputedAgainIsThereForTheNext) {
  WindowedTree t(512, 256, last_positions(9));
  t.insert(numbers(0, 100), 60);
  auto other = numbers(0, 50);
  other.push_back(999);
  EXPECT_EQ(t.matched(other), 0);
  t.insert(other, 30);
  EXPECT_EQ(t.slots.used_slots(), 101);
  EXPECT_EQ(t.matched(numbers(0, 50)), 50);
  EXPECT_EQ(t.matched(numbers(0, 100)), 100);
}

TEST(TreeWindows, WhatIsReadStaysAndOldFrontsGoFirst) {
  WindowedTree t(8192, 4096, last_positions(129));
  t.insert(numbers(0, 2000));
  t.insert(numbers(5000, 1500));
  Match used = t.tree.match({"", numbers(0, 2000)}, {.length = 1000});
  const WindowUse use{&used.pin, 872};
  EXPECT_EQ(TreeWindows(t.tree).in_use({&use, 1}), 128);
  TreeWindows::evict(t.tree, 2600, {&use, 1});
  EXPECT_EQ(t.matched(numbers(0, 2000)), 2000) << "the end of a text";
  EXPECT_EQ(t.matched(numbers(5000, 1500)), 1500);
  EXPECT_EQ(t.matched(numbers(5000, 1490)), 1490) << "and a few tokens before it";
  EXPECT_EQ(t.matched(numbers(5000, 1300)), 1024) << "and every so many of a long one";
  TreeWindows::evict(t.tree, 1 << 20, {&use, 1});
  EXPECT_EQ(t.windows.pool().used_slots(), 128);
  EXPECT_EQ(t.matched(numbers(0, 1000)), 1000);
  EXPECT_EQ(t.matched(numbers(5000, 1500)), 0);
}

TEST(TreeWindows, MovedTokensKeepTheirWindowSlots) {
  WindowedTree t(256, 128, last_positions(9));
  t.insert(numbers(0, 60));
  Match match = t.tree.match({"", numbers(0, 60)});
  ASSERT_TRUE(t.tree.move(t.tree.node(match.pin), 60, std::move(*t.slots.allocate(60))));
  EXPECT_EQ(t.windows.pool().used_slots(), 60);
  EXPECT_EQ(t.matched(numbers(0, 60)), 60);
}

// Which prefixes are held, and which of them have their window slot.
class HeldPrefixes {
 public:
  using Tokens = std::vector<TokenId>;
  static Tokens first(const Tokens& tokens, int n) { return {tokens.begin(), tokens.begin() + n}; }
  int held(const Tokens& tokens) const {
    int n = 0;
    while (n < static_cast<int>(tokens.size()) && has_window.contains(first(tokens, n + 1))) ++n;
    return n;
  }
  int readable(const Tokens& tokens, int most, int multiple, const WindowRule& rule) const {
    const auto fits = [&](int n) {
      for (int p = rule.first(n); p < n; ++p)
        if (!has_window.at(first(tokens, p + 1))) return false;
      return n % multiple == 0;
    };
    int n = std::min(most, held(tokens));
    while (!fits(n)) --n;
    return n;
  }
  std::map<Tokens, bool> has_window;
};

class RandomWindows : public ::testing::TestWithParam<bool> {};  // chunks

TEST_P(RandomWindows, AgreeWithASimpleModel) {
  constexpr int kSlots = 160, kWindowSlots = 96;
  const WindowRule rule = GetParam() ? own_chunk(6) : last_positions(6);
  WindowedTree t(kSlots, kWindowSlots, rule);
  HeldPrefixes model;
  std::mt19937_64 rng(testing::seed());
  const auto below = [&](int n) { return static_cast<int>(rng() % static_cast<unsigned>(n)); };
  struct Running {
    PinnedPrefix pin;
    std::vector<TokenId> tokens;
  };
  std::vector<Running> running;
  const auto uses = [&] {
    std::vector<WindowUse> all;
    for (const Running& r : running) all.push_back({&r.pin, rule.first(r.pin.length())});
    return all;
  };
  const auto slot_of = [&](const std::vector<TokenId>& tokens) {
    const Match match = t.tree.match({"", tokens}, {.with_window = false});
    return match.length == static_cast<int>(tokens.size()) ? match.extents.last_slot() : -1;
  };
  const auto compare = [&] {  // after an eviction: what is gone is gone from the model
    for (auto it = model.has_window.begin(); it != model.has_window.end();) {
      const Slot slot = slot_of(it->first);
      if (slot < 0) {
        it = model.has_window.erase(it);
        continue;
      }
      EXPECT_LE(t.windows.of(slot) >= 0, it->second) << "a window slot came from nowhere";
      it->second = t.windows.of(slot) >= 0;
      ++it;
    }
  };
  const int operations = 3000;
  for (int i = 0; i < operations; ++i) {
    switch (below(6)) {  // NOLINT(bugprone-switch-missing-default-case): all six are there
      case 0:
      case 1: {  // a request begins
        std::vector<TokenId> tokens;
        for (int n = below(30); n > 0; --n) tokens.push_back(below(2));
        const MatchLimit limit{below(35), 1 + below(3)};
        const int expected = model.readable(tokens, limit.length, limit.multiple, rule);
        const Peek peek = t.tree.peek({"", tokens}, limit);
        Match match = t.tree.match({"", tokens}, limit);
        ASSERT_EQ(match.length, expected);
        ASSERT_EQ(peek.length, expected);
        if (running.size() < 4) running.push_back({std::move(match.pin), HeldPrefixes::first(tokens, match.length)});
        break;
      }
      case 2: {  // and computes some tokens, of which it has lost those in front
        if (running.empty()) break;
        Running& r = running[rng() % running.size()];
        const int count = 1 + below(12), before = r.pin.length();
        if (t.slots.free_slots() < count) break;
        if (t.windows.pool().free_slots() < count) TreeWindows::evict(t.tree, count, uses()), compare();
        if (t.windows.pool().free_slots() < count) break;
        const int lacking = std::min(below(count + 1), std::max(rule.first(before + count) - before, 0));
        auto slots = t.take(count, lacking);
        for (int k = 0; k < count; ++k) {
          r.tokens.push_back(below(2));
          bool& has = model.has_window[r.tokens];
          has = has || k >= lacking;
        }
        const auto added = std::span(r.tokens).subspan(static_cast<std::size_t>(before));
        t.tree.extend(r.pin, added, std::move(slots));
        break;
      }
      case 3: {  // one ends
        if (running.empty()) break;
        std::swap(running[rng() % running.size()], running.back());
        running.pop_back();
        break;
      }
      case 4: {
        t.tree.evict(below(20));
        compare();
        break;
      }
      case 5: {
        const auto in_use = uses();
        const int wanted = below(20), had = t.windows.pool().used_slots(), kept = TreeWindows(t.tree).in_use(in_use);
        const int freed = TreeWindows::evict(t.tree, wanted, in_use);
        EXPECT_EQ(t.windows.pool().used_slots(), had - freed);
        EXPECT_TRUE(freed >= wanted || had - freed == kept);
        EXPECT_EQ(TreeWindows(t.tree).in_use(in_use), kept);
        compare();
        break;
      }
    }
    const auto sound = t.tree.check();
    ASSERT_TRUE(sound.ok()) << sound.error().message;
    ASSERT_EQ(t.tree.held_tokens(), static_cast<int>(model.has_window.size()));
    for (const Running& r : running)
      ASSERT_EQ(model.readable(r.tokens, r.pin.length(), 1, rule), r.pin.length()) << "something in use has gone";
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, RandomWindows, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "Chunks" : "Windows"; });

}  // namespace
}  // namespace espalier::tree_windows_test
