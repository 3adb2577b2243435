// table.h: the kernels of one instruction set, behind plain function pointers; chosen once at start.
//
// cpu_kernels() is the best set that this machine runs; ESPALIER_ISA=scalar|avx2|avxvnni|avx512|amx|neon|i8mm forces
// one. Every entry computes each output element by the same operations in the same order whatever the ranges it is
// given (promise 1), so callers may split work over rows, panels, heads and threads as they like. kernels/plain.h and
// plain_attention.h hold the loops that judge these. Threads: any; entries touch only what their arguments name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/activations.h"
#include "kernels/cpu/attention_task.h"
#include "kernels/cpu/functions.h"
#include "kernels/cpu/recurrence.h"
#include "tensor/dtype.h"

namespace espalier {

// What becomes of a sum: stored, added to what `out` holds, or multiplied with an activation of what it holds.
enum class Finish : std::uint8_t { store, add, gate_silu, gate_gelu };

// Some memory.
struct MemoryPiece {
  const void* memory;
  std::size_t bytes;
};

// out[r][n] = finish(sum over k of x[r][k] * w[n][k] (+ bias[n])), for rows [row_begin, row_end) and the output columns
// of panels [panel_begin, panel_end).
struct MatmulTask {
  const std::uint8_t* panels;  // packed weights, kernels/matmul/packed_matrix.h
  std::size_t panel_bytes;
  std::int64_t k;
  std::int64_t outputs;  // columns of out that exist; the last panel may have fewer than 16
  int panel_begin, panel_end;
  int then_panel;        // where whoever computes this probably goes on: it is called in from memory; -1: nothing is
  const void* x;         // rows of float, of bf16, or of bytes with scales (kernels/activations.h)
  std::size_t x_stride;  // bytes from row to row
  int row_begin, row_end;
  float* out;               // its column out_column
  std::int64_t out_stride;  // floats from row to row
  std::int64_t out_column;
  const float* bias;  // [outputs], or null; with pairs [2][outputs]
  Finish finish;
  bool paired;  // panels 2 i and 2 i + 1 belong to the same columns: the first is stored, the second finishes on it
  // What whoever computes this reads behind it, called in evenly meanwhile (by kernels that wait for no memory).
  const MemoryPiece* beside;
  int beside_count;
};
using MatmulKernel = void (*)(const MatmulTask&);

// All kernels of one instruction set.
struct CpuKernels {
  std::string_view isa;

  MatmulKernel matmul_f32, matmul_f16, matmul_bf16;  // float activations
  MatmulKernel matmul_bf16_bf16;                     // bf16 activations too; null without a bf16 dot product
  MatmulKernel (*matmul_float8_bf16)(DType);         // the same with weights of eight bits; null where it is not there
  MatmulKernel (*matmul_exact)(DType);               // float activations, weights decoded in registers
  MatmulKernel (*matmul_int8)(DType);                // activations of one byte
  MatmulKernel (*matmul_int16)(DType);               // activations of two bytes
  // How tasks are cut: a multiple of so many rows wastes nothing; so many bytes of activations pass a panel at a time, of
  // rows of bf16 the second number.
  int matmul_rows = 12;
  std::size_t matmul_row_bytes = 384 << 10, matmul_bf16_row_bytes = 384 << 10;

  // y = x / sqrt(mean(x^2) + eps) * gain;  gain may be null
  void (*rms_norm)(const float* x, const float* gain, float eps, float* y, std::int64_t n);
  // Rows as kernels/activations.h has them; the last block is filled with zeros. quantise: values [begin, end) of a row
  // of n, x being the first of them; whole blocks, but for the row's end.
  void (*quantise)(const float* x, std::uint8_t* out, std::int64_t n, std::int64_t begin, std::int64_t end);
  void (*quantise_wide)(const float* x, std::uint8_t* out, std::int64_t n);
  void (*to_bf16)(const float* x, std::uint16_t* out,
                  std::int64_t n);  // out has room for n rounded up to 32, zeros go there
  // Rotates the pairs (i, i + half) of one head: cosines and sines of `half` angles each.
  void (*rotate_halves)(float* head, const float* cosines, const float* sines, int half);

  // One token's key and value of one KV head, rounded to what the layer stores. v is null where the layer is latent
  // (k is the row) or keeps keys only.
  void (*store_kv)(const KvLayer&, Slot slot, const float* k, const float* v, int kv_head, HeadDims dims);
  void (*attend)(const AttentionTask&);       // in float32
  void (*attend_bf16)(const AttentionTask&);  // queries and weights as bf16 too, for bf16 keys and values; or null
  void (*attend_latent_bf16)(const AttentionTask&);  // the same for latent rows
  void (*merge)(const AttentionMerge&);
  void (*index_scores)(const IndexTask&);       // in float32
  void (*index_scores_bf16)(const IndexTask&);  // queries as bf16 too, for bf16 keys; or null

  FunctionKernels functions;     // activations, gates, sums, norms, rotations of rows: kernels/cpu/functions.h
  RecurrenceKernels recurrence;  // layers with a state of fixed size: kernels/cpu/recurrence.h

  // For measuring this machine's limits (kernels/machine_limits.h): operations done in `rounds`; a pass over memory.
  double (*peak_f32)(std::int64_t rounds);
  double (*peak_int8)(std::int64_t rounds);
  double (*peak_bf16)(std::int64_t rounds);  // null without a bf16 dot product
  void (*read_memory)(const std::uint8_t* p, std::size_t bytes);
};

const CpuKernels& cpu_kernels();
std::vector<const CpuKernels*> runnable_cpu_kernels();  // best first; for tests and benchmarks

}  // namespace espalier
