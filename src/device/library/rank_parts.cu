#include "device/library/rank_parts_task.h"

namespace espalier::device {
namespace {

constexpr unsigned kThreads = 128;

// A block takes one row of one rank's part.
ESPALIER_GLOBAL void spread_columns(SpreadPartsTask t) {
  const int row = simt::block_x(), rank = simt::block_y();
  if (rank == t.own) return;
  const float* const from = t.parts + (std::int64_t{rank} * t.rows + row) * t.part_width;
  float* const to = t.to + (t.first_row + row) * t.to_stride + t.cut[rank].begin;
  for (int i = simt::thread(); i < t.cut[rank].end - t.cut[rank].begin; i += simt::threads()) to[i] = from[i];
}

ESPALIER_GLOBAL void spread_places(SpreadPartsTask t) {
  const int row = simt::block_x(), place = t.first_row + row, rank = simt::block_y();
  const Range experts = t.cut[rank];
  if (rank == t.own || place < t.first_place[experts.begin] || place >= t.first_place[experts.end]) return;
  const float* const from = t.parts + (std::int64_t{rank} * t.rows + row) * t.part_width;
  float* const to = t.to + place * t.to_stride;
  for (std::int64_t i = simt::thread(); i < t.part_width; i += simt::threads()) to[i] = from[i];
}

}  // namespace

void spread_parts(simt::Stream stream, const SpreadPartsTask& task) {
  const simt::Shape shape{static_cast<unsigned>(task.rows), static_cast<unsigned>(task.ranks), kThreads};
  if (task.first_place != nullptr)
    simt::launch(stream, shape, spread_places, task);
  else
    simt::launch(stream, shape, spread_columns, task);
}

}  // namespace espalier::device
