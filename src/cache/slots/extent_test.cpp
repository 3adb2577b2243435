#include "cache/slots/extent.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "testing/data.h"

namespace espalier::extent_test {
namespace {

std::vector<Slot> slots(const ExtentList& list) {
  std::vector<Slot> result;
  for (Extent e : list.extents()) {
    for (Slot s = e.start; s < e.end(); ++s) result.push_back(s);
  }
  return result;
}

TEST(ExtentList, NeighboursBecomeOneExtent) {
  ExtentList list;
  list.append({4, 3});
  list.append({7, 2});
  list.append({20, 1});
  EXPECT_EQ(list.extents().size(), 2u);
  EXPECT_EQ(list.length(), 6);
  EXPECT_EQ(list.last_slot(), 20);
}

TEST(ExtentList, PositionsOutsideAreMinusOneAndCountsAreCut) {
  ExtentList list({10, 4});
  EXPECT_EQ(list.slot_at(-1), -1);
  EXPECT_EQ(list.slot_at(4), -1);
  EXPECT_EQ(list.slice(2, 100).length(), 2);
  EXPECT_EQ(list.slice(-5, 1).length(), 1);
  EXPECT_EQ(list.take_back(9).length(), 4);
  EXPECT_TRUE(list.empty());
  list.append(Extent{3, 0});
  list.append(Extent{3, -2});
  EXPECT_TRUE(list.empty());
}

TEST(ExtentList, AgreesWithAVectorOfSlotsUnderRandomOperations) {
  std::mt19937_64 random(testing::seed());
  auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  ExtentList list;
  std::vector<Slot> model;
  for (int step = 0; step < 5000; ++step) {
    int length = static_cast<int>(model.size());
    int part = below(length + 1);
    switch (below(4)) {
      case 0: {
        Extent e{below(2) == 0 && !model.empty() ? model.back() + 1 : 1000 * below(1000), 1 + below(9)};
        list.append(e);
        for (Slot s = e.start; s < e.end(); ++s) model.push_back(s);
        break;
      }
      case 1:
        if (length < 100) break;
        EXPECT_EQ(slots(list.take_back(part)), std::vector<Slot>(model.end() - part, model.end()));
        model.resize(length - part);
        break;
      case 2:
        if (length < 100) break;
        EXPECT_EQ(slots(list.take_front(part)), std::vector<Slot>(model.begin(), model.begin() + part));
        model.erase(model.begin(), model.begin() + part);
        break;
      default:
        EXPECT_EQ(slots(list.slice(part, length - part)), std::vector<Slot>(model.begin() + part, model.end()));
    }
    ASSERT_EQ(slots(list), model) << "step " << step;
    ASSERT_EQ(list.length(), static_cast<int>(model.size()));
    if (!model.empty()) {
      int at = below(list.length());
      ASSERT_EQ(list.slot_at(at), model[at]);
    }
  }
}

}  // namespace
}  // namespace espalier::extent_test
