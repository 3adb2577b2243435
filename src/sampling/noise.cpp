#include "sampling/noise.h"

#include <chrono>
#include <exception>
#include <random>

namespace espalier {

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    std::uint64_t a = std::uint64_t{0xd2511f53u} * counter[0];
    std::uint64_t b = std::uint64_t{0xcd9e8d57u} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9e3779b9u;
    key[1] += 0xbb67ae85u;
  }
  return counter;
}

double Noise::uniform(std::uint64_t position) const {
  auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  auto bits = philox({low(position), low(position >> 32), choice_, 0}, {low(seed_), low(seed_ >> 32)});
  std::uint64_t mantissa = (std::uint64_t{bits[1]} << 32 | bits[0]) >> 11;
  return static_cast<double>(mantissa) * 0x1p-53;
}

std::uint64_t random_seed() {
  try {
    std::random_device device;
    return std::uint64_t{device()} << 32 | device();
  } catch (const std::exception&) {  // no entropy source: still different from call to call
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) *
           0x9e3779b97f4a7c15u;
  }
}

}  // namespace espalier
