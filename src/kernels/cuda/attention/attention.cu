// Chooses the kernel of attention with the CPU's bits, and folds what pieces of it bring.
#include "kernels/cuda/attention/attention_task.h"
//
#include "kernels/cuda/simt/simd.h"
//
#include "kernels/cpu/generic/each.h"
#include "kernels/cuda/attention/attention_folds.h"
#include "kernels/cuda/attention/attention_launches.h"

namespace espalier::cuda {
namespace {

using namespace attention;
using kernels::simt::each;

// Grid: rows x query heads.
ESPALIER_GLOBAL void merge_pieces(AttendTask task, int most_blocks) {
  constexpr int kTogether = 8;
  const QueryRow row = task.rows[simt::block_x()].query;
  const int head = simt::block_y(), width = padded_head(task.dims.value);
  const int touched = end_block_of(row) - first_block_of(row),
            blocks = most_blocks > 0 && most_blocks < touched ? most_blocks : touched;
  const std::int64_t step = std::int64_t{task.heads} * FoldStates::stride_of(task.dims.value);
  const float* const state = task.begin_in_state ? task.states.of(row.row, head) : nullptr;
  const float first_maximum = state != nullptr ? state[width] : kNothing,
              first_sum = state != nullptr ? state[width + 1] : 0.0f;
  simt::meet();  // before anybody writes where it ends
  for (int e = simt::thread(); e < width; e += simt::threads()) {
    float maximum = first_maximum, sum = first_sum, folded = state != nullptr ? state[e] : 0.0f;
    const float* from = partial_of(task, simt::block_x(), 0, head);
    for (int block = 0; block < blocks; block += kTogether, from += kTogether * step) {
      float maxima[kTogether], sums[kTogether], values[kTogether];
      each<kTogether>([&](auto i) {
        const bool there = block + i < blocks;
        const float* const part = from + (there ? i : 0) * step;
        maxima[i] = there ? part[width] : kNothing;
        sums[i] = part[width + 1];
        values[i] = part[e];
      });
      each<kTogether>([&](auto i) {
        if (maxima[i] == kNothing) return;
        const Joined joined = join(maximum, maxima[i]);
        folded = join_values(joined.kept, joined.added, folded, values[i]);
        sum = join_sums(joined, sum, sums[i]);
        maximum = joined.maximum;
      });
    }
    finish(task, row.row, head, e, maximum, sum, folded);
  }
}

}  // namespace

void attend(simt::Stream stream, const AttendTask& task) {
  switch (task.kv.type) {
    case KvType::f32:
      return attend_f32(stream, task);
    case KvType::bf16:
      return attend_bf16(stream, task);
    case KvType::f16:
      return attend_f16(stream, task);
    case KvType::i8:
      return attend_i8(stream, task);
    case KvType::f8_e4m3:
      return attend_f8_e4m3(stream, task);
    case KvType::f8_e5m2:
      return attend_f8_e5m2(stream, task);
  }
}

void merge_attention(simt::Stream stream, const MergeAttentionTask& task) {
  const AttendTask& of = task.of;
  const int width = padded_head(of.dims.value), threads = width < 128 ? (width + 31) / 32 * 32 : 128;
  simt::launch(stream,
               {.blocks_x = static_cast<unsigned>(of.row_count),
                .blocks_y = static_cast<unsigned>(of.heads),
                .threads = static_cast<unsigned>(threads)},
               merge_pieces, of, task.most_blocks);
}

}  // namespace espalier::cuda
