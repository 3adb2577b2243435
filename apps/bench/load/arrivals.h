// arrivals.h: when requests arrive.
// Units:   seconds from the start of the run; rates in requests per second.
// Threads: pure functions. Fails: never.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace espalier::bench {

struct Ramp {  // of the rate, from the first request to the last
  double start = 0, end = 0;
  bool exponential = false;  // by equal factors instead of equal steps
};

struct ArrivalPlan {
  double rate = std::numeric_limits<double>::infinity();  // infinity: all at once
  double burstiness = 1;  // shape of the gamma distribution of gaps: 1 = Poisson, below 1 more bursts, above 1 steadier
  std::uint64_t seed = 42;
  std::optional<Ramp> ramp = std::nullopt;  // instead of the rate
};

// `count` ascending times, the first one 0. Requires: rates > 0, burstiness > 0.
std::vector<double> arrival_times(std::size_t count, const ArrivalPlan& plan);

}  // namespace espalier::bench
