// selective_scan.h: Mamba-1's scan of kernels/cpu/recurrence.h.
//
// Sixteen channels go over all rows with their states and decay rates at hand; the exponentials, one a state, a channel
// and a row, are most of the work.
#pragma once

#include "kernels/cpu/generic/exponential.h"
#include "kernels/cpu/generic/for_lanes.h"
#include "kernels/cpu/table.h"

namespace espalier::kernels::ESPALIER_ISA {

// The states and decay rates of sixteen channels.
struct ScannedChannels {
  alignas(64) float state[kMaxScanStates][16];
  float rate[kMaxScanStates][16];  // a * log2(e): exp(dt a) = 2^(dt rate)

  void begin(const SelectiveScanTask& t, std::int64_t first, int m) {
    const Simd::F log2e = Simd::set1(1.44269504088896341f);
    for (int n = 0; n < t.states; ++n) {
      const std::int64_t at = n * t.channels + first;
      Simd::store(rate[n], Simd::mul(load_some(t.a + at, m), log2e));
      Simd::store(state[n], t.state_in ? load_some(t.state_in + at, m) : Simd::zero());
    }
  }
  void end(const SelectiveScanTask& t, std::int64_t first, int m) const {
    for (int n = 0; n < t.states; ++n) store_some(t.state_out + n * t.channels + first, Simd::load(state[n]), m);
  }
  Simd::F row(int states, Simd::F x, Simd::F dt, const float* b, const float* c) {
    const Simd::F input = Simd::mul(dt, x);
    Simd::F sum = Simd::zero();
    for (int n = 0; n < states; ++n) {
      const Simd::F kept = Simd::mul(exp2(Simd::mul(dt, Simd::load(rate[n]))), Simd::load(state[n]));
      const Simd::F h = Simd::fma(input, Simd::set1(b[n]), kept);
      Simd::store(state[n], h);
      sum = Simd::fma(h, Simd::set1(c[n]), sum);
    }
    return sum;
  }
};

[[gnu::flatten]] inline void scan(const SelectiveScanTask& t) {
  ScannedChannels channels;
  for (std::int64_t first = t.begin; first < t.end; first += 16) {
    const int m = t.end - first < 16 ? static_cast<int>(t.end - first) : 16;
    channels.begin(t, first, m);
    for (int row = 0; row < t.rows; ++row) {
      const Simd::F x = load_some(t.x + row * t.x_stride + first, m),
                    dt = load_some(t.dt + row * t.dt_stride + first, m);
      Simd::F sum = channels.row(t.states, x, dt, t.b + row * t.b_stride, t.c + row * t.c_stride);
      if (t.d) sum = Simd::fma(x, load_some(t.d + first, m), sum);
      store_some(t.y + row * t.y_stride + first, sum, m);
    }
    channels.end(t, first, m);
  }
}

}  // namespace espalier::kernels::ESPALIER_ISA
