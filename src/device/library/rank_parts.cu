#include "device/library/rank_parts_task.h"

#include "kernels/cuda/simt/simd.h"

namespace espalier::device {
namespace {

constexpr unsigned kThreads = 128;

ESPALIER_ON_DEVICE float value_of(float x) {
  return x;
}
ESPALIER_ON_DEVICE float value_of(std::uint16_t x) {
  return kernels::simt::float_of_bits(static_cast<unsigned>(x) << 16);
}
ESPALIER_ON_DEVICE void put(float x, float* to) {
  *to = x;
}
ESPALIER_ON_DEVICE void put(float x, std::uint16_t* to) {
  *to = kernels::simt::float_to_bf16(x);
}

// A block takes a row.
template <class T>
ESPALIER_GLOBAL void pack(PackPartTask t) {
  const int row = simt::block_x();
  const float* const from = t.from + row * t.from_stride;
  T* const to = static_cast<T*>(t.part) + row * t.width;
  for (int i = simt::thread(); i < t.columns; i += simt::threads()) put(from[i], to + i);
}

// A block takes a row of a rank's part.
template <class T>
ESPALIER_GLOBAL void spread(SpreadPartsTask t) {
  const int row = t.first_row + simt::block_x(), rank = simt::block_y();
  if (rank == t.own) return;
  Range columns = t.cut[rank];
  if (t.first_place != nullptr) {
    if (row < t.first_place[columns.begin] || row >= t.first_place[columns.end]) return;
    columns = {0, static_cast<int>(t.width)};
  }
  const T* const from = static_cast<const T*>(t.parts) + (std::int64_t{rank} * t.rows + simt::block_x()) * t.width;
  float* const to = t.to + row * t.to_stride + columns.begin;
  for (int i = simt::thread(); i < columns.end - columns.begin; i += simt::threads()) to[i] = value_of(from[i]);
}

}  // namespace

void pack_part(simt::Stream stream, const PackPartTask& task) {
  const simt::Shape shape{static_cast<unsigned>(task.rows), 1, kThreads};
  if (task.halves)
    simt::launch(stream, shape, pack<std::uint16_t>, task);
  else
    simt::launch(stream, shape, pack<float>, task);
}

void spread_parts(simt::Stream stream, const SpreadPartsTask& task) {
  const simt::Shape shape{static_cast<unsigned>(task.rows), static_cast<unsigned>(task.ranks), kThreads};
  if (task.halves)
    simt::launch(stream, shape, spread<std::uint16_t>, task);
  else
    simt::launch(stream, shape, spread<float>, task);
}

}  // namespace espalier::device
