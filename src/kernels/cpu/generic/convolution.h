// convolution.h: the depthwise causal convolution of kernels/cpu/recurrence.h.
//
// A block of channels at a time goes over the rows with the inputs that it still needs in a ring of lines, which begins
// as the state and ends as it; so y may be x.
#pragma once

#include "kernels/cpu/generic/for_lanes.h"
#include "kernels/cpu/generic/function_values.h"
#include "kernels/cpu/table.h"

namespace espalier::kernels::ESPALIER_ISA {

inline constexpr int kConvolvedChannels = 128;  // that go over the rows together

// The channels that are convolved together.
struct ConvolutionBlock {
  const ConvolutionTask& t;
  std::int64_t first;  // channel
  int channels, lines;
  int oldest = 0;  // line of the ring
  float (&ring)[kMaxConvolutionLines][kConvolvedChannels];

  const float* line(int age) const {
    const int at = oldest + age;
    return ring[at < lines ? at : at - lines];
  }
  void begin() {
    for (int i = 0; i < lines; ++i)
      for_lanes(channels, [&](std::int64_t c, int m) {
        store_some(ring[i] + c, t.state_in ? load_some(t.state_in + i * t.channels + first + c, m) : Simd::zero(), m);
      });
  }
  void end() const {
    for (int i = 0; i < lines && t.state_out; ++i)
      for_lanes(channels, [&](std::int64_t c, int m) {
        store_some(t.state_out + i * t.channels + first + c, load_some(line(i) + c, m), m);
      });
  }
};

// kTaps: their number where it is known, else 0.
template <int kTaps>
[[gnu::flatten]] inline void convolve_row(const ConvolutionBlock& b, float* newest, const float* x, float* y) {
  const ConvolutionTask& t = b.t;
  const float* past[kMaxTaps];
  for (int j = 0; j < t.taps - 1; ++j) past[j] = b.line(j * t.dilation);
  for_lanes(b.channels, [&](std::int64_t c, int m) {
    const float* weight = t.weights + b.first + c;
    Simd::F sum = t.bias ? load_some(t.bias + b.first + c, m) : Simd::zero();
    const auto add = [&](int j, Simd::F input) { sum = Simd::fma(load_some(weight + j * t.channels, m), input, sum); };
    if constexpr (kTaps > 0)
      each<kTaps - 1>([&](auto j) { add(j, load_some(past[j] + c, m)); });
    else
      for (int j = 0; j < t.taps - 1; ++j) add(j, load_some(past[j] + c, m));
    const Simd::F input = load_some(x + c, m);
    add(t.taps - 1, input);
    store_some(newest + c, input, m);  // where the oldest was
    store_some(y + c, t.silu ? function::silu(sum) : sum, m);
  });
}

template <int kTaps>
inline void convolve_block(ConvolutionBlock& b) {
  b.begin();
  for (int row = 0; row < b.t.rows; ++row) {
    convolve_row<kTaps>(b, b.ring[b.oldest], b.t.x + row * b.t.x_stride + b.first,
                        b.t.y + row * b.t.y_stride + b.first);
    b.oldest = b.oldest + 1 < b.lines ? b.oldest + 1 : 0;
  }
  b.end();
}

inline void convolve(const ConvolutionTask& t) {
  alignas(64) float ring[kMaxConvolutionLines][kConvolvedChannels];
  for (std::int64_t first = t.begin; first < t.end; first += kConvolvedChannels) {
    const std::int64_t left = t.end - first;
    const int channels = left < kConvolvedChannels ? static_cast<int>(left) : kConvolvedChannels;
    ConvolutionBlock block{t, first, channels, (t.taps - 1) * t.dilation, 0, ring};
    if (t.taps == 4)
      convolve_block<4>(block);
    else if (t.taps == 3)
      convolve_block<3>(block);
    else
      convolve_block<0>(block);
  }
}

}  // namespace espalier::kernels::ESPALIER_ISA
