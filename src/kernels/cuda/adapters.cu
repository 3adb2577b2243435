// Low-rank products of rows that have adapters.
#include "kernels/cuda/adapters_task.h"

#include "kernels/activations.h"
#include "kernels/cuda/simt/simd.h"
// (behind it)
#include "kernels/cpu/generic/gate.h"

namespace espalier::cuda {
namespace {

namespace of_lanes = kernels::simt;
using of_lanes::Simd;

constexpr int kThreads = 16 * kAdapterRows;  // of a block: sixteen columns of each row of a tile

// Column lane() of a panel at k.
template <DType kType>
ESPALIER_ON_DEVICE float weight_at(const std::uint8_t* panel, int k) {
  if constexpr (kType == DType::f32) return Simd::load(reinterpret_cast<const float*>(panel) + 16 * std::int64_t{k});
  if constexpr (kType == DType::f16)
    return Simd::load_f16(reinterpret_cast<const std::uint16_t*>(panel) + 16 * std::int64_t{k});
  const std::uint32_t pair = Simd::bload(panel + std::int64_t{k} / 2 * 64);
  return of_lanes::float_of_bits(k % 2 == 0 ? pair << 16 : pair & 0xffff0000u);
}

// sum + weights [begin, end) times x [0, end - begin), one after the other.
template <DType kType>
ESPALIER_ON_DEVICE float fold(const std::uint8_t* panel, int begin, int end, const float* x, float sum) {
  ESPALIER_UNROLL(8)
  for (int k = begin; k < end; ++k) sum = fmaf(weight_at<kType>(panel, k), x[k - begin], sum);
  return sum;
}
ESPALIER_ON_DEVICE float fold(const FactorPanels& of, int panel, int begin, int end, const float* x, float sum) {
  const std::uint8_t* const at = of.panels + static_cast<std::size_t>(panel) * of.panel_bytes;
  if (of.type == DType::f32) return fold<DType::f32>(at, begin, end, x, sum);
  if (of.type == DType::f16) return fold<DType::f16>(at, begin, end, x, sum);
  return fold<DType::bf16>(at, begin, end, x, sum);
}

// Where the parts of a row lie.
struct RowLayout {
  RowFormat form;
  std::size_t scales, low, marks;
  explicit RowLayout(const ShrinkTask& task) : form(task.form), scales(0), low(0), marks(0) {
    const WideLayout layout = WideLayout::of(task.k);
    scales = layout.byte.scales;
    low = layout.low;
    marks = layout.marks;
  }

  // Value k of a row as a float.
  ESPALIER_ON_DEVICE float value(const std::byte* row, std::int64_t k) const {
    if (form == RowFormat::f32) return reinterpret_cast<const float*>(row)[k];
    if (form == RowFormat::bf16)
      return of_lanes::float_of_bits(static_cast<std::uint32_t>(reinterpret_cast<const std::uint16_t*>(row)[k]) << 16);
    const float high = of_code(row, k);
    const std::int64_t block = k / kActivationBlock;
    if (form == RowFormat::int8 ||
        (reinterpret_cast<const std::uint64_t*>(row + marks)[block / 64] >> (block % 64) & 1) == 0)
      return high;
    return high + of_code(row + low, k);
  }

