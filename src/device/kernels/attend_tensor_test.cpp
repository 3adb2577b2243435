// Attention by tensor cores on a device: close to attention with float32 arithmetic, and the same bits of a row whatever else is
// computed with it and however the work is cut.
#include "device/kernels/attended_by_tensor_cores.h"
#include "device/tested_devices.h"

namespace espalier {
namespace {

using testing::Problem;

class AttentionByTensorCores : public testing::AttendedByTensorCores {};

TEST_P(AttentionByTensorCores, ComesCloseOnOddShapes) {
  for (const AttentionShape& shape : {square(4, 1, 64), square(3, 3, 80, Visibility::window(37)), square(6, 1, 96),
                                      square(16, 1, 128), square(2, 1, 256), square(5, 1, 33)}) {
    Problem problem(rng, shape, KvType::bf16, {1, 70, 333, 131});
    expect_close_and_the_same_in_every_cut(problem, {1, 40, 3, 1});
  }
}

TEST_P(AttentionByTensorCores, KeysMayBeWiderOrNarrowerThanValues) {
  for (auto [key, value] : {std::pair{192, 128}, {24, 16}, {40, 72}, {256, 40}, {7, 90}}) {
    AttentionShape shape = square(4, 2, key);
    shape.value_dim = value;
    Problem problem(rng, shape, KvType::bf16, {200, 3});
    expect_close_and_the_same_in_every_cut(problem, {9, 3});
  }
}

TEST_P(AttentionByTensorCores, ManyHeadsShareAKeyAndManyRowsShareASequence) {
  for (const AttentionShape& shape : {square(71, 1, 32), square(150, 1, 16), square(1, 1, 128), square(8, 1, 64)}) {
    Problem problem(rng, shape, KvType::bf16, {150, 24, 160});
    expect_close_and_the_same_in_every_cut(problem, {20, 1, 140});
  }
}

TEST_P(AttentionByTensorCores, RowsSeeSpansWindowsAndChunks) {
  for (Visibility visible : {Visibility{}, Visibility::window(70), Visibility::window(128), Visibility::chunk(130)}) {
    Problem problem(rng, square(6, 2, 48, visible), KvType::bf16, {303, 150, 31});
    problem.see_pictures();
    expect_close_and_the_same_in_every_cut(problem, {40, 50, 4});
  }
}

TEST_P(AttentionByTensorCores, WhatLiesBehindAWindowIsNotRead) {
  Problem problem(rng, square(6, 1, 48, Visibility::window(70)), KvType::bf16, {300, 200, 90});
  const std::vector<int> rows = {1, 3, 9};
  problem.store_what_is_seen(rows, 70);
  expect_close_and_the_same_in_every_cut(problem, rows);
}

TEST_P(AttentionByTensorCores, ScoresAreCappedAndPayForDistance) {
  const std::vector<float> slopes = {0.5f, 0.25f, 0.0625f, 0.0f};
  for (float cap : {0.0f, 3.7f})
    for (const bool with_slopes : {false, true}) {
      AttentionShape shape = square(4, 2, 48);
      shape.cap = cap;
      if (with_slopes) shape.slopes = slopes.data();
      Problem problem(rng, shape, KvType::bf16, {300, 140, 1});
      expect_close_and_the_same_in_every_cut(problem, {3, 10, 1});
    }
}

TEST_P(AttentionByTensorCores, SinksJoinTheDenominatorOnce) {
  Problem problem(rng, square(6, 2, 32, Visibility::window(150)), KvType::bf16, {500, 40, 1});
  problem.sinks = {0.0f, -3.0f, 9.0f, 250.0f, -1000.0f, 2.5f};
  expect_close_and_the_same_in_every_cut(problem, {3, 40, 1});
}

// More blocks than a block of threads has warps for.
TEST_P(AttentionByTensorCores, LongContextsAreFoldedInOrder) {
  for (Visibility visible : {Visibility{}, Visibility::window(700)}) {
    Problem problem(rng, square(3, 1, 16, visible), KvType::bf16, {1400, 900});
    expect_close_and_the_same_in_every_cut(problem, {1, 5});
  }
}

// The same sequence in other slots: runs that begin in other lanes.
TEST_P(AttentionByTensorCores, WhereATokenLiesChangesNoBit) {
  Problem problem(rng, square(4, 1, 64), KvType::bf16, {300});
  problem.fill(cpu);
  const std::vector<float> got = run(problem, {7}, {1 << 20, 1});
  Problem moved = problem;
  moved.sequences[0].runs = {{5, 130}, {144, 33}, {200, 137}};
  moved.fill(cpu);
  ASSERT_EQ(run(moved, {7}, {1 << 20, 1}), got);
}

INSTANTIATE_TEST_SUITE_P(Devices, AttentionByTensorCores, ::testing::ValuesIn(testing::device_kinds()),
                         [](const auto& test) { return std::string(device::name_of(test.param)); });

}  // namespace
}  // namespace espalier
