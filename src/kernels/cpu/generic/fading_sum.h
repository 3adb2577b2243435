// fading_sum.h: the fading sums of kernels/cpu/recurrence.h; sixteen channels go over all rows.
#pragma once

#include "kernels/cpu/generic/for_lanes.h"
#include "kernels/cpu/table.h"

namespace espalier::kernels::ESPALIER_ISA {

[[gnu::flatten]] inline void fade(const FadingSumTask& t) {
  for_lanes(t.end - t.begin, [&](std::int64_t i, int m) {
    const std::int64_t c = t.begin + i;
    Simd::F h = t.state_in ? load_some(t.state_in + c, m) : Simd::zero();
    for (int row = 0; row < t.rows; ++row) {
      h = Simd::fma(load_some(t.decay + row * t.decay_stride + c, m), h, load_some(t.x + row * t.x_stride + c, m));
      store_some(t.y + row * t.y_stride + c, h, m);
    }
    store_some(t.state_out + c, h, m);
  });
}

}  // namespace espalier::kernels::ESPALIER_ISA
