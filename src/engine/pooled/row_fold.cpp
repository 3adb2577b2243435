#include "engine/pooled/row_fold.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace espalier {

bool pools_row(Pooling how, int position, int length, int leave_out) {
  if (how == Pooling::last) return position + 1 == length;
  if (how == Pooling::first) return position == 0;
  return how == Pooling::each || position >= leave_out;
}

void RowFold::add(Pooling how, std::span<const float> row) {
  ++rows_;
  const bool is_first = values_.empty();
  const float weight = how == Pooling::weighted_mean ? static_cast<float>(rows_) : 1.0f;
  weights_ += static_cast<double>(weight);
  if (how == Pooling::each || is_first) {
    values_.insert(values_.end(), row.begin(), row.end());
    return;
  }
  for (std::size_t i = 0; i < row.size(); ++i)
    values_[i] = how == Pooling::greatest ? std::max(values_[i], row[i]) : values_[i] + weight * row[i];
}

std::vector<float> RowFold::take(Pooling how) {
  double over = 1;
  if (how == Pooling::mean || how == Pooling::weighted_mean) over = weights_;
  if (how == Pooling::mean_by_root) over = std::sqrt(weights_);
  if (over != 1)
    for (float& value : values_) value = static_cast<float>(static_cast<double>(value) / over);
  return std::exchange(*this, RowFold()).values_;
}

}  // namespace espalier
