// golden_name.h: the name of a golden as GoogleTest wants the names of parameterised tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace espalier::testing {

inline constexpr auto golden_name = [](const auto& test) {
  std::string name = test.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
};

}  // namespace espalier::testing
