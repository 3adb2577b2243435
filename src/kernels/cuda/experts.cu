// Sorts rows by their experts, gathers them, and adds up what the experts gave.
#include "kernels/cuda/experts_task.h"

namespace espalier::cuda {
namespace {

ESPALIER_ON_DEVICE int expert_of(const GroupByExpertTask& t, int choice) {
  const int row = choice / t.places.chosen;
  return static_cast<int>(t.routed[row * t.routed_stride + choice % t.places.chosen]);
}

// One block: each thread counts and numbers the choices of some experts, in order of rows.
ESPALIER_GLOBAL void group_kernel(GroupByExpertTask t) {
  const ExpertPlaces& p = t.places;
  const int choices = p.rows * p.chosen;
  for (int e = simt::thread(); e < p.count; e += simt::threads()) {
    int count = 0;
    for (int i = 0; i < choices; ++i) count += expert_of(t, i) == e ? 1 : 0;
    p.begin[e + 1] = count;
  }
  for (int i = simt::thread(); i < choices; i += simt::threads())
    if (expert_of(t, i) >= p.count) p.place_of[i] = -1;
  simt::meet();
  if (simt::thread() == 0) {
    p.begin[0] = 0;
    for (int e = 0; e < p.count; ++e) p.begin[e + 1] += p.begin[e];
  }
  simt::meet();
  for (int e = simt::thread(); e < p.count; e += simt::threads()) {
    int place = p.begin[e];
    for (int i = 0; i < choices && place < p.begin[e + 1]; ++i) {
      if (expert_of(t, i) != e) continue;
      p.row_of[place] = i / p.chosen;
      p.place_of[i] = place++;
    }
  }
}

// The weight of the choice that a place is.
ESPALIER_ON_DEVICE float weight_of(const GatherRowsTask& t, int row, int place) {
  int choice = 0;
  while (t.places.place_of[row * t.places.chosen + choice] != place) ++choice;
  return t.routed[row * t.routed_stride + t.places.chosen + choice];
}

// A block for each place.
ESPALIER_GLOBAL void gather_kernel(GatherRowsTask t) {
  const int place = simt::block_x();
  if (place >= t.places.begin[t.places.count]) return;
  const int row = t.places.row_of[place], words = static_cast<int>(t.bytes / 4);
  const std::byte* const from = t.from + static_cast<std::size_t>(row) * t.from_stride;
  std::byte* const to = t.to + static_cast<std::size_t>(place) * t.to_stride;
  if (t.routed == nullptr) {
    for (int i = simt::thread(); i < words; i += simt::threads())
      reinterpret_cast<std::uint32_t*>(to)[i] = reinterpret_cast<const std::uint32_t*>(from)[i];
    return;
  }
  const float weight = weight_of(t, row, place);
  for (int i = simt::thread(); i < words; i += simt::threads())
    reinterpret_cast<float*>(to)[i] = weight * reinterpret_cast<const float*>(from)[i];
}

constexpr int kCombined = 128;  // values of a block

// Grid: [pieces of a row][rows].
ESPALIER_GLOBAL void combine_kernel(CombineExpertsTask t) {
  const int row = simt::block_y(), i = simt::block_x() * kCombined + simt::thread();
  if (i >= t.width) return;
  const ExpertPlaces& p = t.places;
  const float* const weights = t.routed + row * t.routed_stride + p.chosen;
  float* const out = t.out + row * t.out_stride + i;
  float sum = t.add ? *out : 0.0f;
  for (int c = 0; c < p.chosen; ++c) {
    const int place = p.place_of[row * p.chosen + c];
    const float value = place >= 0 ? t.from[place * t.from_stride + i] : t.in[row * t.in_stride + i];
    const float weight = t.weighted ? weights[c] : 1.0f;
    sum = c == 0 && !t.add ? weight * value : fmaf(weight, value, sum);
  }
  *out = sum;
}

}  // namespace

void group_by_expert(simt::Stream stream, const GroupByExpertTask& task) {
  simt::launch(stream, {1, 1, 256, 0}, group_kernel, task);
}

void gather_rows(simt::Stream stream, const GatherRowsTask& task) {
  simt::launch(stream, {static_cast<unsigned>(task.places.most()), 1, 128, 0}, gather_kernel, task);
}

void combine_experts(simt::Stream stream, const CombineExpertsTask& task) {
  const auto pieces = static_cast<unsigned>((task.width + kCombined - 1) / kCombined);
  simt::launch(stream, {pieces, static_cast<unsigned>(task.places.rows), kCombined, 0}, combine_kernel, task);
}

}  // namespace espalier::cuda
