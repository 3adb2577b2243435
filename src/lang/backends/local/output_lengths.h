// output_lengths.h: how long generations of a kind turn out, so that the scheduler admits as many as will fit.
//
// A kind is what a place of a program asks for: its length, stop strings and constraint. Mean and mean deviation follow
// what is seen, the newest counting an eighth; the sum of both is what is expected.
// Units:   tokens. Threads: any.
// Source:  the estimator of RFC 6298, section 2.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "espalier/backend.h"

namespace espalier::lang {

// Running mean and deviation of output tokens for each kind of generation.
class OutputLengths {
 public:
  static std::uint64_t kind_of(const GenCall& call);
  int expected(std::uint64_t kind) const;  // 0: too few were seen
  void saw(std::uint64_t kind, int tokens);

 private:
  struct Seen {
    int times = 0;
    double mean = 0, deviation = 0;
  };
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, Seen> kinds_;
};

}  // namespace espalier::lang
