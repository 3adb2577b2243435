#include "bench/fleet/quantile_sketch.h"

#include <algorithm>
#include <cmath>

namespace espalier::bench {
namespace {

constexpr double kLeast = 1e-6, kFactor = 1.01;

}  // namespace

void QuantileSketch::add(double seconds, double weight) {
  const double place = std::log(std::max(seconds, kLeast) / kLeast) / std::log(kFactor);
  buckets_[std::min(static_cast<std::size_t>(place), kBuckets - 1)] += weight;
  count_ += weight;
  sum_ += weight * seconds;
  most_ = std::max(most_, seconds);
}

void QuantileSketch::add(const QuantileSketch& other, double weight) {
  for (std::size_t i = 0; i < kBuckets; ++i) buckets_[i] += weight * other.buckets_[i];
  count_ += weight * other.count_;
  sum_ += weight * other.sum_;
  most_ = std::max(most_, other.most_);
}

double QuantileSketch::quantile(double share) const {
  if (count_ <= 0) return 0;
  double left = share * count_;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    left -= buckets_[i];
    if (left <= 0 && buckets_[i] > 0) return std::min(most_, kLeast * std::pow(kFactor, static_cast<double>(i) + 0.5));
  }
  return most_;
}

}  // namespace espalier::bench
