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
  cpu_ = &pass.with().cpu;
  k_ = k;
  rows_.clear();
  for (const AdaptedRows& group : pass.adapted()) rows_.insert(rows_.end(), group.rows.begin(), group.rows.end());
  std::size_t rows = 0;
  for (const int* at = rows_.data(); const AdaptedRows& group : pass.adapted()) {
    const std::span own(at, group.rows.size());
    at += own.size();
    if (const LowRank* factors = group.adapter->factors(id)) groups.push_back({factors, own});
    if (const WholeMatrix* whole = group.adapter->whole(id)) {
      replaced_.push_back({whole, own, rows});
      rows += own.size();
    }
  }
  low_rank_.begin(*cpu_, groups, x);
  x_.resize(rows * static_cast<std::size_t>(k));
  float* to = x_.data();
  for (const Replaced& group : replaced_)
    for (const int row : group.rows) {
      floats_of_row(x, row, k, to);
      to += k;
    }
}

void AdaptedProduct::call_in_next(const Pass& pass, MatrixId next, std::int64_t columns) {
  if (low_rank_.empty()) return;
  std::vector<MemoryPiece> pieces;
  for (const AdaptedRows& group : pass.adapted())
    if (const LowRank* factors = group.adapter->factors(next); factors != nullptr && factors->ranks() > 0)
      pieces.push_back({factors->down.panel(0), factors->down.bytes()});
  low_rank_.call_in_next(std::move(pieces), columns);
}

void AdaptedProduct::replace(const Replaced& group, int begin, int end, std::int64_t first, std::int64_t count,
                             float* out, std::int64_t out_stride) const {
  const auto from = std::ranges::lower_bound(group.rows, begin), to = std::ranges::lower_bound(group.rows, end);
  const auto rows = static_cast<int>(to - from);
  if (rows == 0) return;
  const auto width = static_cast<std::size_t>(k_);
  const auto at = group.first + static_cast<std::size_t>(from - group.rows.begin());
  const RowBlock x{RowFormat::f32, x_.data() + at * width, width * sizeof(float), rows};
  thread_local std::vector<float> sums;
  sums.resize(static_cast<std::size_t>(rows * count));
  const WholeMatrix& by = *group.by;
  matmul_columns(*cpu_, by.weights, x, {first, count, -1}, by.bias.empty() ? nullptr : by.bias.data() + first,
                 sums.data(), count);
  for (int i = 0; i < rows; ++i) std::copy_n(sums.data() + i * count, count, out + (*(from + i) - begin) * out_stride);
}

void AdaptedProduct::add(int begin, int end, std::int64_t first, std::int64_t count, float* out,
                         std::int64_t out_stride) {
  for (const Replaced& group : replaced_) replace(group, begin, end, first, count, out, out_stride);
  if (!low_rank_.empty()) low_rank_.add(begin, end, first, count, out, out_stride);
}

}  // namespace espalier
