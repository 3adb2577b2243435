// plain/recurrence.h: the layers of kernels/cpu/recurrence.h as the plainest loops in double precision, states and all.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/cpu/recurrence.h"

namespace espalier::plain {

// What a layer gives and keeps.
struct Recurred {
  std::vector<double> y;      // [rows][columns of the task]
  std::vector<double> state;  // the whole state behind the last row, as its task lays it out
};

inline std::vector<double> state_of(const float* state, std::int64_t count) {
  std::vector<double> out(static_cast<std::size_t>(count));
  for (std::size_t i = 0; state && i < out.size(); ++i) out[i] = static_cast<double>(state[i]);
  return out;
}

inline Recurred convolution(const ConvolutionTask& t) {
  const std::int64_t lines = std::int64_t{t.taps - 1} * t.dilation;
  const std::vector<double> before = state_of(t.state_in, lines * t.channels);
  const auto input = [&](std::int64_t row, std::int64_t c) {
    if (row >= 0) return static_cast<double>(t.x[row * t.x_stride + c]);
    return before[static_cast<std::size_t>((lines + row) * t.channels + c)];
  };
  Recurred out{{}, before};
  for (std::int64_t row = 0; row < t.rows; ++row)
    for (std::int64_t c = t.begin; c < t.end; ++c) {
      double sum = t.bias ? static_cast<double>(t.bias[c]) : 0;
      for (std::int64_t j = 0; j < t.taps; ++j)
        sum += static_cast<double>(t.weights[j * t.channels + c]) * input(row - (t.taps - 1 - j) * t.dilation, c);
      out.y.push_back(t.silu ? sum / (1 + std::exp(-sum)) : sum);
    }
  for (std::int64_t i = 0; i < lines; ++i)
    for (std::int64_t c = t.begin; c < t.end; ++c)
      out.state[static_cast<std::size_t>(i * t.channels + c)] = input(t.rows - lines + i, c);
  return out;
}

inline Recurred linear_recurrence(const LinearRecurrenceTask& t) {
  Recurred out{{}, state_of(t.state_in, std::int64_t{t.dk} * t.dv)};
  const auto state = [&](int i, int c) -> double& { return out.state[static_cast<std::size_t>(i * t.dv + c)]; };
  for (std::int64_t row = 0; row < t.rows; ++row)
    for (int c = t.column_begin; c < t.column_end; ++c) {
      const auto key = [&](int i) { return static_cast<double>(t.k[row * t.k_stride + i]); };
      double found = 0;
      for (int i = 0; i < t.dk && t.probe; ++i)
        found += state(i, c) * static_cast<double>(t.probe[row * t.probe_stride + i]);
      for (int i = 0; i < t.dk && t.state_decay != StateDecay::none; ++i)
        state(i, c) *=
            static_cast<double>(t.decay[row * t.decay_stride + (t.state_decay == StateDecay::vector ? i : 0)]);
      for (int i = 0; i < t.dk && t.answer; ++i)
        state(i, c) += static_cast<double>(t.answer[row * t.answer_stride + i]) * found;
      const double value = static_cast<double>(t.v[row * t.v_stride + c]);
      double held = 0, sum = 0;
      for (int i = 0; i < t.dk && t.delta_rule; ++i) held += state(i, c) * key(i);
      const double u = (t.beta ? static_cast<double>(t.beta[row * t.beta_stride]) : 1) * (value - held);
      for (int i = 0; i < t.dk; ++i) state(i, c) += key(i) * u;
      for (int i = 0; i < t.dk; ++i) sum += state(i, c) * static_cast<double>(t.q[row * t.q_stride + i]);
      out.y.push_back(sum * static_cast<double>(t.scale) + static_cast<double>(t.skip) * value);
    }
  return out;
}

inline Recurred selective_scan(const SelectiveScanTask& t) {
  Recurred out{{}, state_of(t.state_in, t.states * t.channels)};
  for (std::int64_t row = 0; row < t.rows; ++row)
    for (std::int64_t channel = t.begin; channel < t.end; ++channel) {
      const double x = static_cast<double>(t.x[row * t.x_stride + channel]);
      const double dt = static_cast<double>(t.dt[row * t.dt_stride + channel]);
      double sum = t.d ? static_cast<double>(t.d[channel]) * x : 0;
      for (int n = 0; n < t.states; ++n) {
        const auto at = static_cast<std::size_t>(n * t.channels + channel);
        const double kept = std::exp(dt * static_cast<double>(t.a[at])) * out.state[at];
        out.state[at] = kept + dt * x * static_cast<double>(t.b[row * t.b_stride + n]);
        sum += static_cast<double>(t.c[row * t.c_stride + n]) * out.state[at];
      }
      out.y.push_back(sum);
    }
  return out;
}

inline Recurred fading_sum(const FadingSumTask& t) {
  Recurred out{{}, state_of(t.state_in, t.end)};
  for (std::int64_t row = 0; row < t.rows; ++row)
    for (std::int64_t c = t.begin; c < t.end; ++c) {
      double& h = out.state[static_cast<std::size_t>(c)];
      h = static_cast<double>(t.decay[row * t.decay_stride + c]) * h + static_cast<double>(t.x[row * t.x_stride + c]);
      out.y.push_back(h);
    }
  return out;
}

}  // namespace espalier::plain
