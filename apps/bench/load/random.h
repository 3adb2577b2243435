// random.h: random numbers of which the seed decides every bit, on any machine and with any standard library.
//
// The standard's distributions are free to differ between libraries; a benchmark's requests must not.
// Threads: one at a time. Fails: never.
// Source:  xoshiro256** seeded by splitmix64 (Blackman, Vigna); gamma by Marsaglia and Tsang, 2000.
#pragma once

#include <array>
#include <cstdint>

namespace espalier::bench {

class Random {
 public:
  explicit Random(std::uint64_t seed);

  std::uint64_t next();
  std::uint64_t below(std::uint64_t bound);                   // 0..bound-1, each equally likely; bound 0 gives 0
  std::int64_t between(std::int64_t low, std::int64_t high);  // both included
  double uniform();                                           // [0, 1)
  double exponential();                                       // mean 1
  double normal();                                            // mean 0, deviation 1
  double gamma(double shape);                                 // mean `shape`; shape > 0

 private:
  std::array<std::uint64_t, 4> state_;
};

// A seed for part `part` of what `seed` decides, so that parts do not depend on each other's length.
std::uint64_t derived_seed(std::uint64_t seed, std::uint64_t part);

}  // namespace espalier::bench
