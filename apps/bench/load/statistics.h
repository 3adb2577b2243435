// statistics.h: what a sample of measurements says: mean, spread and percentiles.
//
// Percentiles interpolate linearly between the two neighbours, and the deviation is that of the whole sample (divided
// by its size): what numpy does by default, so that figures compare with those of SGLang's and vLLM's tools.
// Units: those of the sample. Threads: pure functions. Fails: never; an empty sample gives zeros.
#pragma once

#include <cstddef>
#include <map>
#include <span>

namespace espalier::bench {

struct Summary {
  std::size_t count = 0;
  double mean = 0, median = 0, deviation = 0;
  double p90 = 0, p95 = 0, p99 = 0;
  double least = 0, most = 0;
  std::map<double, double> asked;  // further percentiles, by their number
};

// The `percent`-th percentile, 0..100. Requires: `sorted` ascends.
double percentile(std::span<const double> sorted, double percent);

Summary summarise(std::span<const double> sample, std::span<const double> percentiles = {});

}  // namespace espalier::bench
