#include "sampling/row_scan.h"

#include <cmath>
#include <cstdlib>

#include "sampling/row_lanes.h"

namespace espalier::sampling {
namespace {

#define ESPALIER_ROW_KERNELS(isa, width, target)                                                              \
  target bool block_##isa(const float* x, int count, const std::uint32_t* mask, float rate, float* strip_max, \
                          float* max, double* sum) {                                                          \
    return scan_block<width>(x, count, mask, rate, strip_max, max, sum);                                      \
  }                                                                                                           \
  target void weigh_##isa(const float* x, int count, float reference, float rate, float* weights) {           \
    weigh_all<width>(x, count, reference, rate, weights);                                                     \
  }

ESPALIER_ROW_KERNELS(scalar, 4, )
#if defined(__x86_64__)
ESPALIER_ROW_KERNELS(avx2, 8, __attribute__((target("avx2"))))
ESPALIER_ROW_KERNELS(avx512, 16, __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))))
#endif

std::vector<RowKernels> find_kernels() {
  // What every processor of the architecture has: SSE2 or NEON.
  std::vector<RowKernels> found = {{"scalar", block_scalar, weigh_scalar}};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) found.push_back({"avx2", block_avx2, weigh_avx2});
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    found.push_back({"avx512", block_avx512, weigh_avx512});
  }
#endif
  return found;
}

RowKernels choose_kernels() {
  const char* forced = std::getenv("ESPALIER_ISA");
  for (const RowKernels& k : available_row_kernels()) {
    if (forced != nullptr && k.isa == forced) return k;
  }
  return available_row_kernels().back();
}

}  // namespace

std::span<const RowKernels> available_row_kernels() {
  static const std::vector<RowKernels> found = find_kernels();
  return found;
}

const RowKernels& row_kernels() {
  static const RowKernels chosen = choose_kernels();
  return chosen;
}

double RowScan::block_scale(std::size_t block) const {
  return scale_of_block(block_max[block], max, sharpness);
}

void begin_scan(std::size_t row, double sharpness, ScanFor what, RowScan& out) {
  const std::size_t blocks = (row + block_size - 1) / block_size;
  out.strip_max.resize((row + strip_size - 1) / strip_size);
  out.block_max.resize(blocks);
  out.block_sum.resize(what == ScanFor::sums ? blocks : 0);
  out.sharpness = sharpness;
}

void scan_block(const RowKernels& kernels, std::size_t block, std::span<const float> logits, AllowedMask mask,
                RowScan& out) {
  const std::size_t begin = block * block_size;
  const bool sound =
      kernels.block(logits.data(), static_cast<int>(logits.size()), mask.empty() ? nullptr : mask.data() + begin / 32,
                    rate_of(out.sharpness), out.strip_max.data() + begin / strip_size, &out.block_max[block],
                    out.block_sum.empty() ? nullptr : &out.block_sum[block]);
  if (!sound) out.block_max[block] = std::numeric_limits<float>::quiet_NaN();
}

void end_scan(RowScan& out) {
  out.sound = true;
  out.max = minus_infinity;
  out.total = 0;
  for (const float max : out.block_max) {
    if (std::isnan(max)) out.sound = false;
    out.max = std::max(out.max, max);
  }
  if (out.max == std::numeric_limits<float>::infinity()) out.sound = false;
  if (out.block_sum.empty() || !out.sound || out.max == minus_infinity) return;
  for (std::size_t b = 0; b < out.block_sum.size(); ++b) {
    if (out.block_sum[b] > 0) out.total += out.block_sum[b] * out.block_scale(b);
  }
}

void scan_row(const RowKernels& kernels, std::span<const float> logits, AllowedMask mask, double sharpness,
              ScanFor what, RowScan& out) {
  begin_scan(logits.size(), sharpness, what, out);
  for (std::size_t b = 0; b < out.block_max.size(); ++b) {
    const std::size_t begin = b * block_size;
    scan_block(kernels, b, logits.subspan(begin, std::min<std::size_t>(block_size, logits.size() - begin)), mask, out);
  }
  end_scan(out);
}

void scan_row(std::span<const float> logits, AllowedMask mask, double sharpness, ScanFor what, RowScan& out) {
  scan_row(row_kernels(), logits, mask, sharpness, what, out);
}

void scan_block(std::size_t block, std::span<const float> logits, AllowedMask mask, RowScan& out) {
  scan_block(row_kernels(), block, logits, mask, out);
}

void weigh(std::span<const float> logits, float reference, double sharpness, std::span<float> weights) {
  row_kernels().weigh(logits.data(), static_cast<int>(logits.size()), reference, rate_of(sharpness), weights.data());
}

}  // namespace espalier::sampling
