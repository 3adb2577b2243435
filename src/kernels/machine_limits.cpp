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

ReadRate measure_reads(const CpuKernels& cpu, ComputeTeam& team, PageBuffer::Pages pages, int passes) {
  constexpr std::size_t kBytes = std::size_t{256} << 20, kPieces = 256, kPiece = kBytes / kPieces;
  constexpr std::size_t kUnread = 8192;  // of a piece, else its streams would share the sets of a cache
  ReadRate rate;
  const std::size_t before = bytes_in_huge_pages();
  auto buffer = PageBuffer::allocate(kBytes, pages);
  if (!buffer.ok()) return rate;
  std::memset(buffer->data(), 1, kBytes);
  rate.huge_pages = bytes_in_huge_pages() >= before + kBytes / 2;
  const auto* memory = reinterpret_cast<const std::uint8_t*>(buffer->data());
  for (int pass = 0; pass < passes; ++pass) {
    const double start = now();
    team.run(kPieces,
             [&](int piece) { cpu.read_memory(memory + static_cast<std::size_t>(piece) * kPiece, kPiece - kUnread); });
    rate.bytes_per_second =
        std::max(rate.bytes_per_second, static_cast<double>(kPieces * (kPiece - kUnread)) / (now() - start));
  }
  return rate;
}

MachineLimits measure_multipliers(const CpuKernels& cpu, ComputeTeam& team, double effort) {
  MachineLimits limits;
  limits.f32_flops = peak(team, cpu.peak_f32, effort);
  limits.int8_ops = peak(team, cpu.peak_int8, effort);
  limits.bf16_flops = peak(team, cpu.peak_bf16, effort);
  return limits;
}

MachineLimits measure_limits(const CpuKernels& cpu, ComputeTeam& team, double effort) {
  MachineLimits limits = measure_multipliers(cpu, team, effort);
  const ReadRate reads = measure_reads(cpu, team, PageBuffer::Pages::huge, std::max(3, static_cast<int>(5 * effort)));
  limits.read_bytes_per_second = reads.bytes_per_second;
  limits.huge_pages = reads.huge_pages;
  return limits;
}

}  // namespace espalier
