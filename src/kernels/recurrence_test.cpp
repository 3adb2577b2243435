// Convolutions, linear recurrences and selective scans of every instruction set that this machine runs, against the
// plain loops on odd sizes; and promise 1: any split over rows (with the state handed over) or columns gives the same
// bits.
#include "kernels/cpu/recurrence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "kernels/cpu/table.h"
#include "kernels/plain/recurrence.h"
#include "kernels/random_floats.h"
#include "testing/data.h"

namespace espalier {
namespace {

using Floats = std::vector<float>;

Floats random_row(std::mt19937_64& rng, std::int64_t n, float spread = 1.0f) {
  return random_floats(rng, static_cast<std::size_t>(n), spread);
}
Floats uniform_row(std::mt19937_64& rng, std::int64_t n, float least, float most) {
  std::uniform_real_distribution<float> between(least, most);
  Floats out(static_cast<std::size_t>(n));
  for (float& v : out) v = between(rng);
  return out;
}

// What a layer writes: rows of outputs with a gap behind each, and the state.
struct Written {
  Floats y, state;
  bool operator==(const Written&) const = default;
};

// Consecutive pieces of 0..n, some of them empty.
std::vector<std::int64_t> random_cuts(std::mt19937_64& rng, std::int64_t n, std::int64_t step) {
  std::vector<std::int64_t> cuts = {0};
  while (cuts.back() < n) cuts.push_back(std::min(n, cuts.back() + static_cast<std::int64_t>(rng() % 4) * step));
  return cuts;
}

// A layer's input: computes rows [row, row + rows) and columns [begin, end) from `state` into `to`; the state may be
// `to.state`.
class Layer {
 public:
  explicit Layer(std::mt19937_64& rng) : rng_(rng) {}
  virtual ~Layer() = default;
  virtual void run(const CpuKernels& cpu, int row, int rows, std::int64_t begin, std::int64_t end, const float* state,
                   Written& to) const = 0;
  virtual plain::Recurred judge() const = 0;

  Written empty() const {
    return {Floats(static_cast<std::size_t>(rows_ * stride_), -7.0f), Floats(static_cast<std::size_t>(state_), -7.0f)};
  }
  Written whole(const CpuKernels& cpu) const {
    Written out = empty();
    run(cpu, 0, rows_, 0, columns_, start(), out);
    return out;
  }
  // Rows and columns in pieces; the state moves between two places, or stays in one.
  Written in_pieces(const CpuKernels& cpu, std::int64_t column_step, bool in_place) const {
    Written out = empty(), other = empty();
    const std::vector<std::int64_t> columns = random_cuts(rng_, columns_, column_step);
    const float* from = start();
    const std::vector<std::int64_t> rows = random_cuts(rng_, rows_, 1);
    for (std::size_t i = 0; i + 1 < rows.size(); ++i) {
      for (std::size_t c = 0; c + 1 < columns.size(); ++c)
        run(cpu, static_cast<int>(rows[i]), static_cast<int>(rows[i + 1] - rows[i]), columns[c], columns[c + 1], from,
            out);
      if (!in_place) {
        other.state = out.state;
        std::fill(out.state.begin(), out.state.end(), -7.0f);
      }
      from = in_place ? out.state.data() : other.state.data();
    }
    if (!in_place) out.state = other.state;
    return out;
  }

  const float* start() const { return state_in_.empty() ? nullptr : state_in_.data(); }
  int rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  std::int64_t stride() const { return stride_; }

