// row_scan.h: one pass over a row of logits: maxima, sums of exponentials, and whether the row is sound.
//
// Everything that samples or reports log-probabilities starts here. The row is read once from memory: each block is
// summed relative to its own maximum while it lies in the first-level cache.
//
// Units:   a strip is 64 logits (its maximum is kept), a block 1024 (its sum is kept).
// Bits:    the order of every sum is fixed by position: 16 lanes a strip, strips of a block in order, blocks in order.
//          No operation is fused or reordered, so all instruction sets give the same bits, which a test checks.
// Threads: pure; the chosen instruction set is fixed at first use (ESPALIER_ISA forces scalar, avx2, avx512).
// Fails:   never; a NaN or +infinity among the allowed logits makes `sound` false.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace espalier::sampling {

inline constexpr int strip_size = 64;
inline constexpr int block_size = 1024;

// Which tokens a constraint allows: bit i % 32 of word i / 32. Empty = all. Bits past the row are ignored.
using AllowedMask = std::span<const std::uint32_t>;

inline bool allowed(AllowedMask mask, std::size_t token) {
  return mask.empty() || (mask[token / 32] >> (token % 32) & 1u);
}

// The maxima and sums of a row by strip and block.
struct RowScan {
  std::vector<float> strip_max;   // [ceil(row / 64)]; -infinity where nothing is allowed
  std::vector<float> block_max;   // [ceil(row / 1024)]; NaN where one is allowed
  std::vector<double> block_sum;  // [ceil(row / 1024)]: sum of exp((x - block_max) * sharpness); not when maxima only
  float max = 0;                  // of all allowed logits
  double total = 0;               // sum of exp((x - max) * sharpness); 0 when maxima only
  double sharpness = 1;           // 1 / temperature
  bool sound = true;

  double block_scale(std::size_t block) const;  // exp((block_max - max) * sharpness)
};

// What a scan computes of each block: maxima alone, or sums of exponentials too.
enum class ScanFor { maxima, sums };

// Requires: the mask is empty or has a bit for every logit.
void scan_row(std::span<const float> logits, AllowedMask mask, double sharpness, ScanFor what, RowScan& out);

// The same in pieces: begin, then each block once, in any order and by any thread, then end.
void begin_scan(std::size_t row, double sharpness, ScanFor what, RowScan& out);
// logits: those of this block; mask: of the whole row.
void scan_block(std::size_t block, std::span<const float> logits, AllowedMask mask, RowScan& out);
void end_scan(RowScan& out);

// weights[i] = exp((logits[i] - reference) * sharpness), to about 2e-7; 0 for -infinity and below 2^-126.
// Requires: logits[i] <= reference, weights as long as logits.
void weigh(std::span<const float> logits, float reference, double sharpness, std::span<float> weights);

// The compiled variants, for tests and for printing.
struct RowKernels {
  std::string_view isa;
  // strip_max: [strips]; returns false when a NaN was seen. sum is null when maxima only.
  bool (*block)(const float* x, int count, const std::uint32_t* mask, float rate, float* strip_max, float* max,
                double* sum);
  void (*weigh)(const float* x, int count, float reference, float rate, float* weights);
};
const RowKernels& row_kernels();                      // the ones in use
std::span<const RowKernels> available_row_kernels();  // all this machine can run
void scan_block(const RowKernels& kernels, std::size_t block, std::span<const float> logits, AllowedMask mask,
                RowScan& out);
void scan_row(const RowKernels& kernels, std::span<const float> logits, AllowedMask mask, double sharpness,
              ScanFor what, RowScan& out);

}  // namespace espalier::sampling
