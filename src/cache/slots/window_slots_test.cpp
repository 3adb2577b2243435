#include "cache/slots/window_slots.h"

#include <gtest/gtest.h>

#include <random>

#include "testing/data.h"

namespace espalier::window_slots_test {
namespace {

WindowRule sliding(int size) {
  return {[size](int position) { return std::max(position - size + 1, 0); }, size};
}

class WindowSlotsTest : public ::testing::Test {
 protected:
  WindowSlots windows{64, 32, sliding(8)};
  SlotAllocator slots{64, &windows};
  SlotCursor cursor, window_cursor;

  OwnedSlots take(int count) {
    auto got = slots.allocate(count, cursor);
    EXPECT_TRUE(got && windows.give(got->extents(), window_cursor));
    return std::move(*got);
  }
  void expect_sound() {
    const auto sound = windows.check(slots);
    EXPECT_TRUE(sound.ok()) << sound.error().message;
  }
};

TEST_F(WindowSlotsTest, TheyGoWithTheirSlots) {
  OwnedSlots mine = take(20);
  EXPECT_EQ(windows.pool().used_slots(), 20);
  mine.take_back(5).reset();
  EXPECT_EQ(windows.pool().used_slots(), 15);
  expect_sound();
  mine.reset();
  EXPECT_EQ(windows.pool().used_slots(), 0);
  expect_sound();
}

TEST_F(WindowSlotsTest, TheyGoBeforeTheirSlots) {
  OwnedSlots mine = take(20);
  EXPECT_EQ(windows.drop(mine.extents().slice(0, 12)), 12);
  EXPECT_EQ(windows.drop(mine.extents().slice(0, 13)), 1);
  EXPECT_EQ(windows.pool().used_slots(), 7);
  EXPECT_EQ(windows.last_lacking(mine.extents().extents()[0]), 12);
  EXPECT_EQ(windows.count(mine.extents().extents()[0]), 7);
  expect_sound();
}

TEST_F(WindowSlotsTest, MoreThanAreFreeAreNotGiven) {
  OwnedSlots mine = take(30), more = std::move(*slots.allocate(3));
  EXPECT_FALSE(windows.give(more.extents(), window_cursor));
  EXPECT_EQ(windows.pool().used_slots(), 30);
  expect_sound();
}

TEST_F(WindowSlotsTest, OnlyWhatIsLackingIsMoved) {
  OwnedSlots from = take(6), to = take(6);
  const Slot kept = windows.of(to.extents().slot_at(5)), moved = windows.of(from.extents().slot_at(2));
  windows.drop(to.extents().slice(0, 4));
  windows.drop(from.extents().slice(0, 2));
  windows.move(from.extents(), to.extents());
  EXPECT_EQ(windows.of(to.extents().slot_at(1)), -1);
  EXPECT_EQ(windows.of(to.extents().slot_at(2)), moved);
  EXPECT_EQ(windows.of(to.extents().slot_at(5)), kept);
  expect_sound();
  from.reset();
  EXPECT_EQ(windows.pool().used_slots(), 4);
  expect_sound();
}

TEST_F(WindowSlotsTest, TheLastGapIsFoundWhereverItIs) {
  OwnedSlots mine = take(32);
  const Extent all = mine.extents().extents()[0];
  ASSERT_EQ(all.length, 32);
  EXPECT_EQ(windows.last_lacking(all), -1);
  for (int gap = 0; gap < 32; ++gap) {
    windows.drop(Extent{all.start + gap, 1});
    for (int length = 0; length <= 32; ++length)
      EXPECT_EQ(windows.last_lacking({all.start, length}), std::min(gap, length - 1)) << gap << " " << length;
  }
}

}  // namespace
}  // namespace espalier::window_slots_test