 protected:
  void set_shape(int rows, std::int64_t columns, std::int64_t state, bool from_zero) {
    rows_ = rows;
    columns_ = columns;
    stride_ = columns + 5;
    state_ = state;
    if (!from_zero) state_in_ = random_row(rng_, state);
  }
  std::mt19937_64& rng_;
  int rows_ = 0;
  std::int64_t columns_ = 0, stride_ = 0, state_ = 0;
  Floats state_in_;
};

class Convolution : public Layer {
 public:
  Convolution(std::mt19937_64& rng, int rows, std::int64_t channels, int taps, int dilation, bool plain)
      : Layer(rng), taps_(taps), dilation_(dilation), plain_(plain) {
    set_shape(rows, channels, (taps - 1) * dilation * channels, plain);
    x_ = random_row(rng, rows * stride_);
    weights_ = random_row(rng, taps * channels);
    bias_ = random_row(rng, channels);
  }
  ConvolutionTask task(int row, int rows, std::int64_t begin, std::int64_t end, const float* state, Written& to) const {
    return {x_.data() + row * stride_,
            stride_,
            to.y.data() + row * stride_,
            stride_,
            weights_.data(),
            plain_ ? nullptr : bias_.data(),
            state,
            to.state.data(),
            columns_,
            begin,
            end,
            rows,
            taps_,
            dilation_,
            !plain_};
  }
  void run(const CpuKernels& cpu, int row, int rows, std::int64_t begin, std::int64_t end, const float* state,
           Written& to) const override {
    cpu.recurrence.convolve(task(row, rows, begin, end, state, to));
  }
  plain::Recurred judge() const override {
    Written out = empty();
    return plain::convolution(task(0, rows_, 0, columns_, start(), out));
  }
  const Floats& input() const { return x_; }

 private:
  int taps_, dilation_;
  bool plain_;
  Floats x_, weights_, bias_;
};

struct RecurrenceShape {
  int rows, dk, dv;
  StateDecay decay;
  bool delta, beta, skip, from_zero;
  bool answers = false;
};

class LinearRecurrence : public Layer {
 public:
  LinearRecurrence(std::mt19937_64& rng, const RecurrenceShape& s) : Layer(rng), s_(s) {
    set_shape(s.rows, s.dv, std::int64_t{s.dk} * s.dv, s.from_zero);
    const float spread = 1.0f / std::sqrt(static_cast<float>(s.dk));  // keys of length 1, as layers have them
    q_ = random_row(rng, s.rows * (s.dk + 3), spread);
    k_ = random_row(rng, s.rows * (s.dk + 1), spread);
    v_ = random_row(rng, s.rows * stride_);
    decay_ = uniform_row(rng, s.rows * (s.dk + 2), 0.5f, 1.0f);
    beta_ = uniform_row(rng, s.rows * 3, 0.1f, 1.0f);
    probe_ = random_row(rng, s.rows * (s.dk + 4), spread);
    answer_ = random_row(rng, s.rows * (s.dk + 5), spread);
  }
  LinearRecurrenceTask task(int row, int rows, std::int64_t begin, std::int64_t end, const float* state,
                            Written& to) const {
    LinearRecurrenceTask t = {};
    t.q_stride = s_.dk + 3;
    t.k_stride = s_.dk + 1;
    t.v_stride = t.out_stride = stride_;
    t.decay_stride = s_.dk + 2;
    t.beta_stride = 3;
    t.q = q_.data() + row * t.q_stride;
    t.k = k_.data() + row * t.k_stride;
    t.v = v_.data() + row * stride_;
    t.decay = s_.decay == StateDecay::none ? nullptr : decay_.data() + row * t.decay_stride;
    t.beta = s_.beta ? beta_.data() + row * t.beta_stride : nullptr;
    t.out = to.y.data() + row * stride_;
    t.state_in = state;
    t.state_out = to.state.data();
    t.dk = s_.dk;
    t.dv = s_.dv;
    t.column_begin = static_cast<int>(begin);
    t.column_end = static_cast<int>(end);
    t.rows = rows;
    t.state_decay = s_.decay;
    t.delta_rule = s_.delta;
    t.scale = 0.7f;
    t.skip = s_.skip ? 1.3f : 0.0f;
    if (s_.answers) {
      t.probe_stride = s_.dk + 4;
      t.answer_stride = s_.dk + 5;
      t.probe = probe_.data() + row * t.probe_stride;
      t.answer = answer_.data() + row * t.answer_stride;
    }
    return t;
  }
  void run(const CpuKernels& cpu, int row, int rows, std::int64_t begin, std::int64_t end, const float* state,
           Written& to) const override {
    cpu.recurrence.recur(task(row, rows, begin, end, state, to));
  }
  plain::Recurred judge() const override {
    Written out = empty();
    return plain::linear_recurrence(task(0, rows_, 0, columns_, start(), out));
  }
  const Floats& values() const { return v_; }

