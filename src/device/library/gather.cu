#include "device/library/gather_task.h"

namespace espalier::device {
namespace {

ESPALIER_ON_DEVICE void put(const GatherTask& t, const std::int32_t* group, int first, float* to) {
  for (std::int64_t i = simt::thread(); i < t.width * t.count; i += simt::threads()) {
    const int row = group != nullptr ? group[i / t.width] : first;
    to[i] = row < 0 ? 0.0f : t.from[row * t.from_stride + i % t.width];
  }
}

ESPALIER_ON_DEVICE void add_up(const GatherTask& t, const std::int32_t* group, const float* weights, float* to) {
  for (std::int64_t i = simt::thread(); i < t.width; i += simt::threads()) {
    float sum = t.add ? to[i] : 0.0f;
    for (int j = 0; j < t.count; ++j) {
      const float weight = weights != nullptr ? weights[j] : 1.0f;
      if (group[j] >= 0 && weight != 0.0f) sum = fmaf(weight, t.from[group[j] * t.from_stride + i], sum);
    }
    to[i] = weights != nullptr ? sum : 1.0f / static_cast<float>(t.count) * sum;
  }
}

ESPALIER_GLOBAL void gather_kernel(GatherTask t) {
  const int row = simt::block_x();
  float* const to = t.to + row * t.to_stride;
  const std::int32_t* group = t.map != nullptr ? t.map + std::int64_t{row} * t.count : nullptr;
  if (t.sum)
    add_up(t, group, t.weights != nullptr ? t.weights + std::int64_t{row} * t.count : nullptr, to);
  else
    put(t, group, row, to);
}

}  // namespace

void gather(simt::Stream stream, const GatherTask& task) {
  simt::launch(stream, {static_cast<unsigned>(task.rows), 1, 128, 0}, gather_kernel, task);
}

}  // namespace espalier::device
