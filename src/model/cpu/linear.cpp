#include "model/cpu/linear.h"

#include <algorithm>

#include "kernels/matmul/low_rank.h"

namespace espalier {

std::size_t Linear::bytes() const {
  std::size_t sum = bias_.size() * sizeof(float);
  for (const auto& part : parts_) sum += part.bytes();
  return sum;
}

void Linear::forget_panels() {
  for (PackedMatrix& part : parts_) part.forget_panels();
}

void Linear::add_matrices(std::vector<NamedMatrix>& to) const {
  for (std::size_t i = 0; i < parts_.size(); ++i) to.push_back({made_of_[i], &parts_[i]});
}

RowFormat input_format(const ComputeWith& with, const PackedMatrix& matrix, bool wide) {
  return matrix.order() ? RowFormat::f32 : kernel_format(with, matrix, wide);
}

RowFormat kernel_format(const ComputeWith& with, const PackedMatrix& matrix, bool wide) {
  return row_format(with.cpu, matrix.type(), with.mode, wide);
}

RowFormats Linear::formats(const ComputeWith& with, bool wide) const {
  RowFormats wanted;
  for (const PackedMatrix& part : parts_) wanted.add(input_format(with, part, wide));
  return wanted;
}

RowFormat Linear::common_format(const ComputeWith& with) const {
  const RowFormat first = input_format(with, parts_.front(), false);
  const bool same =
      std::ranges::all_of(parts_, [&](const PackedMatrix& part) { return input_format(with, part, false) == first; });
  return same ? first : RowFormat::f32;
}

RowFormat common_format(const ComputeWith& with, std::span<const Linear> layers) {
  if (layers.empty()) return RowFormat::f32;
  const RowFormat first = layers.front().common_format(with);
  const bool same =
      std::ranges::all_of(layers, [&](const Linear& layer) { return layer.common_format(with) == first; });
  return same ? first : RowFormat::f32;
}

namespace {

void show(const ComputeWith& with, const Linear& linear, const InputForms& x, int rows) {
  if (with.observer != nullptr) with.observer->see(linear, x.as(RowFormat::f32).some(0, rows));
}

}  // namespace

void Linear::apply(const ComputeWith& with, const InputForms& x, float* out, std::int64_t out_stride, int rows,
                   Options options) const {
  show(with, *this, x, rows);
  std::int64_t at = 0;  // column of the part's first one
  for (const PackedMatrix& part : parts_) {
    RowBlock block = x.as(input_format(with, part, options.wide));
    block.rows = rows;
    const bool first_of_two = gated_ && !paired() && &part == parts_.data();
    matmul(with.cpu, with.team, part, block, gated_ ? out : out + at, out_stride,
           {.bias = bias() ? bias() + at : nullptr,
            .finish = first_of_two ? Finish::store : options.finish,
            .pairs = paired() ? outputs_ : 0,
            .ordered_as = kernel_format(with, part, options.wide),
            .added = options.added,
            .added_column = at});
    at += part.outputs();
  }
}

std::int64_t Linear::apart_width() const {
  std::int64_t width = 0;
  for (const PackedMatrix& part : parts_) width += part.outputs();
  return width;
}

void Linear::apply_apart(const ComputeWith& with, const InputForms& x, float* out, int rows, AddedSums* added) const {
  std::int64_t at = 0;
  for (const PackedMatrix& part : parts_) {
    RowBlock block = x.as(input_format(with, part, false));
    block.rows = rows;
    matmul(with.cpu, with.team, part, block, out + at, apart_width(),
           {.ordered_as = kernel_format(with, part, false), .added = added, .added_column = at});
    at += part.outputs();
  }
}

void Linear::join(const CpuKernels& cpu, Finish gate, const float* apart, float* out) const {
  join_gated(cpu, gate, apart, bias(), outputs_, out);
}

void Linear::apply_converted(const ComputeWith& with, const InputForms& x, Finish gate, const ConvertedRows& out,
                             int rows, AddedSums* added) const {
  show(with, *this, x, rows);
  RowBlock block = x.as(format(with));
  block.rows = rows;
  matmul(with.cpu, with.team, parts_.front(), block, nullptr, 0,
         {.bias = bias(),
          .finish = gate,
          .pairs = outputs_,
          .converted = out,
          .ordered_as = kernel_format(with, parts_.front(), false),
          .added = added});
}

void Linear::apply_converted(const ComputeWith& with, const InputForms& x, const Activation& activation,
                             const ConvertedRows& out, int rows, AddedSums* added) const {
  show(with, *this, x, rows);
  RowBlock block = x.as(format(with));
  block.rows = rows;
  matmul(with.cpu, with.team, parts_.front(), block, nullptr, 0,
         {.bias = bias(),
          .converted = out,
          .ordered_as = kernel_format(with, parts_.front(), false),
          .activation = activation,
          .added = added});
}

void Linear::expect(const ComputeWith& with, int rows, bool wide) const {
  const PackedMatrix& first = parts_.front();
  espalier::expect(with.cpu, with.team, first, paired(), kernel_format(with, first, wide), rows);
}

void Linear::apply_columns(const CpuKernels& cpu, const RowBlock& x, ColumnRange columns, float* out,
                           std::int64_t out_stride) const {
  matmul_columns(cpu, parts_.front(), x, columns, bias() ? bias() + columns.first : nullptr, out, out_stride);
}

}  // namespace espalier
