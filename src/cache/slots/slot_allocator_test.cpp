#include "cache/slots/slot_allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "testing/data.h"

namespace espalier::slot_allocator_test {
namespace {

TEST(SlotAllocator, RefusesMoreThanIsFreeAndChangesNothing) {
  SlotAllocator pool(100);
  auto most = pool.allocate(60);
  ASSERT_TRUE(most);
  EXPECT_FALSE(pool.allocate(41));
  EXPECT_FALSE(pool.allocate(-1));
  EXPECT_EQ(pool.free_slots(), 40);
  EXPECT_TRUE(pool.allocate(40));
  EXPECT_TRUE(pool.allocate(0)->empty());
  EXPECT_TRUE(pool.check().ok());
}

TEST(SlotAllocator, SlotsComeBackWhenTheirOwnerGoes) {
  SlotAllocator pool(64);
  {
    auto a = pool.allocate(10);
    OwnedSlots b = a->take_back(4);
    OwnedSlots c = std::move(b);
    EXPECT_EQ(pool.held_slots(), 10);
    a->append(std::move(c));
    EXPECT_EQ(a->length(), 10);
    a->take_front(3).reset();
    EXPECT_EQ(pool.held_slots(), 7);
  }
  EXPECT_EQ(pool.free_slots(), 64);
  EXPECT_EQ(pool.free_runs(), 1);
  EXPECT_TRUE(pool.check().ok());
}

TEST(SlotAllocator, ReachedIsWhereSlotsBeginThatNobodyEverHad) {
  SlotAllocator pool(4096);
  EXPECT_EQ(pool.reached(), 0);
  Slot end = 0;
  for (int round = 0; round < 20; ++round) {
    auto some = pool.allocate(10 + 7 * round);
    for (const Extent& extent : some->extents().extents()) end = std::max(end, extent.end());
    EXPECT_EQ(pool.reached(), end);
  }
  EXPECT_EQ(pool.free_slots(), 4096);
  EXPECT_EQ(pool.reached(), end) << "slots that came back were had";
}

TEST(SlotAllocator, GivingASlotBackTwiceIsCountedAndHarmless) {
  SlotAllocator pool(64);
  ExtentList slots = pool.allocate(20)->hand_over();
  pool.release(slots);
  pool.release(slots);
  pool.release(ExtentList({60, 10}));
  pool.release(ExtentList({-3, 2}));
  EXPECT_EQ(pool.faults(), 3);
  EXPECT_EQ(pool.free_slots(), 64);
  EXPECT_TRUE(pool.check().ok());
}

TEST(SlotAllocator, ASequenceGrowsInPlace) {
  SlotAllocator pool(4096);
  SlotCursor cursor;
  OwnedSlots mine = *pool.allocate(100, cursor);
  auto other = pool.allocate(50);
  for (int i = 0; i < SlotAllocator::first_reserve; ++i) mine.append(*pool.allocate(1, cursor));
  EXPECT_EQ(mine.extents().extents().size(), 1u);
  EXPECT_TRUE(pool.check().ok());
}

TEST(SlotAllocator, ContinuesBehindAPrefixThatSomebodyElseHolds) {
  SlotAllocator pool(4096);
  auto prefix = pool.allocate(100);
  SlotCursor cursor;
  cursor.follow(prefix->extents().last_slot(), 100);
  auto mine = pool.allocate(30, cursor);
  EXPECT_EQ(mine->extents().slot_at(0), prefix->extents().last_slot() + 1);
}

TEST(SlotAllocator, ANewPlaceSuitsThePosition) {
  SlotAllocator pool(4096);
  auto before = pool.allocate(5);
  SlotCursor start;
  auto first = pool.allocate(40, start);
  EXPECT_EQ(first->extents().slot_at(0) % SlotAllocator::group, 0);
  auto blocker = pool.allocate(3000);
  SlotCursor later;
  later.follow(before->extents().last_slot(), 37);  // what follows slot 4 is not free for long runs
  auto filler = pool.allocate(11);                  // takes the short extents behind slot 4
  auto second = pool.allocate(40, later);
  EXPECT_EQ(second->extents().slot_at(0) % SlotAllocator::group, 37 % SlotAllocator::group);
}

TEST(SlotAllocator, ReservesAreSoftAndEndWithTheirSequence) {
  SlotAllocator pool(256);
  SlotCursor cursor;
  auto mine = pool.allocate(16, cursor);
  EXPECT_EQ(pool.reserved_slots(), SlotAllocator::first_reserve);
  auto all = pool.allocate(240);
  ASSERT_TRUE(all);
  EXPECT_EQ(pool.free_slots(), 0);
  all.reset();
  cursor.reset();
  EXPECT_EQ(pool.reserved_slots(), 0);
  EXPECT_EQ(pool.free_runs(), 1);
  EXPECT_TRUE(pool.check().ok());
}

TEST(SlotAllocator, InterleavedDecodingKeepsExtentsLong) {
  constexpr int sequences = 64;
  constexpr int tokens = 1024;
  SlotAllocator pool(131072);
  std::vector<SlotCursor> cursors(sequences);
  std::vector<OwnedSlots> slots(sequences);
  std::mt19937_64 random(testing::seed());
  for (int s = 0; s < sequences; ++s) slots[s] = *pool.allocate(100 + static_cast<int>(random() % 400), cursors[s]);
  for (int t = 0; t < tokens; ++t) {
    for (int s = 0; s < sequences; ++s) slots[s].append(*pool.allocate(1, cursors[s]));
  }
  double extents = 0;
  double total = 0;
  for (const OwnedSlots& s : slots) {
    extents += static_cast<double>(s.extents().extents().size());
    total += s.length();
  }
  std::printf("mean extent of %d interleaved sequences: %.0f slots (%.1f extents each)\n", sequences, total / extents,
              extents / sequences);
  EXPECT_GE(total / extents, 128);
  EXPECT_TRUE(pool.check().ok());
}

TEST(SlotAllocator, InterleavedDecodingInAFullPoolStillGetsWholeGroups) {
  constexpr int sequences = 64;
  SlotAllocator pool(16384);  // sequences come and go; the pool is at least seven eighths full
  std::vector<SlotCursor> cursors(sequences);
  std::vector<OwnedSlots> slots(sequences);
  std::mt19937_64 random(testing::seed());
  double extents = 0;
  double total = 0;
  for (int step = 0; step < 20000; ++step) {
    int s = static_cast<int>(random() % sequences);
    bool fits = pool.free_slots() > pool.capacity() / 8;
    if (slots[s].empty()) {
      if (fits) slots[s] = *pool.allocate(50 + static_cast<int>(random() % 200), cursors[s]);
    } else if (fits) {
      for (int t = 0; t < sequences; ++t) {
        if (!slots[t].empty()) slots[t].append(*pool.allocate(1, cursors[t]));
      }
    } else {
      extents += static_cast<double>(slots[s].extents().extents().size());
      total += slots[s].length();
      slots[s].reset();
      cursors[s].reset();
    }
  }
  std::printf("mean extent in a pool kept 7/8 full: %.0f slots\n", total / extents);
  EXPECT_GE(total / extents, 16);
  EXPECT_TRUE(pool.check().ok());
}

TEST(SlotAllocator, AgreesWithASetOfSlotsUnderRandomOperations) {
  std::mt19937_64 random(testing::seed());
  auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  SlotAllocator pool(700);
  std::vector<int> owner(700, -1);  // the model: who has which slot
  struct Sequence {
    SlotCursor cursor;
    OwnedSlots slots;
  };
  std::vector<Sequence> sequences(12);
  auto mark = [&](const ExtentList& list, int from, int to) {
    for (Extent e : list.extents()) {
      for (Slot s = e.start; s < e.end(); ++s) {
        ASSERT_EQ(owner[s], from) << "slot " << s;
        owner[s] = to;
      }
    }
  };
  for (int step = 0; step < 20000; ++step) {
    int i = below(12);
    Sequence& q = sequences[i];
    switch (below(6)) {
      case 0:
      case 1:
      case 2: {
        int count = below(3) == 0 ? below(120) : 1;
        int free = static_cast<int>(std::count(owner.begin(), owner.end(), -1));
        auto got = below(4) == 0 ? pool.allocate(count) : pool.allocate(count, q.cursor);
        ASSERT_EQ(got.has_value(), count <= free);
        if (!got) break;
        ASSERT_EQ(got->length(), count);
        mark(got->extents(), -1, i);
        q.slots.append(std::move(*got));
        break;
      }
      case 3: {  // roll back
        OwnedSlots dropped = q.slots.take_back(below(10));
        mark(dropped.extents(), i, -1);
        dropped.reset();
        q.cursor.follow(q.slots.extents().last_slot(), q.slots.length());
        break;
      }
      case 4:
        mark(q.slots.extents(), i, -1);
        q.slots.reset();
        if (below(2) == 0) q.cursor.reset();
        break;
      default: {
        SlotCursor moved = std::move(q.cursor);
        if (below(2) == 0) q.cursor = std::move(moved);
      }
    }
    auto checked = pool.check();
    ASSERT_TRUE(checked.ok()) << checked.error().message << " at step " << step;
  }
  sequences.clear();
  EXPECT_EQ(pool.free_runs(), 1);
  EXPECT_EQ(pool.faults(), 0);
}

}  // namespace
}  // namespace espalier::slot_allocator_test
