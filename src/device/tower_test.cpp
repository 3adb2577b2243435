// Towers on a device: in exact mode the CPU's bits, of every golden, alone and in a batch with other pictures.
#include <gtest/gtest.h>

#include <cmath>

#include "device/backend.h"
#include "device/tested_devices.h"
#include "model/towers/tower_golden.h"

namespace espalier::device {
namespace {

using testing::Pictures;
using testing::run;
using testing::TowerGolden;

class EachTowerOnADevice : public ::testing::TestWithParam<std::string> {};

TEST_P(EachTowerOnADevice, GivesTheBitsOfTheCpu) {
  TowerGolden g(GetParam());
  if (!g.spec) GTEST_SKIP() << "left out: " << g.refusal;
  if (!testing::takes_model(GetParam(), 1)) GTEST_SKIP() << "left out: few models with ThreadSanitizer";
  const auto cpu = g.tower(Activations::f32);
  for (const Kind kind : testing::device_kinds()) {
    const auto device = Device::open(kind).value();
    DeviceBackend backend(*device);
    const auto there = g.tower(Activations::f32, &backend);
    ASSERT_TRUE(cpu && there);
    ASSERT_EQ(there->on_cpu_because(), "");
    for (const auto& c : g.json["cases"]) {
      const Pictures pictures = g.pictures(c["name"]);
      if (pictures.pictures.empty()) continue;
      const auto want = run(*cpu, pictures.pictures), got = run(*there, pictures.pictures);
      ASSERT_EQ(got.size(), want.size());
      for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_EQ(got[i].outputs, want[i].outputs) << c["name"] << ", picture " << i;
        EXPECT_EQ(got[i].rows, want[i].rows);
        if (got.size() < 2) continue;
        EXPECT_EQ(run(*there, {&pictures.pictures[i], 1})[0].outputs, want[i].outputs) << "alone";
      }
    }
  }
}

double root_mean_square(std::span<const float> values, std::span<const float> minus = {}) {
  double squares = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    squares += std::pow(static_cast<double>(values[i]) - (minus.empty() ? 0.0 : static_cast<double>(minus[i])), 2);
  return std::sqrt(squares / static_cast<double>(values.size()));
}

TEST_P(EachTowerOnADevice, StaysNearInDefaultMode) {
  TowerGolden g(GetParam());
  if (!g.spec) GTEST_SKIP() << "left out: " << g.refusal;
  if (!testing::takes_model(GetParam(), 1)) GTEST_SKIP() << "left out: few models with ThreadSanitizer";
  const Pictures pictures = g.pictures("one-image");
  if (pictures.pictures.empty()) GTEST_SKIP() << "no single picture";
  const auto want = run(*g.tower(Activations::f32), pictures.pictures);
  for (const Kind kind : testing::device_kinds()) {
    const auto device = Device::open(kind).value();
    DeviceBackend backend(*device);
    const auto got = run(*g.tower(Activations::int8, &backend), pictures.pictures);
    for (std::size_t i = 0; i < want[0].outputs.size(); ++i)
      EXPECT_LT(root_mean_square(got[0].outputs[i], want[0].outputs[i]), 0.1 * root_mean_square(want[0].outputs[i]));
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, EachTowerOnADevice, ::testing::ValuesIn(testing::picture_goldens()),
                         testing::golden_name);

}  // namespace
}  // namespace espalier::device
