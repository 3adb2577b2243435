// The main of every unit-test program: prints the seed of its random tests, so that a failure can be run again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <random>

#include "testing/data.h"

namespace espalier::testing {

std::uint64_t seed() {
  static const std::uint64_t value = [] {
    if (const char* given = std::getenv("ESPALIER_SEED")) return std::strtoull(given, nullptr, 10);
    return static_cast<unsigned long long>(std::random_device{}());
  }();
  return value;
}

}  // namespace espalier::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  std::printf("ESPALIER_SEED=%llu\n", static_cast<unsigned long long>(espalier::testing::seed()));
  return RUN_ALL_TESTS();
}
