#include "bench/load/random.h"

#include <bit>
#include <cmath>

namespace espalier::bench {
namespace {

std::uint64_t splitmix(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

Random::Random(std::uint64_t seed) : state_{} {
  for (auto& word : state_) word = splitmix(seed);
}

std::uint64_t Random::next() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

std::uint64_t Random::below(std::uint64_t bound) {
  if (bound == 0) return 0;
  const std::uint64_t uneven = (0 - bound) % bound;  // so many low values would make some results likelier
  for (;;)
    if (const std::uint64_t x = next(); x >= uneven) return x % bound;
}

std::int64_t Random::between(std::int64_t low, std::int64_t high) {
  if (high <= low) return low;
  const auto width = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + below(width + 1));
}

double Random::uniform() {
  return static_cast<double>(next() >> 11) * 0x1p-53;
}

double Random::exponential() {
  return -std::log1p(-uniform());
}

double Random::normal() {
  // Box and Muller's second value is thrown away: a value must not depend on what was asked before.
  const double radius = std::sqrt(2 * exponential());
  return radius * std::cos(2 * 3.14159265358979323846 * uniform());
}

double Random::gamma(double shape) {
  if (shape < 1) return gamma(shape + 1) * std::pow(1 - uniform(), 1 / shape);
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = normal(), v = std::pow(1 + c * x, 3);
    if (v <= 0) continue;
    if (std::log(1 - uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

std::uint64_t derived_seed(std::uint64_t seed, std::uint64_t part) {
  std::uint64_t state = seed;
  splitmix(state);
  state ^= part * 0xd1342543de82ef95u;
  return splitmix(state);
}

}  // namespace espalier::bench
