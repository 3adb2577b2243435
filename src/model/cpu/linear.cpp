#include "model/cpu/linear.h"

namespace espalier {

std::size_t Linear::bytes() const {
  std::size_t sum = bias_.size() * sizeof(float);
  for (const auto& part : parts_) sum += part.bytes();
  return sum;
}

void Linear::add_matrices(std::vector<NamedMatrix>& to) const {
  for (std::size_t i = 0; i < parts_.size(); ++i) to.push_back({made_of_[i], &parts_[i]});
}

RowFormats Linear::formats(const ComputeWith& with, bool wide) const {
  RowFormats wanted;
  for (const PackedMatrix& part : parts_) wanted.add(row_format(with.cpu, part.type(), with.mode, wide));
  return wanted;
}

void Linear::apply(const ComputeWith& with, const InputForms& x, float* out, std::int64_t out_stride, int rows,
                   Options options) const {
  std::int64_t at = 0;  // column of the part's first one
  for (const PackedMatrix& part : parts_) {
    RowBlock block = x.as(row_format(with.cpu, part.type(), with.mode, options.wide));
    block.rows = rows;
    const bool first_of_two = gated_ && !paired() && &part == parts_.data();
    matmul(with.cpu, with.team, part, block, gated_ ? out : out + at, out_stride,
           {bias() ? bias() + at : nullptr, first_of_two ? Finish::store : options.finish, paired() ? outputs_ : 0});
    at += part.outputs();
  }
}

void Linear::apply_converted(const ComputeWith& with, const InputForms& x, Finish gate, const ConvertedRows& out,
                             int rows) const {
  RowBlock block = x.as(format(with));
  block.rows = rows;
  matmul(with.cpu, with.team, parts_.front(), block, nullptr, 0, {bias(), gate, outputs_, out, {}});
}

void Linear::apply_converted(const ComputeWith& with, const InputForms& x, const Activation& activation,
                             const ConvertedRows& out, int rows) const {
  RowBlock block = x.as(format(with));
  block.rows = rows;
  matmul(with.cpu, with.team, parts_.front(), block, nullptr, 0, {bias(), Finish::store, 0, out, activation});
}

void Linear::expect(const ComputeWith& with, int rows, bool wide) const {
  const PackedMatrix& first = parts_.front();
  espalier::expect(with.cpu, with.team, first, paired(), row_format(with.cpu, first.type(), with.mode, wide), rows);
}

void Linear::apply_columns(const CpuKernels& cpu, const RowBlock& x, ColumnRange columns, float* out,
                           std::int64_t out_stride) const {
  matmul_columns(cpu, parts_.front(), x, columns, bias() ? bias() + columns.first : nullptr, out, out_stride);
}

}  // namespace espalier
