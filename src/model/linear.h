// linear.h: one linear layer, y = x W^T + b, possibly made of several stored matrices side by side (q, k, v; gate, up).
//
// Matrices of one type are packed into one, so that a step reads them in one pass; files that mix types (Q4_K with
// Q6_K) keep them apart. Activations are converted once per form that a part wants.
#pragma once

#include <vector>

#include "kernels/matmul.h"

namespace espalier {

// Rows of float activations and, made when first wanted, their other forms. Memory belongs to the workspace.
class ActivationRows {
 public:
  ActivationRows(const CpuKernels& cpu, ComputeTeam& team, const float* x, std::int64_t k, int rows,
                 PageBuffer* converted)
      : cpu_(cpu), team_(team), x_(x), k_(k), rows_(rows), converted_(converted) {}
  RowBlock as(RowFormat format);

 private:
  const CpuKernels& cpu_;
  ComputeTeam& team_;
  const float* x_;
  std::int64_t k_;
  int rows_;
  PageBuffer* converted_;  // [3]: bf16, int8, int16
  bool made_[3] = {};
};

class Linear {
 public:
  struct Part {
    DType type;
    std::int64_t outputs;
    PackedMatrix::RowSource row;
  };
  // Parts side by side in the output. bias: empty or one value per output of all parts.
  static Result<Linear> pack(const std::vector<Part>& parts, std::int64_t k, std::vector<float> bias,
                             ComputeTeam& team);

  std::int64_t outputs() const { return outputs_; }
  std::size_t bytes() const;
  struct Options {
    bool accumulate = false;  // add to what out holds
    bool wide = false;        // two-byte activations for quantised weights
  };
  void apply(const CpuKernels& cpu, ComputeTeam& team, Activations mode, ActivationRows& x, float* out, int rows,
             Options options) const;
  void apply(const CpuKernels& cpu, ComputeTeam& team, Activations mode, ActivationRows& x, float* out,
             int rows) const {
    apply(cpu, team, mode, x, out, rows, Options{});
  }

 private:
  std::int64_t outputs_ = 0;
  std::vector<PackedMatrix> parts_;
  std::vector<float> bias_;
};

}  // namespace espalier
