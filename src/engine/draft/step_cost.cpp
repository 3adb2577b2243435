#include "engine/draft/step_cost.h"

#include <algorithm>

namespace espalier {

void StepCost::observe(int rows, double seconds) {
  constexpr double kForget = 0.98;
  const double r = rows;
  for (double* sum : {&weight_, &rows_, &seconds_, &rows_rows_, &rows_seconds_}) *sum *= kForget;
  weight_ += 1;
  rows_ += r;
  seconds_ += seconds;
  rows_rows_ += r * r;
  rows_seconds_ += r * seconds;
  const double mean_rows = rows_ / weight_, mean_seconds = seconds_ / weight_;
  const double assumed = mean_seconds / (8 + mean_rows), spread = 0.1;
  const double covariance = rows_seconds_ / weight_ - mean_rows * mean_seconds;
  const double variance = rows_rows_ / weight_ - mean_rows * mean_rows;
  row_ = std::clamp((covariance + spread * assumed) / (variance + spread), 0.0, mean_seconds / mean_rows);
  base_ = mean_seconds - row_ * mean_rows;
}

int StepCost::rows_within(double seconds) const {
  if (row_ <= 0) return seconds > base_ ? 1 << 20 : 0;
  return static_cast<int>(std::clamp((seconds - base_) / row_, 0.0, 1e6));
}

}  // namespace espalier
