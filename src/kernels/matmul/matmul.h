// matmul.h: y = x W^T (+ bias) over a compute team, stored, added to what is there, or gated by it.
//
// How the activations enter is decided once at load: int8 blocks for quantised weights (fast), bf16 for bf16 weights
// where the processor multiplies those (and for weights of eight-bit floats), float otherwise and always in exact mode. Rows and panels are split over the
// team freely: every output element is computed by one thread in one order (promise 1).
#pragma once

#include <optional>
#include <span>

#include "base/threads/compute_team.h"
#include "kernels/cpu/table.h"
#include "kernels/matmul/packed_matrix.h"
#include "kernels/row_format.h"

namespace espalier {

enum class Activations { int8, f32 };  // f32 = exact mode

// What rows become for these weights. `wide`: quantised weights get two-byte activations instead of one-byte ones.
RowFormat row_format(const CpuKernels& cpu, DType weights, Activations mode, bool wide = false);
// Bytes of one converted row of k values.
std::size_t row_bytes(RowFormat format, std::int64_t k);
// What multiplies such rows and weights.
MatmulKernel matmul_kernel(const CpuKernels& cpu, DType weights, RowFormat format);

// Rows of activations in the form that a weight matrix wants. Holds no memory of its own.
struct RowBlock {
  RowFormat format;
  const void* data;
  std::size_t stride;  // bytes
  int rows;
  RowBlock some(int begin, int end) const {
    return {format, static_cast<const std::byte*>(data) + static_cast<std::size_t>(begin) * stride, stride,
            end - begin};
  }
};

// Converts rows [begin, end) of x [rows, k] into `out` (row_bytes apart). For f32 nothing is to be done.
void convert_rows(const CpuKernels& cpu, RowFormat format, const float* x, std::int64_t x_stride, std::int64_t k,
                  int begin, int end, std::byte* out);

// Rows in one form, row_bytes() apart.
struct ConvertedRows {
  RowFormat format;  // bf16 or int8
  std::byte* data;
};

// Values [begin, end) of one of them, which has k, x being the first: whole blocks of 32, but for the row's end.
void convert_part(const CpuKernels& cpu, RowFormat format, const float* x, std::int64_t k, std::int64_t begin,
                  std::int64_t end, std::byte* row);

// What is added to a product's sums before anything becomes of them, by the member of the team that computed them: so
// nobody waits for anybody (low_rank.h).
// Order: share() before a member computes columns, then add() of these. Threads: any members at once.
class AddedSums {
 public:
  virtual ~AddedSums() = default;
  // Does what is left of the work that all columns need.
  virtual void share() = 0;
  // Columns [first, first + count) of rows [begin, end): `out` is row begin, its column `first`, which begins a panel.
  // With pairs columns are those of the panels, in turns.
  virtual void add(int begin, int end, std::int64_t first, std::int64_t count, float* out, std::int64_t out_stride) = 0;
};

// What becomes of a product's results.
struct MatmulOptions {
  const float* bias = nullptr;  // [outputs]; with pairs [2][pairs]
  Finish finish = Finish::store;
  // Above 0: the weights' panels come in pairs, of so many columns of out, the first with gates, the second with what
  // they gate (Finish::gate_...); out has these columns.
  std::int64_t pairs = 0;
  // Instead of out, rows are written here as convert_rows() would write them; with Finish::store or pairs.
  std::optional<ConvertedRows> converted = {};
  // Of weights with an order of inputs: x has floats, which become this form once they are in that order.
  RowFormat ordered_as = RowFormat::f32;
  // With `converted`, without pairs: what becomes of the results first.
  std::optional<Activation> activation = {};
  AddedSums* added = nullptr;     // to the sums and their biases; with pairs before these are joined
  std::int64_t added_column = 0;  // what column 0 is for it
};

// out [rows, outputs], out_stride floats from row to row. Requires: x.format is one that row_format() gives for the
// weights.
void matmul(const CpuKernels& cpu, ComputeTeam& team, const PackedMatrix& weights, const RowBlock& x, float* out,
            std::int64_t out_stride, MatmulOptions options = {});

// One of several products that are computed together.
struct Product {
  const PackedMatrix* weights;
  RowBlock x;
  float* out;
  std::int64_t out_stride;
  MatmulOptions options = {};
};
// All of them in one stage of the team: many small products (experts, heads) cost one meeting.
void matmul_all(const CpuKernels& cpu, ComputeTeam& team, std::span<const Product> products);

// Says that these weights' product with so many rows comes next: members of the team that wait call in their first
// panels. paired: with MatmulOptions::pairs.
void expect(const CpuKernels& cpu, ComputeTeam& team, const PackedMatrix& weights, bool paired, RowFormat format,
            int rows);

// Columns that one call computes.
struct ColumnRange {
  std::int64_t first, count;  // the first of a panel
  std::int64_t next;          // where the calling thread probably goes on, or -1: called in from memory meanwhile
};
// Some columns of the same on the calling thread: out [rows, columns.count]; bias: theirs, or null.
void matmul_columns(const CpuKernels& cpu, const PackedMatrix& weights, const RowBlock& x, ColumnRange columns,
                    const float* bias, float* out, std::int64_t out_stride);

}  // namespace espalier
