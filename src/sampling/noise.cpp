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

namespace {

// To open the system's source takes longer than a request of a small model may: each thread asks it once.
std::array<std::uint32_t, 2> entropy() {
  try {
    std::random_device device;
    return {device(), device()};
  } catch (const std::exception&) {  // there is none: still different from thread to thread, and from run to run
    const auto now = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
    return {static_cast<std::uint32_t>(now), static_cast<std::uint32_t>(now >> 32)};
  }
}

}  // namespace

std::uint64_t random_seed() {
  thread_local const std::array<std::uint32_t, 2> key = entropy(), start = entropy();
  thread_local std::uint64_t drawn = 0;
  ++drawn;
  const auto bits =
      philox({static_cast<std::uint32_t>(drawn), static_cast<std::uint32_t>(drawn >> 32), start[0], start[1]}, key);
  return std::uint64_t{bits[0]} << 32 | bits[1];
}

}  // namespace espalier
