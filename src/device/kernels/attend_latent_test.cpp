// Attention by tensor cores over latent rows on a device: close to attention with float32 arithmetic, and the same bits of a row
// whatever else is computed with it, however the work is cut, and however much shared memory there is.
#include <array>

#include "device/kernels/attended_by_tensor_cores.h"
#include "device/tested_devices.h"

namespace espalier {
namespace {

using testing::Problem;
using testing::Sequence;

class AttentionOverLatentRows : public testing::AttendedByTensorCores {
 protected:
  static AttentionShape latent(int heads, int key, int value, Visibility visible = {}) {
    AttentionShape shape = square(heads, 1, key, visible);
    shape.value_dim = value;
    return shape;
  }
  // For the last rows of each sequence (others are not asked for): about a third of what lies before, or one in a hundred, or all, or
  // nothing, at most so many.
  void choose(Problem& problem, int most, int rows = 8) {
    for (Sequence& s : problem.sequences) {
      s.selected.assign(static_cast<std::size_t>(s.length), {});
      for (int p = std::max(0, s.length - rows); p < s.length; ++p) {
        std::vector<bool>& seen = s.selected[static_cast<std::size_t>(p)];
        seen.assign(static_cast<std::size_t>(s.length), false);
        const unsigned one_in = std::array{3u, 100u, 1u, ~0u}[rng() % 4];
        for (int i = 0, left = most; i <= p && left > 0; ++i)
          if (rng() % one_in == 0) {
            seen[static_cast<std::size_t>(i)] = true;
            --left;
          }
      }
    }
  }
  Problem problem(const AttentionShape& shape, const std::vector<int>& lengths) {
    return {rng, shape, KvType::bf16, lengths, KvForm::latent};
  }
};

// DeepSeek's width, whatever the number of heads. Shared memory as an A100's, where 64 queries have room for two parts of rows, and as
// an L4's, where 16 have.
TEST_P(AttentionOverLatentRows, AnyNumberOfHeadsSharesARow) {
  for (const auto& [heads, last_rows] : {std::pair{1, 40}, {5, 13}, {12, 7}, {16, 5}, {20, 4}, {128, 1}}) {
    Problem some = problem(latent(heads, 576, 512), {1, 290});
    expect_close_and_the_same_in_every_cut(some, {1, last_rows},
                                           {{1 << 20, 3}, {1, 2}, {1 << 20, 1, 163 << 10}, {2, 2, 99 << 10}});
  }
}

TEST_P(AttentionOverLatentRows, LongContextsAreFoldedInOrder) {
  Problem some = problem(latent(16, 576, 512), {700, 129});
  expect_close_and_the_same_in_every_cut(some, {3, 1}, {{1, 6}, {1 << 20, 2, 163 << 10}, {1, 1, 99 << 10}});
}

TEST_P(AttentionOverLatentRows, WidthsMayBeOdd) {
  for (const auto& [key, value] : {std::pair{40, 32},
                                   {33, 17},
                                   {48, 48},
                                   {7, 3},
                                   {288, 256},
                                   {512, 512},
                                   {250, 130},
                                   {400, 16},
                                   {192, 128},
                                   {512, 448}}) {
    Problem some = problem(latent(6, key, value), {200, 3});
    expect_close_and_the_same_in_every_cut(some, {11, 3}, {{1 << 20, 2}, {1, 1}, {1 << 20, 1, 99 << 10}});
  }
}

TEST_P(AttentionOverLatentRows, ManyRowsOfOneSequenceFormTiles) {
  for (const int heads : {4, 40, 71}) {
    Problem some = problem(latent(heads, 40, 32), {150, 24, 160});
    expect_close_and_the_same_in_every_cut(some, {20, 1, 140});
  }
}

TEST_P(AttentionOverLatentRows, RowsSeeSpansWindowsAndChunks) {
  for (Visibility visible : {Visibility{}, Visibility::window(70), Visibility::window(128), Visibility::chunk(130)}) {
    Problem some = problem(latent(6, 40, 32, visible), {303, 150, 31});
    some.see_pictures();
    expect_close_and_the_same_in_every_cut(some, {40, 50, 4});
  }
}

TEST_P(AttentionOverLatentRows, WhatLiesBehindAWindowIsNotRead) {
  Problem some = problem(latent(6, 150, 130, Visibility::window(70)), {300, 200, 90});
  const std::vector<int> rows = {1, 3, 9};
  some.store_what_is_seen(rows, 70);
  expect_close_and_the_same_in_every_cut(some, rows);
}

TEST_P(AttentionOverLatentRows, ScoresAreCappedAndPayForDistance) {
  const std::vector<float> slopes = {0.5f, 0.25f, 0.0625f, 0.0f};
  for (float cap : {0.0f, 3.7f})
    for (const bool with_slopes : {false, true}) {
      AttentionShape shape = latent(4, 48, 32);
      shape.cap = cap;
      if (with_slopes) shape.slopes = slopes.data();
      Problem some = problem(shape, {300, 140, 1});
      expect_close_and_the_same_in_every_cut(some, {3, 20, 1});
    }
}

TEST_P(AttentionOverLatentRows, SinksJoinTheDenominatorOnce) {
  Problem some = problem(latent(6, 40, 32, Visibility::window(150)), {500, 40, 1});
  some.sinks = {0.0f, -3.0f, 9.0f, 250.0f, -1000.0f, 2.5f};
  expect_close_and_the_same_in_every_cut(some, {3, 40, 1});
}

// Rows choose many of their positions, few, all or none; blocks are counted by what is chosen.
TEST_P(AttentionOverLatentRows, ChosenPositionsAreAllThatCounts) {
  for (const auto& [heads, key, value] : {std::tuple{6, 48, 32}, {40, 160, 128}, {5, 576, 512}}) {
    Problem some = problem(latent(heads, key, value, Visibility::window(450)), {500, 1, 130, 290});
    some.sinks = random_floats(rng, static_cast<std::size_t>(heads));
    choose(some, 1 << 20);
    expect_close_and_the_same_in_every_cut(some, {5, 1, 7, 2},
                                           {{1 << 20, 3}, {1, 2}, {1 << 20, 1, 163 << 10}, {1, 4, 99 << 10}});
  }
}

// Of long contexts: more words of the selection than a block of threads has threads, and rows with fewer blocks than there is room for.
TEST_P(AttentionOverLatentRows, FewPositionsAreChosenOfLongContexts) {
  Problem some = problem(latent(5, 20, 16), {19'000, 17'000, 40});
  choose(some, 380, 3);
  most_blocks = 3;
  expect_close_and_the_same_in_every_cut(some, {3, 1, 2}, {{1, 2}, {1, 3}, {1, 1, 99 << 10}});
}

// Who chooses all has the bits of who sees all.
TEST_P(AttentionOverLatentRows, AChoiceOfAllIsNoChoice) {
  Problem some = problem(latent(17, 72, 64), {300, 140});
  some.fill(cpu);
  const std::vector<float> got = run(some, {3, 1}, {1 << 20, 1});
  for (Sequence& s : some.sequences)
    s.selected.assign(static_cast<std::size_t>(s.length), std::vector<bool>(static_cast<std::size_t>(s.length), true));
  ASSERT_EQ(run(some, {3, 1}, {1 << 20, 2}), got);
}

// The same sequence in other slots: runs that begin in other lanes, and in another segment.
TEST_P(AttentionOverLatentRows, WhereATokenLiesChangesNoBit) {
  Problem some = problem(latent(5, 200, 144), {300});
  some.fill(cpu);
  const std::vector<float> got = run(some, {7}, {1 << 20, 1});
  Problem moved = some;
  moved.sequences[0].runs = {{5, 130}, {144, 33}, {500, 137}};
  moved.fill(cpu);
  ASSERT_EQ(run(moved, {7}, {1 << 20, 1}), got);
}

INSTANTIATE_TEST_SUITE_P(Devices, AttentionOverLatentRows, ::testing::ValuesIn(testing::device_kinds()),
                         [](const auto& test) { return std::string(device::name_of(test.param)); });

}  // namespace
}  // namespace espalier