 private:
  RecurrenceShape s_;
  Floats q_, k_, v_, decay_, beta_, probe_, answer_;
};

class SelectiveScan : public Layer {
 public:
  SelectiveScan(std::mt19937_64& rng, int rows, std::int64_t channels, int states, bool plain)
      : Layer(rng), states_(states), plain_(plain) {
    set_shape(rows, channels, states * channels, plain);
    x_ = random_row(rng, rows * stride_);
    dt_ = uniform_row(rng, rows * stride_, 0.001f, 1.5f);
    a_ = uniform_row(rng, state_, -8.0f, -0.1f);
    d_ = random_row(rng, channels);
    b_ = random_row(rng, rows * (states + 1));
    c_ = random_row(rng, rows * (states + 2));
  }
  SelectiveScanTask task(int row, int rows, std::int64_t begin, std::int64_t end, const float* state,
                         Written& to) const {
    SelectiveScanTask t = {};
    t.x_stride = t.dt_stride = t.y_stride = stride_;
    t.b_stride = states_ + 1;
    t.c_stride = states_ + 2;
    t.x = x_.data() + row * stride_;
    t.dt = dt_.data() + row * stride_;
    t.b = b_.data() + row * t.b_stride;
    t.c = c_.data() + row * t.c_stride;
    t.a = a_.data();
    t.d = plain_ ? nullptr : d_.data();
    t.y = to.y.data() + row * stride_;
    t.state_in = state;
    t.state_out = to.state.data();
    t.channels = columns_;
    t.begin = begin;
    t.end = end;
    t.states = states_;
    t.rows = rows;
    return t;
  }
  void run(const CpuKernels& cpu, int row, int rows, std::int64_t begin, std::int64_t end, const float* state,
           Written& to) const override {
    cpu.recurrence.scan(task(row, rows, begin, end, state, to));
  }
  plain::Recurred judge() const override {
    Written out = empty();
    return plain::selective_scan(task(0, rows_, 0, columns_, start(), out));
  }
  const Floats& input() const { return x_; }

 private:
  int states_;
  bool plain_;
  Floats x_, dt_, a_, b_, c_, d_;
};

class FadingSum : public Layer {
 public:
  FadingSum(std::mt19937_64& rng, int rows, std::int64_t channels, bool from_zero) : Layer(rng) {
    set_shape(rows, channels, channels, from_zero);
    x_ = random_row(rng, rows * stride_);
    decay_ = uniform_row(rng, rows * (stride_ + 2), 0.0f, 1.0f);
  }
  FadingSumTask task(int row, int rows, std::int64_t begin, std::int64_t end, const float* state, Written& to) const {
    return {x_.data() + row * stride_,
            decay_.data() + row * (stride_ + 2),
            to.y.data() + row * stride_,
            stride_,
            stride_ + 2,
            stride_,
            state,
            to.state.data(),
            begin,
            end,
            rows};
  }
  void run(const CpuKernels& cpu, int row, int rows, std::int64_t begin, std::int64_t end, const float* state,
           Written& to) const override {
    cpu.recurrence.fade(task(row, rows, begin, end, state, to));
  }
  plain::Recurred judge() const override {
    Written out = empty();
    return plain::fading_sum(task(0, rows_, 0, columns_, start(), out));
  }
  const Floats& input() const { return x_; }

 private:
  Floats x_, decay_;
};

class EachRecurrenceSet : public ::testing::TestWithParam<const CpuKernels*> {
 protected:
  const CpuKernels& cpu = *GetParam();
  std::mt19937_64 rng{testing::seed()};

  // Against the judge, in parts of the outputs' size; nothing between rows is touched.
  void expect_judged(const Layer& layer, double bound, double least = 0.1) {
    const Written got = layer.whole(cpu);
    const plain::Recurred want = layer.judge();
    double error = 0, size = 0;
    const auto compare = [&](float a, double b) {
      error += (static_cast<double>(a) - b) * (static_cast<double>(a) - b);
      size += std::max(b * b, least);  // a number alone may have cancelled; they are around 1
    };
    for (std::int64_t row = 0; row < layer.rows(); ++row)
      for (std::int64_t c = 0; c < layer.stride(); ++c) {
        const float y = got.y[static_cast<std::size_t>(row * layer.stride() + c)];
        if (c < layer.columns())
          compare(y, want.y[static_cast<std::size_t>(row * layer.columns() + c)]);
        else
          EXPECT_EQ(y, -7.0f);
      }
    EXPECT_LE(std::sqrt(error), bound * std::sqrt(size));
    error = size = 0;
    ASSERT_EQ(got.state.size(), want.state.size());
    for (std::size_t i = 0; i < got.state.size(); ++i) compare(got.state[i], want.state[i]);
    EXPECT_LE(std::sqrt(error), bound * std::sqrt(size));
  }

