// The kernels of recurrent layers on one thread, for every instruction set that this machine runs: prompts of 512
// tokens against the multipliers' limit (peak_f32 of the same instructions, measured here), states read and written.
// An exponential of Mamba-1's scan counts as the 22 operations that its 11 instructions could have done.
//
//   recurrence_bench [part of a case's name]
#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <string>

#include "kernels/cpu/table.h"
#include "kernels/machine_limits.h"
#include "kernels/measured_recurrence.h"

namespace espalier {
namespace {

constexpr int kRows = 512;

double seconds(const std::function<void()>& f) {
  double best = 1e9;
  for (int i = 0; i < 9; ++i) {
    const auto start = std::chrono::steady_clock::now();
    f();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

class Report {
 public:
  Report(const CpuKernels& cpu, const char* only) : cpu_(cpu), only_(only) {
    ComputeTeam team(1);
    peak_ = measure_multipliers(cpu, team, 1.0).f32_flops;
    fmt::print("{}: f32 {:.1f} GFLOP/s on one thread\n", cpu.isa, peak_ / 1e9);
  }
  void measure(const std::string& name, double operations, double bytes, const std::function<void()>& f) const {
    if (only_ && name.find(only_) == std::string::npos) return;
    const double time = seconds(f);
    fmt::print("  {:36} {:9.1f} us {:7.2f} GB/s {:7.2f} GFLOP/s {:5.1f} % of the multipliers' limit\n", name,
               time * 1e6, bytes / time / 1e9, operations / time / 1e9, 100 * operations / time / peak_);
  }
  const CpuKernels& cpu() const { return cpu_; }

 private:
  const CpuKernels& cpu_;
  const char* only_;
  double peak_;
};

void recurrences(const Report& report) {
  for (const RecurrentShape& shape : kRecurrentShapes) {
    MeasuredRecurrence m = MeasuredRecurrence::allocate(shape, 1, kRows).value();
    report.measure(fmt::format("{} prompt of {}", shape.model, kRows), m.operations(), m.bytes(), [&] {
      for (int i = 0; i < m.tasks(); ++i) report.cpu().recurrence.recur(m.task(0, i));
    });
    MeasuredRecurrence one = MeasuredRecurrence::allocate(shape, 8, 1, std::size_t{64} << 20).value();
    std::size_t layer = 0;
    report.measure(fmt::format("{} 8 sequences, a token each", shape.model), one.operations(), one.bytes(), [&] {
      for (int i = 0; i < one.tasks(); ++i) report.cpu().recurrence.recur(one.task(layer, i));
      ++layer;
    });
  }
}

void convolutions(const Report& report) {
  std::mt19937_64 rng(1);
  constexpr std::int64_t kChannels = 8192;
  std::vector<float> x = random_floats(rng, kRows * kChannels), y(x.size()), state(3 * kChannels);
  const std::vector<float> weights = random_floats(rng, 4 * kChannels);
  const ConvolutionTask t{x.data(),     kChannels, y.data(), kChannels, weights.data(), nullptr, state.data(),
                          state.data(), kChannels, 0,        kChannels, kRows,          4,       1,
                          true};
  report.measure("convolution 8192 channels, 4 taps", 2.0 * 4 * kRows * kChannels, 8.0 * kRows * kChannels,
                 [&] { report.cpu().recurrence.convolve(t); });
}

void scans(const Report& report) {
  std::mt19937_64 rng(1);
  constexpr std::int64_t kChannels = 2048;
  constexpr int kStates = 16;
  const std::vector<float> x = random_floats(rng, kRows * kChannels), dt(x.size(), 0.1f),
                           b = random_floats(rng, kRows * kStates), c = random_floats(rng, kRows * kStates),
                           a(kStates * kChannels, -0.7f);
  std::vector<float> y(x.size()), state(a.size());
  SelectiveScanTask t = {};
  t.x = x.data();
  t.dt = dt.data();
  t.b = b.data();
  t.c = c.data();
  t.a = a.data();
  t.y = y.data();
  t.x_stride = t.dt_stride = t.y_stride = t.channels = t.end = kChannels;
  t.b_stride = t.c_stride = t.states = kStates;
  t.state_in = t.state_out = state.data();
  t.rows = kRows;
  report.measure("scan 2048 channels, 16 states", 30.0 * kRows * kStates * kChannels, 12.0 * kRows * kChannels,
                 [&] { report.cpu().recurrence.scan(t); });
}

}  // namespace
}  // namespace espalier

int main(int argc, char** argv) {
  for (const espalier::CpuKernels* cpu : espalier::runnable_cpu_kernels()) {
    if (cpu->isa == "amx" || cpu->isa == "avxvnni" || cpu->isa == "i8mm") continue;  // another set's kernels
    const espalier::Report report(*cpu, argc > 1 ? argv[1] : nullptr);
    espalier::recurrences(report);
    espalier::convolutions(report);
    espalier::scans(report);
  }
}
