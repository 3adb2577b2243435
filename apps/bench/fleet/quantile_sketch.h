// quantile_sketch.h: percentiles of any number of times in a fixed amount of memory.
//
// Values are counted in buckets whose bounds are 1 % apart, so a percentile is right within half of that. Sketches add up,
// each with a weight, to the sketch of all values. Source: DDSketch (Masson, Rim, Lee, 2019).
// Units:   seconds, from a microsecond to eleven days; others count as the nearest of these.
// Threads: one at a time. Fails: never; without values all figures are 0.
#pragma once

#include <array>
#include <cstddef>

namespace espalier::bench {

class QuantileSketch {
 public:
  void add(double seconds, double weight = 1);
  void add(const QuantileSketch& other, double weight);

  double count() const { return count_; }
  double mean() const { return count_ > 0 ? sum_ / count_ : 0; }
  double most() const { return most_; }
  double quantile(double share) const;  // 0..1

 private:
  static constexpr std::size_t kBuckets = 2780;

  std::array<double, kBuckets> buckets_{};
  double count_ = 0, sum_ = 0, most_ = 0;
};

}  // namespace espalier::bench
