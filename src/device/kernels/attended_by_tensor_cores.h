// attended_by_tensor_cores.h: attention by tensor cores of a batch, as tests judge it: close to attention with float32 arithmetic, and the
// same bits of a row whatever else is computed with it and however the work is cut.
#pragma once

#include "device/kernels/attended_problem.h"
#include "device/kernels/random_panels.h"
#include "device/step/attended_tiles.h"
#include "testing/data.h"

namespace espalier::testing {

// The most rows of a tile, pieces, and bytes of shared memory (0: what the device has).
struct AttendedCut {
  int most_rows, pieces, most_shared = 0;
};

// A test that runs problems on each kind of device that is there.
class AttendedByTensorCores : public ::testing::TestWithParam<device::Kind> {
 protected:
  const CpuKernels& cpu = *runnable_cpu_kernels().front();
  std::mt19937_64 rng{seed()};
  Emulated emulated{GetParam()};
  int most_blocks = 0;  // that a row's chosen positions can fill; 0: not known

  static AttentionShape square(int heads, int kv_heads, int head_dim, Visibility visible = {}) {
    return {.heads = heads,
            .kv_heads = kv_heads,
            .key_dim = head_dim,
            .value_dim = head_dim,
            .visible = visible,
            .scale = 1.0f / std::sqrt(static_cast<float>(head_dim)),
            .exact = true};
  }

  using Cut = AttendedCut;
  std::vector<float> run(Problem& problem, const std::vector<int>& rows, const Cut& cut) {
    cuda::AttendTensorTask task{};
    task.of = put_task(emulated, problem, rows, cut.pieces);
    EXPECT_TRUE(fits_tensor_cores(task.of));
    if (most_blocks > 0) {
      task.of.pieces = std::min(task.of.pieces, most_blocks);
      task.of.blocks_each = (most_blocks + task.of.pieces - 1) / task.of.pieces;
    }
    task.most_shared = cut.most_shared;
    cuda::TensorCut tiles_as = cuda::tensor_cut(task.of);
    tiles_as.rows = std::min(tiles_as.rows, cut.most_rows);
    const device::AttendedTiles tiles = device::tiles_of(rows, tiles_as);
    task.few = emulated.put(tiles.few);
    task.few_count = static_cast<int>(tiles.few.size());
    task.few_queries = tiles.few_queries;
    task.many = emulated.put(tiles.many);
    task.many_count = static_cast<int>(tiles.many.size());
    task.many_queries = tiles.many_queries;
    emulated.run(kEspalierAttendTensor, task);
    if (task.of.pieces > 1) emulated.run(kEspalierMergeAttention, cuda::MergeAttentionTask{task.of, most_blocks});
    return emulated.get(task.of.out, elements(task.of.row_count, task.of.out_stride));
  }

  // All rows of a batch, against the CPU's float32 arithmetic; then other cuts, and rows alone.
  void expect_close_and_the_same_in_every_cut(Problem& problem, const std::vector<int>& rows,
                                              std::initializer_list<Cut> cuts = {{1 << 20, 3}, {5, 1}, {1, 2}}) {
    problem.fill(cpu);
    const std::vector<float> want = problem.run(cpu, 1, rows);
    const std::vector<float> got = run(problem, rows, {1 << 20, 1});
    expect_close(got, want, problem.out_stride());
    for (const Cut& cut : cuts)
      ASSERT_EQ(run(problem, rows, cut), got)
          << "rows of a tile " << cut.most_rows << ", pieces " << cut.pieces << ", shared memory " << cut.most_shared;
    expect_the_same_alone(problem, rows, got);
  }
  void expect_close(std::span<const float> got, std::span<const float> want, std::int64_t width) {
    constexpr double kBound = 1e-2;  // queries and weights are rounded to bf16
    RelativeError all;
    all.add(got, want);
    ASSERT_LT(all.value(), kBound);
    for (std::size_t at = 0; at < want.size(); at += static_cast<std::size_t>(width)) {
      RelativeError row;
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

}  // namespace espalier::testing
