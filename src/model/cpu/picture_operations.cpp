#include "model/cpu/picture_operations.h"

#include <algorithm>

namespace espalier {
namespace {

RowFunction make_of_pictures(const TakeGivenOp& o, const RowParts& parts) {
  const Place out = parts.place(o.out);
  const std::int64_t width = o.out.width;
  return [=, &cpu = parts.cpu](const Pass& pass, int row) {
    const float* given = pass.given(o.input, row);
    float* to = out.row(row);
    if (given != nullptr && o.how == TakeGivenOp::How::add)
      cpu.functions.add(given, to, to, width);
    else if (given != nullptr)
      std::copy_n(given, width, to);
    else if (o.how == TakeGivenOp::How::set)
      std::fill_n(to, width, 0.0f);
  };
}

RowFunction make_of_pictures(const BlendRowsOp& o, const RowParts& parts) {
  const Place out = parts.place(o.out);
  const float* table = parts.program.vectors[static_cast<std::size_t>(o.table)].data();
  const std::int64_t width = o.out.width;
  return [=, &cpu = parts.cpu](const Pass& pass, int row) {
    const RowBlend& blend = pass.pictures().blends[static_cast<std::size_t>(o.blend)];
    const auto first = static_cast<std::size_t>(row) * static_cast<std::size_t>(blend.count);
    for (std::size_t i = first; i < first + static_cast<std::size_t>(blend.count); ++i)
      if (blend.weights[i] != 0.0f)
        cpu.functions.add_scaled(blend.weights[i], table + blend.rows[i] * width, out.row(row), width);
  };
}

RowFunction make_of_pictures(const GiveOp& o, const RowParts& parts) {
  const Place in = parts.place(o.in);
  return [=](const Pass& pass, int row) {
    float* const to = pass.pictures().outputs[static_cast<std::size_t>(o.output)];
    std::copy_n(in.row(row), o.in.width, to + std::int64_t{row} * o.in.width);
  };
}

template <class O>
RowFunction make_of_pictures(const O&, const RowParts&) {
  return {};
}

}  // namespace

RowFunction picture_row_function(const Op& op, const RowParts& parts) {
  return std::visit([&](const auto& o) { return make_of_pictures(o, parts); }, op);
}

}  // namespace espalier
