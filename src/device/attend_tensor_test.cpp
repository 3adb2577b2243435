// Attention by tensor cores on a device: close to attention with float32 arithmetic, and the same bits of a row whatever else is
// computed with it and however the work is cut.
#include "device/attended_problem.h"
#include "device/attended_tiles.h"
#include "testing/data.h"

namespace espalier {
namespace {

using testing::elements;
using testing::Emulated;
using testing::Problem;
using testing::Sequence;

class AttentionByTensorCores : public ::testing::Test {
 protected:
  const CpuKernels& cpu = *runnable_cpu_kernels().front();
  std::mt19937_64 rng{testing::seed()};
  Emulated emulated;

  static AttentionShape square(int heads, int kv_heads, int head_dim, Visibility visible = {}) {
    return {.heads = heads,
            .kv_heads = kv_heads,
            .key_dim = head_dim,
            .value_dim = head_dim,
            .visible = visible,
            .scale = 1.0f / std::sqrt(static_cast<float>(head_dim)),
            .exact = true};
  }

  struct Cut {
    int most_rows, pieces;
  };
  std::vector<float> run(Problem& problem, const std::vector<int>& rows, const Cut& cut) {
    cuda::AttendTensorTask task{};
    task.of = put_task(emulated, problem, rows, cut.pieces);
    EXPECT_TRUE(fits_tensor_cores(task.of));
    cuda::TensorCut tiles_as = cuda::tensor_cut(task.of.heads, task.of.kv_heads);
    tiles_as.rows = std::min(tiles_as.rows, cut.most_rows);
    const device::AttendedTiles tiles = device::tiles_of(rows, tiles_as);
    task.few = emulated.put(tiles.few);
    task.few_count = static_cast<int>(tiles.few.size());
    task.few_queries = tiles.few_queries;
    task.many = emulated.put(tiles.many);
    task.many_count = static_cast<int>(tiles.many.size());
    task.many_queries = tiles.many_queries;
    emulated.run(kEspalierAttendTensor, task);
    if (task.of.pieces > 1) emulated.run(kEspalierMergeAttention, cuda::MergeAttentionTask{task.of});
    return emulated.get(task.of.out, elements(task.of.row_count, task.of.out_stride));
  }

