// config_mutator.h: configurations with some values changed at random, for tests.
#pragma once

#include <cmath>
#include <cstdint>
#include <iterator>
#include <random>
#include <vector>

#include "base/json/json.h"

namespace espalier::testing {

// Changes values somewhere in a configuration.
class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : rng_(seed) {}

  void change(Json& root) {
    for (int i = 0; i < 1 + below(3); ++i) change_one(place(root));
  }
  int below(int n) { return static_cast<int>(rng_() % static_cast<unsigned>(n)); }

 private:
  // Some value of an object, at any depth.
  Json& place(Json& at) {
    if (!at.is_structured() || at.empty()) return at;
    auto child = at.begin();
    std::advance(child, below(static_cast<int>(at.size())));
    return child->is_structured() && below(3) != 0 ? place(*child) : *child;
  }

  void change_one(Json& value) {
    static const std::vector<Json> kOdd = {nullptr,
                                           0,
                                           -1,
                                           1,
                                           2,
                                           3,
                                           7,
                                           64,
                                           513,
                                           65537,
                                           1 << 20,
                                           2147483647,
                                           INT64_MIN,
                                           1e308,
                                           -0.5,
                                           1e-300,
                                           "",
                                           "abc",
                                           true,
                                           false,
                                           Json::array(),
                                           Json::object(),
                                           Json::array({0, -1, 3}),
                                           Json::array({nullptr}),
                                           Json::array({"full_attention"}),
                                           "silu",
                                           "gelu",
                                           "sliding_attention",
                                           "linear_attention"};
    const int how = below(4);
    if (how == 0 && value.is_number_integer() && std::abs(value.get<double>()) < 1e15)
      value = value.get<std::int64_t>() * (1 + below(4)) + below(5) - 2;
    else if (how == 1 && value.is_array() && !value.empty())
      value.erase(value.begin() + below(static_cast<int>(value.size())));
    else if (how == 2 && value.is_boolean())
      value = !value.get<bool>();
    else
      value = kOdd[static_cast<std::size_t>(below(static_cast<int>(kOdd.size())))];
  }

  std::mt19937_64 rng_;
};

}  // namespace espalier::testing