  static void expect_same_rows(const Layer& layer, const Floats& got, const Floats& want) {  // the gaps left out
    for (std::int64_t row = 0; row < layer.rows(); ++row)
      for (std::int64_t c = 0; c < layer.columns(); ++c) {
        const auto at = static_cast<std::size_t>(row * layer.stride() + c);
        ASSERT_EQ(got[at], want[at]);
      }
  }

  void expect_same_bits_in_pieces(const Layer& layer) {
    if (layer.rows() == 0) return;
    const Written whole = layer.whole(cpu);
    for (const std::int64_t step : {1, 16, 32, 80})
      for (const bool in_place : {false, true})
        EXPECT_TRUE(whole == layer.in_pieces(cpu, step, in_place)) << "columns by " << step;
  }
};

TEST_P(EachRecurrenceSet, ConvolutionsAgreeWithThePlainLoopAndKeepTheirBitsInPieces) {
  for (int taps = 2; taps <= kMaxTaps; ++taps)
    for (const bool plain : {false, true})
      for (const int rows : {0, 1, 2, 23}) {
        SCOPED_TRACE(::testing::Message() << taps << " taps, " << rows << " rows");
        const Convolution layer(rng, rows, taps % 2 ? 77 : 304, taps, taps == 5 || taps == 4 ? 3 : 1, plain);
        expect_judged(layer, 1e-6);
        expect_same_bits_in_pieces(layer);
      }
}

TEST_P(EachRecurrenceSet, AConvolutionOverItsOwnInputGivesTheSameBits) {
  const Convolution layer(rng, 19, 150, 4, 1, false);
  const Written want = layer.whole(cpu);
  Written out = layer.empty();
  out.y = layer.input();
  ConvolutionTask t = layer.task(0, layer.rows(), 0, layer.columns(), layer.start(), out);
  t.x = out.y.data();
  cpu.recurrence.convolve(t);
  expect_same_rows(layer, out.y, want.y);
  EXPECT_EQ(out.state, want.state);
  t.state_out = nullptr;  // no state is wanted
  out.y = layer.input();
  cpu.recurrence.convolve(t);
  expect_same_rows(layer, out.y, want.y);
}

TEST_P(EachRecurrenceSet, LinearRecurrencesAgreeWithThePlainLoopAndKeepTheirBitsInPieces) {
  for (const StateDecay decay : {StateDecay::none, StateDecay::scalar, StateDecay::vector})
    for (const bool delta : {false, true})
      for (const auto& [dk, dv] : {std::pair{1, 1}, {7, 50}, {16, 16}, {32, 48}, {64, 131}, {128, 128}, {200, 96}})
        for (const int rows : {0, 1, 4, 21}) {
          const bool some = (dk + rows) % 2 == 0;
          SCOPED_TRACE(::testing::Message() << "dk " << dk << " dv " << dv << " rows " << rows << " delta " << delta);
          const LinearRecurrence layer(rng, {rows, dk, dv, decay, delta, some || delta, !some, some});
          expect_judged(layer, 2e-6);
          expect_same_bits_in_pieces(layer);
        }
}

TEST_P(EachRecurrenceSet, WhatAStateHoldsForOneKeyIsGivenToAnother) {
  for (const StateDecay decay : {StateDecay::none, StateDecay::scalar, StateDecay::vector})
    for (const auto& [dk, dv] : {std::pair{1, 1}, {7, 50}, {32, 48}, {64, 64}, {64, 131}})
      for (const int rows : {0, 1, 4, 21}) {
        SCOPED_TRACE(::testing::Message() << "dk " << dk << " dv " << dv << " rows " << rows);
        const LinearRecurrence layer(rng, {rows, dk, dv, decay, false, rows == 4, false, rows == 21, true});
        expect_judged(layer, 3e-6);
        expect_same_bits_in_pieces(layer);
      }
}

TEST_P(EachRecurrenceSet, TheLargestStateIsServedToo) {
  const LinearRecurrence layer(rng, {5, kMaxStateKeys, 512, StateDecay::vector, true, true, true, false});
  expect_judged(layer, 2e-6);
  EXPECT_TRUE(layer.whole(cpu) == layer.in_pieces(cpu, 16, true));
}

TEST_P(EachRecurrenceSet, ARecurrenceMayWriteOverItsValuesAndLeavesItsStartAlone) {
  const LinearRecurrence layer(rng, {9, 32, 48, StateDecay::scalar, true, true, true, false});
  const Written want = layer.whole(cpu);
  const Floats start(layer.start(), layer.start() + want.state.size());
  Written out = layer.empty();
  out.y = layer.values();
  LinearRecurrenceTask t = layer.task(0, layer.rows(), 0, layer.columns(), layer.start(), out);
  t.v = out.y.data();
  cpu.recurrence.recur(t);
  expect_same_rows(layer, out.y, want.y);
  EXPECT_EQ(Floats(layer.start(), layer.start() + start.size()), start);
}

TEST_P(EachRecurrenceSet, AConstantDecayIsOneNumberForAllRows) {
  const LinearRecurrence layer(rng, {13, 24, 32, StateDecay::scalar, false, false, false, true});
  Written varying = layer.empty(), constant = layer.empty();
  LinearRecurrenceTask t = layer.task(0, layer.rows(), 0, layer.columns(), nullptr, varying);
  const Floats decays(13, 0.875f);
  t.decay = decays.data();
  t.decay_stride = 1;
  cpu.recurrence.recur(t);
  t.decay_stride = 0;
  t.out = constant.y.data();
  t.state_out = constant.state.data();
  cpu.recurrence.recur(t);
  EXPECT_TRUE(varying == constant);
}

TEST_P(EachRecurrenceSet, SelectiveScansAgreeWithThePlainLoopAndKeepTheirBitsInPieces) {
  for (const int states : {1, 8, 16, 37, kMaxScanStates})
    for (const std::int64_t channels : {1, 16, 53, 200})
      for (const int rows : {0, 1, 5, 18}) {
        SCOPED_TRACE(::testing::Message() << states << " states, " << channels << " channels, " << rows << " rows");
        const SelectiveScan layer(rng, rows, channels, states, rows == 5);
        // The sums of all states may have cancelled in each of few outputs.
        const bool few = channels * rows < 16;
        expect_judged(layer, few ? 2e-6 * std::sqrt(states) : 2e-6, few ? 0.1 * states : 0.1);
        expect_same_bits_in_pieces(layer);
      }
}

TEST_P(EachRecurrenceSet, AScanMayWriteOverItsInput) {
  const SelectiveScan layer(rng, 11, 40, 16, false);
  const Written want = layer.whole(cpu);
  Written out = layer.empty();
  out.y = layer.input();
  SelectiveScanTask t = layer.task(0, layer.rows(), 0, layer.columns(), layer.start(), out);
  t.x = out.y.data();
  cpu.recurrence.scan(t);
  expect_same_rows(layer, out.y, want.y);
  EXPECT_EQ(out.state, want.state);
}

TEST_P(EachRecurrenceSet, FadingSumsAgreeWithThePlainLoopAndKeepTheirBitsInPieces) {
  for (const std::int64_t channels : {1, 16, 53, 200})
    for (const int rows : {0, 1, 5, 40}) {
      SCOPED_TRACE(::testing::Message() << channels << " channels, " << rows << " rows");
      const FadingSum layer(rng, rows, channels, rows == 5);
      expect_judged(layer, 1e-6);
      expect_same_bits_in_pieces(layer);
    }
}

TEST_P(EachRecurrenceSet, AFadingSumMayWriteOverItsInput) {
  const FadingSum layer(rng, 11, 40, false);
  const Written want = layer.whole(cpu);
  Written out = layer.empty();
  out.y = layer.input();
  FadingSumTask t = layer.task(0, layer.rows(), 0, layer.columns(), layer.start(), out);
  t.x = out.y.data();
  cpu.recurrence.fade(t);
  expect_same_rows(layer, out.y, want.y);
  EXPECT_EQ(out.state, want.state);
}

INSTANTIATE_TEST_SUITE_P(Isa, EachRecurrenceSet, ::testing::ValuesIn(runnable_cpu_kernels()),
                         [](const auto& test) { return std::string(test.param->isa); });

}  // namespace
}  // namespace espalier
