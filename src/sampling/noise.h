// noise.h: the random numbers of a request, a pure function of (seed, choice, position).
//
// Nothing is drawn in sequence, so neither the batch, nor retraction, speculation or the order of calls can change
// them: at a position the request's own noise is the same whoever asks, which is what lets a drafted token be verified.
// Threads: a value. Fails: never.
// Source:  Philox-4x32-10, Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
#pragma once

#include <array>
#include <cstdint>

namespace espalier {

// The block function: 128 bits of counter and 64 of key to 128 random bits.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

// The uniform numbers of one choice of one request, by position.
class Noise {
 public:
  // choice: which of the request's n continuations.
  explicit Noise(std::uint64_t seed, std::uint32_t choice = 0) : seed_(seed), choice_(choice) {}

  double uniform(std::uint64_t position) const;  // in [0, 1), all 53 bits random

 private:
  std::uint64_t seed_;
  std::uint32_t choice_;
};

std::uint64_t random_seed();  // for a request that brings none; from the system's entropy

}  // namespace espalier
