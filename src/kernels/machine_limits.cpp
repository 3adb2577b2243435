#include "kernels/machine_limits.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "tensor/huge_pages.h"

namespace espalier {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Every member does the same loop; the best of several runs, since strangers can only slow a run down.
double peak(ComputeTeam& team, double (*loop)(std::int64_t), double effort) {
  if (!loop) return 0;
  constexpr int kPieces = 16;  // for each member: one that wakes late or is interrupted leaves its share to the others
  const auto rounds = static_cast<std::int64_t>(40'000 * effort);
  double best = 0;
  for (int run = 0; run < 5; ++run) {
    const double start = now();
    team.run(kPieces * team.size(), [&](int) { loop(rounds); });
    best = std::max(best, loop(1) * static_cast<double>(rounds) * kPieces * team.size() / (now() - start));
  }
  return best;
}

}  // namespace

namespace {

constexpr std::size_t kReadBytes = std::size_t{256} << 20, kReadPieces = 256, kReadPiece = kReadBytes / kReadPieces;
constexpr std::size_t kUnread = 8192;  // of a piece, else its streams would share the sets of a cache

}  // namespace

ReadProbe::ReadProbe(PageBuffer::Pages pages) {
  const std::size_t before = bytes_in_huge_pages();
  auto buffer = PageBuffer::allocate(kReadBytes, pages);
  if (!buffer.ok()) return;
  buffer_ = std::move(*buffer);
  std::memset(buffer_.data(), 1, kReadBytes);
  huge_pages_ = bytes_in_huge_pages() >= before + kReadBytes / 2;
}

ReadRate ReadProbe::measure(const CpuKernels& cpu, ComputeTeam& team, int passes) const {
  ReadRate rate;
  if (buffer_.size() == 0) return rate;
  rate.huge_pages = huge_pages_;
  const auto* memory = reinterpret_cast<const std::uint8_t*>(buffer_.data());
  for (int pass = 0; pass < passes; ++pass) {
    const double start = now();
    team.run(kReadPieces, [&](int piece) {
      cpu.read_memory(memory + static_cast<std::size_t>(piece) * kReadPiece, kReadPiece - kUnread);
    });
    rate.bytes_per_second =
        std::max(rate.bytes_per_second, static_cast<double>(kReadPieces * (kReadPiece - kUnread)) / (now() - start));
  }
  return rate;
}

ReadRate measure_reads(const CpuKernels& cpu, ComputeTeam& team, PageBuffer::Pages pages, int passes) {
  return ReadProbe(pages).measure(cpu, team, passes);
}

MachineLimits measure_multipliers(const CpuKernels& cpu, ComputeTeam& team, double effort) {
  MachineLimits limits;
  limits.f32_flops = peak(team, cpu.peak_f32, effort);
  limits.int8_ops = peak(team, cpu.peak_int8, effort);
  limits.bf16_flops = peak(team, cpu.peak_bf16, effort);
  return limits;
}

MachineLimits measure_limits(const CpuKernels& cpu, ComputeTeam& team, const ReadProbe& probe, double effort) {
  MachineLimits limits = measure_multipliers(cpu, team, effort);
  const ReadRate reads = probe.measure(cpu, team, std::max(3, static_cast<int>(5 * effort)));
  limits.read_bytes_per_second = reads.bytes_per_second;
  limits.huge_pages = reads.huge_pages;
  return limits;
}

MachineLimits measure_limits(const CpuKernels& cpu, ComputeTeam& team, double effort) {
  return measure_limits(cpu, team, ReadProbe(PageBuffer::Pages::huge), effort);
}

MachineLimits best_of(const MachineLimits& a, const MachineLimits& b) {
  return {.read_bytes_per_second = std::max(a.read_bytes_per_second, b.read_bytes_per_second),
          .f32_flops = std::max(a.f32_flops, b.f32_flops),
          .bf16_flops = std::max(a.bf16_flops, b.bf16_flops),
          .int8_ops = std::max(a.int8_ops, b.int8_ops),
          .huge_pages = a.huge_pages || b.huge_pages};
}

}  // namespace espalier
