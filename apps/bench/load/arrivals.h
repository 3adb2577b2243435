// arrivals.h: when requests arrive.
// Units:   seconds from the start of the run; rates in requests per second.
// Threads: pure functions. Fails: never.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace espalier::bench {

struct ArrivalPlan {
  double rate = std::numeric_limits<double>::infinity();  // infinity: all at once
  double burstiness = 1;  // shape of the gamma distribution of gaps: 1 = Poisson, below 1 more bursts, above 1 steadier
  std::uint64_t seed = 42;
};

// `count` ascending times, the first one 0. Requires: rate > 0, burstiness > 0.
std::vector<double> arrival_times(std::size_t count, const ArrivalPlan& plan);

}  // namespace espalier::bench
