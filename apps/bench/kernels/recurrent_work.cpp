#include "bench/kernels/recurrent_work.h"

#include <fmt/format.h>

#include "bench/kernels/timing.h"
#include "kernels/measured_recurrence.h"

namespace espalier::bench {
namespace {

constexpr std::size_t kStatesBeyondCaches = std::size_t{256} << 20;
constexpr int kChannelsTogether = 256, kMostSequences = 128, kLeastPrompt = 64;
using KernelReport = std::function<void(const KernelResult&)>;

Result<KernelResult> recurrence(const RecurrentShape& shape, int sequences, int rows, double budget,
                                const KernelMachine& on) {
  ESP_TRY(MeasuredRecurrence measured,
          MeasuredRecurrence::allocate(shape, sequences, rows, sequences > 1 || rows == 1 ? kStatesBeyondCaches : 0));
  KernelResult r{"recurrent", shape.model, fmt::format("recurrence, {} a sequence", rows), "F32", sequences * rows};
  std::size_t layer = 0;
  r.seconds = best_seconds(budget, [&] {
    on.team.run(measured.tasks(), [&](int i) { on.cpu.recurrence.recur(measured.task(layer, i)); });
    ++layer;
  });
  r.operations = measured.operations();
  r.bytes = measured.bytes();
  r.multiplier = Multiplier::f32;
  return r;
}

// Rows of one sequence; work on channels [begin, end).
KernelResult channel_work(const char* model, const char* part, int rows, std::int64_t channels, double budget,
                          const KernelMachine& on, const std::function<void(std::int64_t, std::int64_t)>& work) {
  KernelResult r{"recurrent", model, part, "F32", rows};
  r.seconds = best_seconds(budget, [&] {
    on.team.run(static_cast<int>((channels + kChannelsTogether - 1) / kChannelsTogether), [&](int i) {
      const std::int64_t begin = std::int64_t{i} * kChannelsTogether;
      work(begin, std::min(channels, begin + kChannelsTogether));
    });
  });
  return r;
}

KernelResult convolution(int rows, double budget, const KernelMachine& on) {
  constexpr std::int64_t kChannels = 8192;
  constexpr int kTaps = 4;
  const std::vector<float> x = random_rows(rows * kChannels), weights = random_rows(kTaps * kChannels);
  std::vector<float> y(x.size()), state((kTaps - 1) * kChannels);
  ConvolutionTask t = {};
  t.x = x.data();
  t.y = y.data();
  t.x_stride = t.y_stride = t.channels = kChannels;
  t.weights = weights.data();
  t.state_in = t.state_out = state.data();
  t.rows = rows;
  t.taps = kTaps;
  t.silu = true;
  KernelResult r =
      channel_work("qwen3-next", "convolution 8192", rows, kChannels, budget, on, [&](auto begin, auto end) {
        ConvolutionTask part = t;
        part.begin = begin;
        part.end = end;
        on.cpu.recurrence.convolve(part);
      });
  r.bytes = 4.0 * kChannels * (2.0 * rows + 2 * (kTaps - 1) + kTaps);
  return r;
}

KernelResult scan(int rows, double budget, const KernelMachine& on) {
  constexpr std::int64_t kChannels = 8192, kStates = 16;
  const std::vector<float> x = random_rows(rows * kChannels), b = random_rows(rows * kStates), dt(x.size(), 0.1f),
                           a(kStates * kChannels, -0.7f);
  std::vector<float> y(x.size()), state(a.size());
  SelectiveScanTask t = {};
  t.x = x.data();
  t.dt = dt.data();
  t.b = t.c = b.data();
  t.a = a.data();
  t.y = y.data();
  t.x_stride = t.dt_stride = t.y_stride = t.channels = kChannels;
  t.b_stride = t.c_stride = kStates;
  t.states = kStates;
  t.state_in = t.state_out = state.data();
  t.rows = rows;
  KernelResult r =
      channel_work("falcon-mamba", "scan 8192 of 16", rows, kChannels, budget, on, [&](auto begin, auto end) {
        SelectiveScanTask part = t;
        part.begin = begin;
        part.end = end;
        on.cpu.recurrence.scan(part);
      });
  r.bytes = 4.0 * kChannels * (3.0 * rows + 3 * kStates);
  r.operations = 30.0 * rows * kStates * kChannels;  // 22 of them what the instructions of an exponential could do
  r.multiplier = Multiplier::f32;
  return r;
}

}  // namespace

Result<> measure_recurrent(const KernelSelection& s, const KernelMachine& on, const KernelReport& report) {
  for (const int rows : s.rows) {
    for (const RecurrentShape& shape : kRecurrentShapes) {
      if (rows <= kMostSequences) {
        ESP_TRY(const KernelResult decode, recurrence(shape, rows, 1, s.seconds_each, on));
        report(decode);
      }
      if (rows >= kLeastPrompt) {
        ESP_TRY(const KernelResult prompt, recurrence(shape, 1, rows, s.seconds_each, on));
        report(prompt);
      }
    }
    report(convolution(rows, s.seconds_each, on));
    report(scan(rows, s.seconds_each, on));
  }
  return success();
}

}  // namespace espalier::bench
