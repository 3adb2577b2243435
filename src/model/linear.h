// linear.h: one linear layer, y = x W^T + b, possibly made of several stored matrices side by side (q, k, v; gate, up).
//
// Matrices of one type are packed into one, so that a step reads them in one pass; files that mix types (Q4_K with
// Q6_K) keep them apart. Activations are converted once per form that a part wants.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/compute_team.h"
#include "kernels/matmul.h"
#include "model/packed_weights.h"

namespace espalier {

// The forms in which some layer wants its input.
class RowFormats {
 public:
  void add(RowFormat format) { bits_ |= 1u << static_cast<int>(format); }
  bool has(RowFormat format) const { return (bits_ >> static_cast<int>(format) & 1) != 0; }
  // The one that is wanted, if it is of those that rows can be put into part by part.
  std::optional<RowFormat> alone() const {
    for (const RowFormat format : {RowFormat::int8, RowFormat::bf16})
      if (bits_ == 1u << static_cast<int>(format)) return format;
    return std::nullopt;
  }

 private:
  unsigned bits_ = 0;
};

// Rows of float activations and their other forms. Memory belongs to the workspace.
class ActivationRows {
 public:
  ActivationRows(const CpuKernels& cpu, ComputeTeam& team, float* x, std::int64_t k, int rows, PageBuffer* converted)
      : cpu_(cpu), team_(team), x_(x), k_(k), rows_(rows), converted_(converted) {}

  // In one stage: fill(row, x of that row) computes each row, and while it lies in the nearest cache the wanted forms
  // are made of it.
  template <class Fill>
  void make(RowFormats wanted, Fill fill) {
    each_chunk([&](int begin, int end) {
      for (int row = begin; row < end; ++row) {
        fill(row, x_ + row * k_);
        for (const RowFormat format : kConverted)
          if (wanted.has(format)) convert(format, row, row + 1);
      }
    });
    for (const RowFormat format : kConverted) made_[index(format)] = wanted.has(format);
  }
  RowBlock as(RowFormat format);  // made now, where it was not made along with the rows
  float* floats() const { return x_; }
  int rows() const { return rows_; }
  // Where whoever computes the rows puts them in a form that is not float: it counts as made.
  ConvertedRows put(RowFormat format) {
    made_[index(format)] = true;
    return {format, converted_[index(format)].data()};
  }

 private:
  static constexpr RowFormat kConverted[] = {RowFormat::bf16, RowFormat::int8, RowFormat::int16};
  static int index(RowFormat format) { return static_cast<int>(format) - 1; }
  void convert(RowFormat format, int begin, int end) {
    convert_rows(cpu_, format, x_, k_, k_, begin, end, converted_[index(format)].data());
  }
  template <class Body>
  void each_chunk(Body body) {
    constexpr std::int64_t kValues = 16384;  // about ten microseconds' work: more than it takes to claim a chunk
    const int each = static_cast<int>(std::max<std::int64_t>(1, kValues / k_));
    team_.run((rows_ + each - 1) / each, [&](int chunk) { body(chunk * each, std::min(rows_, (chunk + 1) * each)); });
  }

  const CpuKernels& cpu_;
  ComputeTeam& team_;
  float* x_;
  std::int64_t k_;
  int rows_;
  PageBuffer* converted_;  // [3]: bf16, int8, int16
  bool made_[3] = {};
};

class Linear {
 public:
  struct Part {
    std::string made_of;  // where its rows come from and in which order: equal names, equal rows
    DType type;
    std::int64_t outputs;
    PackedMatrix::RowSource row;
  };
  // Parts side by side in the output, out of `packed` what it has. bias: empty or one value per output of all parts.
  static Result<Linear> pack(const std::vector<Part>& parts, std::int64_t k, std::vector<float> bias, ComputeTeam& team,
                             const PackedWeights* packed = nullptr);
  // Two parts of as many outputs, of which the first decides how much of the second passes. Where their types agree
  // their panels take turns, and one pass computes and joins both. bias: empty, or the gate's before the other's.
  static Result<Linear> pack_gated(const Part& gate, const Part& gated, std::int64_t k, std::vector<float> bias,
                                   ComputeTeam& team, const PackedWeights* packed = nullptr);

  std::size_t bytes() const;
  void add_matrices(std::vector<NamedMatrix>& to) const;
  struct Options {
    Finish finish = Finish::store;  // gate_... of gated parts, the others of parts side by side
    bool wide = false;              // two-byte activations for quantised weights
  };
  RowFormats formats(const CpuKernels& cpu, Activations mode,
                     Options options) const;  // of the input that apply() reads
  void apply(const CpuKernels& cpu, ComputeTeam& team, Activations mode, ActivationRows& x, float* out, int rows,
             Options options) const;
  void apply(const CpuKernels& cpu, ComputeTeam& team, Activations mode, ActivationRows& x, float* out,
             int rows) const {
    apply(cpu, team, mode, x, out, rows, Options{});
  }
  // Of gated parts, into rows that only `reader` reads: where one pass can write them in the one form that it wants,
  // they never become floats in memory.
  void apply_gated(const CpuKernels& cpu, ComputeTeam& team, Activations mode, ActivationRows& x, Finish gate,
                   const Linear& reader, ActivationRows& out) const;

  // Says that apply() comes next (kernels/matmul.h).
  void expect(const CpuKernels& cpu, ComputeTeam& team, Activations mode, int rows, Options options) const {
    const PackedMatrix& first = parts_.front();
    espalier::expect(cpu, team, first, paired(), row_format(cpu, first.type(), mode, options.wide), rows);
  }

  // Of a layer that is one matrix: the rows that it reads, made now where they were not, and some
  // columns of out [rows, columns.count] on the calling thread.
  RowBlock input(const CpuKernels& cpu, Activations mode, ActivationRows& x) const {
    return x.as(row_format(cpu, parts_.front().type(), mode));
  }
  void apply_columns(const CpuKernels& cpu, const RowBlock& x, ColumnRange columns, float* out,
                     std::int64_t out_stride) const {
    matmul_columns(cpu, parts_.front(), x, columns, bias_.empty() ? nullptr : bias_.data() + columns.first, out,
                   out_stride);
  }

 private:
  bool paired() const { return gated_ && parts_.size() == 1; }  // panels of both take turns
  struct Joined;                                                // what one packed matrix is made of
  static Joined side_by_side(const std::vector<Part>& parts, std::size_t begin, std::size_t end);
  static Joined in_turns(const Part& first, const Part& second);
  Result<> add_part(const Joined& joined, DType type, std::int64_t k, ComputeTeam& team, const PackedWeights* packed);

  std::int64_t outputs_ = 0;  // columns of out
  bool gated_ = false;
  std::vector<PackedMatrix> parts_;
  std::vector<std::string> made_of_;  // each of them
  std::vector<float> bias_;
};

}  // namespace espalier