 private:
  ESPALIER_ON_DEVICE float of_code(const std::byte* row, std::int64_t k) const {
    const auto* const scale = reinterpret_cast<const ActivationScale*>(row + scales) + k / kActivationBlock;
    return static_cast<float>(reinterpret_cast<const std::int8_t*>(row)[k]) * scale->scale;
  }
};

// A block of threads: a tile's rows, a panel of A, a piece of K. Shared memory: kAdapterValues of each row.
ESPALIER_GLOBAL ESPALIER_MOST_THREADS(kThreads, 8) void shrink_kernel(ShrinkTask t, RowLayout layout, int pieces) {
  constexpr int kStride = kAdapterValues + 4;
  const AdapterTile tile = t.of.batch.tiles[simt::block_y()];
  const DeviceLowRank* const factors = t.of.factors[tile.group];
  const int panel = simt::block_x() / pieces, piece = simt::block_x() % pieces;
  if (factors == nullptr || 16 * panel >= factors->ranks) return;
  const int row = simt::thread() / 16, rank = 16 * panel + Simd::lane();
  const std::int64_t begin = piece * t.piece, end = begin + t.piece < t.k ? begin + t.piece : t.k;
  float* const x = simt::shared<float>();
  float sum = 0.0f;
  for (std::int64_t first = begin; first < end; first += kAdapterValues) {
    const auto count = static_cast<int>(end - first < kAdapterValues ? end - first : kAdapterValues);
    simt::meet();  // others may still read what was there
    for (int i = simt::thread(); i < tile.count * kAdapterValues; i += kThreads) {
      const int of = i / kAdapterValues, at = i % kAdapterValues;
      if (at >= count) continue;
      const int from = t.of.batch.rows[tile.first + of];
      x[of * kStride + at] =
          layout.value(static_cast<const std::byte*>(t.x) + static_cast<std::size_t>(from) * t.x_stride, first + at);
    }
    simt::meet();
    if (row < tile.count)
      sum =
          fold(factors->down, panel, static_cast<int>(first), static_cast<int>(first) + count, x + row * kStride, sum);
  }
  if (row < tile.count && rank < factors->ranks)
    t.hidden[(std::int64_t{piece} * t.of.batch.row_count + tile.first + row) * t.hidden_stride + rank] = sum;
}

// A block of threads: a tile's rows, a panel of B. Shared memory: x A^T of each row.
ESPALIER_GLOBAL ESPALIER_MOST_THREADS(kThreads, 8) void expand_kernel(ExpandTask t) {
  const AdapterTile tile = t.of.batch.tiles[simt::block_y()];
  const DeviceLowRank* const factors = t.of.factors[tile.group];
  if (factors == nullptr || simt::block_x() >= factors->panels) return;
  int of = 0;
  while (of + 1 < factors->part_count && factors->parts[of + 1].first_panel <= simt::block_x()) ++of;
  const DeviceLowRankPart part = factors->parts[of];
  float* const hidden = simt::shared<float>();
  for (int i = simt::thread(); i < tile.count * part.rank; i += kThreads) {
    const int row = i / part.rank, rank = part.first + i % part.rank;
    const float* from = t.hidden + std::int64_t{tile.first + row} * t.hidden_stride + rank;
    float sum = *from;
    for (int piece = 1; piece < t.pieces; ++piece)
      sum += *(from += std::int64_t{t.of.batch.row_count} * t.hidden_stride);
    hidden[row * t.most_ranks + i % part.rank] = sum * factors->scales[rank];
  }
  simt::meet();
  const int row = simt::thread() / 16, panel = simt::block_x() - part.first_panel;
  const std::int64_t column = 16 * std::int64_t{panel} + Simd::lane();
  if (row >= tile.count || column >= part.outputs) return;
  float sum = 0.0f;
  if (part.rank > 0) sum = fold(part.up, panel, 0, part.rank, hidden + row * t.most_ranks, sum);
  if (part.bias != nullptr) sum += part.bias[column];
  const std::int64_t to =
      part.turn == 0 ? part.first_output + column : column + 16 * (panel + std::int64_t{part.turn} - 1);
  t.out.first[t.of.batch.rows[tile.first + row] * t.out.stride + to] += sum;
}

// A thread joins one column.
ESPALIER_GLOBAL void join_kernel(JoinGatesTask t) {
  const std::int64_t column = std::int64_t{simt::block_x()} * kThreads + simt::thread(), row = simt::block_y();
  if (column >= t.outputs) return;
  const float* const sums = t.sums.first + row * t.sums.stride;
  const std::int64_t at = t.in_turns ? column / 16 * 32 + column % 16 : column;
  float gate = sums[at], value = sums[at + (t.in_turns ? 16 : t.outputs)];
  if (t.bias != nullptr) {
    gate += t.bias[column];
    value += t.bias[t.outputs + column];
  }
  t.out.first[row * t.out.stride + column] = of_lanes::combine(t.gate, gate, value);
}

}  // namespace

void shrink(simt::Stream stream, const ShrinkTask& task) {
  const int panels = (task.most_ranks + 15) / 16, pieces = task.pieces();
  simt::launch(stream,
               {static_cast<unsigned>(panels * pieces), static_cast<unsigned>(task.of.batch.tile_count), kThreads,
                kAdapterRows * (kAdapterValues + 4) * sizeof(float)},
               shrink_kernel, task, RowLayout(task), pieces);
}

void expand(simt::Stream stream, const ExpandTask& task) {
  simt::launch(stream,
               {static_cast<unsigned>(task.most_panels), static_cast<unsigned>(task.of.batch.tile_count), kThreads,
                static_cast<std::size_t>(kAdapterRows * task.most_ranks) * sizeof(float)},
               expand_kernel, task);
}

void join_gates(simt::Stream stream, const JoinGatesTask& task) {
  simt::launch(
      stream,
      {static_cast<unsigned>((task.outputs + kThreads - 1) / kThreads), static_cast<unsigned>(task.rows), kThreads},
      join_kernel, task);
}

}  // namespace espalier::cuda
