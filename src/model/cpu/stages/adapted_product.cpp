#include "model/cpu/stages/adapted_product.h"

#include <algorithm>

namespace espalier {

bool AdaptedProduct::touches(const Pass& pass, MatrixId id) {
  return std::ranges::any_of(pass.adapted(), [&](const AdaptedRows& group) {
    return group.adapter->factors(id) != nullptr || group.adapter->whole(id) != nullptr;
  });
}

void AdaptedProduct::clear() {
  low_rank_.clear();
  replaced_.clear();
}

void AdaptedProduct::begin(const Pass& pass, MatrixId id, const RowBlock& x, std::int64_t k) {
  std::vector<LowRankGroup> groups;
  replaced_.clear();
  k_ = k;
  for (const AdaptedRows& group : pass.adapted()) {
    if (const LowRank* factors = group.adapter->factors(id)) groups.push_back({factors, group.rows});
    if (const WholeMatrix* whole = group.adapter->whole(id))
      for (const int row : group.rows) replaced_.push_back({row, whole});
  }
  low_rank_.begin(pass.with().cpu, pass.with().team, groups, x);
  std::ranges::sort(replaced_, {}, &Replaced::row);
  rows_.resize(replaced_.size() * static_cast<std::size_t>(k));
  for (std::size_t i = 0; i < replaced_.size(); ++i)
    floats_of_row(x, replaced_[i].row, k, rows_.data() + i * static_cast<std::size_t>(k));
}

void AdaptedProduct::replaced_columns(const CpuKernels& cpu, std::size_t index, std::int64_t first, std::int64_t count,
                                      float* out) const {
  const auto width = static_cast<std::size_t>(k_);
  const RowBlock x{RowFormat::f32, rows_.data() + index * width, width * sizeof(float), 1};
  const WholeMatrix& by = *replaced_[index].by;
  matmul_columns(cpu, by.weights, x, {first, count, -1}, by.bias.empty() ? nullptr : by.bias.data() + first, out,
                 count);
}

void AdaptedProduct::finish(const Pass& pass, std::int64_t outputs, Place out) const {
  constexpr std::int64_t kColumnsAtOnce = 512;
  const ComputeWith& with = pass.with();
  const auto pieces = static_cast<int>((outputs + kColumnsAtOnce - 1) / kColumnsAtOnce);
  with.team.run(static_cast<int>(replaced_.size()) * pieces, [&](int chunk) {
    const auto index = static_cast<std::size_t>(chunk / pieces);
    const std::int64_t first = chunk % pieces * kColumnsAtOnce;
    replaced_columns(with.cpu, index, first, std::min(kColumnsAtOnce, outputs - first),
                     out.row(replaced_[index].row) + first);
  });
  if (!low_rank_.empty()) low_rank_.add_to(with.cpu, with.team, out.first, out.stride);
}

void AdaptedProduct::columns(const CpuKernels& cpu, int begin, int end, std::int64_t first, std::int64_t count,
                             float* out, std::int64_t out_stride) const {
  const auto from = std::ranges::lower_bound(replaced_, begin, {}, &Replaced::row);
  for (auto at = from; at != replaced_.end() && at->row < end; ++at)
    replaced_columns(cpu, static_cast<std::size_t>(at - replaced_.begin()), first, count,
                     out + (at->row - begin) * out_stride);
  if (!low_rank_.empty()) low_rank_.add_columns(cpu, begin, end, first, count, out, out_stride);
}

}  // namespace espalier
