// linear.h: one linear layer, y = x W^T + b, possibly made of several stored matrices side by side (q, k, v; gate, up).
//
// Matrices of one type are packed into one, so that a step reads them in one pass; files that mix types (Q4_K with
// Q6_K) keep them apart. Inputs come in every form that a part wants.
// Threads: one caller; the team computes. Fails: load() naming the tensor, or for lack of memory.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/threads/compute_team.h"
#include "kernels/matmul/matmul.h"
#include "model/weights/needs.h"
#include "model/weights/panel_file.h"
#include "model/weights/weights.h"

namespace espalier {

namespace ranks {
class Collective;
}

inline constexpr int kRowFormats = 4;
constexpr int index_of(RowFormat format) {
  return static_cast<int>(format);
}

// The forms in which some layer wants its input.
class RowFormats {
 public:
  void add(RowFormat format) { bits_ |= 1u << index_of(format); }
  bool has(RowFormat format) const { return (bits_ >> index_of(format) & 1) != 0; }
  // The one that is wanted, if it is of those that rows can be put into part by part.
  std::optional<RowFormat> alone() const {
    for (const RowFormat format : {RowFormat::int8, RowFormat::bf16})
      if (bits_ == 1u << index_of(format)) return format;
    return std::nullopt;
  }

 private:
  unsigned bits_ = 0;
};

// The same rows in the forms that products want; those that nobody wants are empty.
struct InputForms {
  RowBlock blocks[kRowFormats] = {};
  const RowBlock& as(RowFormat format) const { return blocks[index_of(format)]; }
  RowBlock& as(RowFormat format) { return blocks[index_of(format)]; }
};

class Linear;

// Sees what products multiply, before they do. Threads: the one that runs the stages; the team may be used.
class ProductObserver {
 public:
  virtual ~ProductObserver() = default;
  // rows: floats.
  virtual void see(const Linear& linear, const RowBlock& rows) = 0;
};

// Which kernels compute, and how.
struct ComputeWith {
  const CpuKernels& cpu;
  ComputeTeam& team;
  Activations mode;
  ProductObserver* observer = nullptr;  // in exact mode
  ranks::Collective* group = nullptr;   // of a program that was split over ranks
};

// In which form a product wants its rows: floats where the weights have an order of inputs, which then become the form
// that the kernel reads.
RowFormat input_format(const ComputeWith& with, const PackedMatrix& matrix, bool wide);
RowFormat kernel_format(const ComputeWith& with, const PackedMatrix& matrix, bool wide);

// The stored matrices of one layer, and their product.
class Linear {
 public:
  // Out of the weights' packed file what it has. overflow: where what has to be packed is put; null: memory.
  static Result<Linear> load(const MatrixNeed& need, const Weights& weights, ComputeTeam& team,
                             PanelFile* overflow = nullptr);
  // At least what a PanelFile needs to hold it; 0 if a tensor is missing.
  static std::uint64_t room_needed(const MatrixNeed& need, const Weights& weights);

  struct Options {
    Finish finish = Finish::store;  // gate_... of gated parts, the others of parts side by side
    bool wide = false;              // two-byte activations for quantised weights
    AddedSums* added = nullptr;     // to the sums; of a gated layer only where it is paired()
  };
  std::size_t bytes() const;
  void forget_panels();  // of a layer that a device computes
  void add_matrices(std::vector<NamedMatrix>& to) const;
  std::int64_t inputs() const { return parts_.front().k(); }
  std::int64_t outputs() const { return outputs_; }
  RowFormats formats(const ComputeWith& with, bool wide) const;  // of the input that apply() reads
  // out: out_stride floats from row to row.
  void apply(const ComputeWith& with, const InputForms& x, float* out, std::int64_t out_stride, int rows,
             Options options) const;
  // Whether it is gates and what they gate.
  bool gated() const { return gated_; }
  // Whether one pass computes and joins gates and what they gate.
  bool paired() const { return gated_ && parts_.size() == 1; }
  // Of a gated layer that is not paired(): gates and what they gate as sums that are not joined yet, without biases, one
  // behind the other in rows of apart_width() floats (join() may read up to 15 floats behind the last); and one such row joined
  // as apply() does it, bit for bit.
  std::int64_t apart_width() const;
  void apply_apart(const ComputeWith& with, const InputForms& x, float* out, int rows, AddedSums* added) const;
  void join(const CpuKernels& cpu, Finish gate, const float* apart, float* out) const;
  // Whether apply_converted() can: of one matrix.
  bool converts() const { return parts_.size() == 1; }
  // Gated, or behind an activation, into rows of the form that their reader wants: they never become floats in memory.
  void apply_converted(const ComputeWith& with, const InputForms& x, Finish gate, const ConvertedRows& out, int rows,
                       AddedSums* added = nullptr) const;
  void apply_converted(const ComputeWith& with, const InputForms& x, const Activation& activation,
                       const ConvertedRows& out, int rows, AddedSums* added = nullptr) const;
  // Says that apply() comes next (kernels/matmul/matmul.h).
  void expect(const ComputeWith& with, int rows, bool wide) const;

  // The form that all its matrices want; floats, which all of them take, where they differ.
  RowFormat common_format(const ComputeWith& with) const;

  // Of a layer that is one matrix: some columns of out [rows, columns.count] on the calling thread.
  RowFormat format(const ComputeWith& with) const { return input_format(with, parts_.front(), false); }
  void apply_columns(const CpuKernels& cpu, const RowBlock& x, ColumnRange columns, float* out,
                     std::int64_t out_stride) const;

  // The matrices side by side and their biases, for whoever cuts the work of several layers at once.
  const std::vector<PackedMatrix>& parts() const { return parts_; }
  const float* bias() const { return bias_.empty() ? nullptr : bias_.data(); }

 private:
  std::int64_t outputs_ = 0;  // columns of out
  bool gated_ = false;
  std::vector<PackedMatrix> parts_;
  std::vector<std::string> made_of_;  // each of them
  std::vector<float> bias_;
  friend class LinearLoader;
};

// The same of several layers.
RowFormat common_format(const ComputeWith& with, std::span<const Linear> layers);

}  // namespace espalier