  // All rows of a batch, against the CPU's float32 arithmetic; then other cuts, and rows alone.
  void expect_close_and_the_same_in_every_cut(Problem& problem, const std::vector<int>& rows) {
    problem.fill(cpu);
    const std::vector<float> want = problem.run(cpu, 1, rows);
    const std::vector<float> got = run(problem, rows, {1 << 20, 1});
    expect_close(got, want, problem.out_stride());
    for (const Cut& cut : {Cut{1 << 20, 3}, {5, 1}, {1, 2}})
      ASSERT_EQ(run(problem, rows, cut), got) << "rows of a tile " << cut.most_rows << ", pieces " << cut.pieces;
    expect_the_same_alone(problem, rows, got);
  }
  void expect_close(std::span<const float> got, std::span<const float> want, std::int64_t width) {
    constexpr double kBound = 1e-2;  // queries and weights are rounded to bf16
    testing::RelativeError all;
    all.add(got, want);
    ASSERT_LT(all.value(), kBound);
    for (std::size_t at = 0; at < want.size(); at += static_cast<std::size_t>(width)) {
      testing::RelativeError row;
      row.add(got.subspan(at, static_cast<std::size_t>(width)), want.subspan(at, static_cast<std::size_t>(width)));
      if (row.size == 0)
        ASSERT_EQ(row.squares, 0) << "row at " << at;
      else
        ASSERT_LT(row.value(), 5 * kBound) << "row at " << at;
    }
  }
  // Of each sequence the last row, without the others.
  void expect_the_same_alone(Problem& problem, const std::vector<int>& rows, const std::vector<float>& of_batch) {
    std::size_t end = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      end += elements(rows[i], problem.out_stride());
      Problem alone = problem;
      alone.sequences = {problem.sequences[i]};
      const std::vector<float> got = run(alone, {1}, {1, 1});
      const auto from = of_batch.begin() + static_cast<std::ptrdiff_t>(end - got.size());
      ASSERT_TRUE(std::equal(got.begin(), got.end(), from)) << "sequence " << i;
    }
  }
};

TEST_F(AttentionByTensorCores, ComesCloseOnOddShapes) {
  for (const AttentionShape& shape : {square(4, 1, 64), square(3, 3, 80, Visibility::window(37)), square(6, 1, 96),
                                      square(16, 1, 128), square(2, 1, 256), square(5, 1, 33)}) {
    Problem problem(rng, shape, KvType::bf16, {1, 70, 333, 131});
    expect_close_and_the_same_in_every_cut(problem, {1, 40, 3, 1});
  }
}

TEST_F(AttentionByTensorCores, KeysMayBeWiderOrNarrowerThanValues) {
  for (auto [key, value] : {std::pair{192, 128}, {24, 16}, {40, 72}, {256, 40}, {7, 90}}) {
    AttentionShape shape = square(4, 2, key);
    shape.value_dim = value;
    Problem problem(rng, shape, KvType::bf16, {200, 3});
    expect_close_and_the_same_in_every_cut(problem, {9, 3});
  }
}

TEST_F(AttentionByTensorCores, ManyHeadsShareAKeyAndManyRowsShareASequence) {
  for (const AttentionShape& shape : {square(71, 1, 32), square(150, 1, 16), square(1, 1, 128), square(8, 1, 64)}) {
    Problem problem(rng, shape, KvType::bf16, {150, 24, 160});
    expect_close_and_the_same_in_every_cut(problem, {20, 1, 140});
  }
}

TEST_F(AttentionByTensorCores, RowsSeeSpansWindowsAndChunks) {
  for (Visibility visible : {Visibility{}, Visibility::window(70), Visibility::window(128), Visibility::chunk(130)}) {
    Problem problem(rng, square(6, 2, 48, visible), KvType::bf16, {303, 150, 31});
    problem.see_pictures();
    expect_close_and_the_same_in_every_cut(problem, {40, 50, 4});
  }
}

TEST_F(AttentionByTensorCores, WhatLiesBehindAWindowIsNotRead) {
  Problem problem(rng, square(6, 1, 48, Visibility::window(70)), KvType::bf16, {300, 200, 90});
  const std::vector<int> rows = {1, 3, 9};
  problem.store_what_is_seen(rows, 70);
  expect_close_and_the_same_in_every_cut(problem, rows);
}

TEST_F(AttentionByTensorCores, ScoresAreCappedAndPayForDistance) {
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

TEST_F(AttentionByTensorCores, SinksJoinTheDenominatorOnce) {
  Problem problem(rng, square(6, 2, 32, Visibility::window(150)), KvType::bf16, {500, 40, 1});
  problem.sinks = {0.0f, -3.0f, 9.0f, 250.0f, -1000.0f, 2.5f};
  expect_close_and_the_same_in_every_cut(problem, {3, 40, 1});
}

// More blocks than a block of threads has warps for.
TEST_F(AttentionByTensorCores, LongContextsAreFoldedInOrder) {
  for (Visibility visible : {Visibility{}, Visibility::window(700)}) {
    Problem problem(rng, square(3, 1, 16, visible), KvType::bf16, {1400, 900});
    expect_close_and_the_same_in_every_cut(problem, {1, 5});
  }
}

// The same sequence in other slots: runs that begin in other lanes.
TEST_F(AttentionByTensorCores, WhereATokenLiesChangesNoBit) {
  Problem problem(rng, square(4, 1, 64), KvType::bf16, {300});
  problem.fill(cpu);
  const std::vector<float> got = run(problem, {7}, {1 << 20, 1});
  Problem moved = problem;
  moved.sequences[0].runs = {{5, 130}, {144, 33}, {200, 137}};
  moved.fill(cpu);
  ASSERT_EQ(run(moved, {7}, {1 << 20, 1}), got);
}

}  // namespace
}  // namespace espalier
