// golden_name.h: the name of a golden as GoogleTest wants the names of parameterised tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "testing/data.h"

namespace espalier::testing {

inline constexpr auto golden_name = [](const auto& test) {
  std::string name = test.param;
  std::replace_if(name.begin(), name.end(), [](char c) { return c == '-' || c == '.'; }, '_');
  return name;
};

// The text models among the goldens of both places: decoders that give logits.
inline std::vector<std::string> text_goldens() {
  std::set<std::string> names;
  for (const auto& folder : {shared("goldens/models"), data("goldens/models")}) {
    std::error_code absent;
    for (const auto& entry : std::filesystem::directory_iterator(folder, absent)) {
      const std::string name = entry.path().filename();
      const auto is = [&](const char* prefix) { return name.starts_with(prefix); };
      if (!is("mm-") && !is("emb-") && !is("rerank-") && !is("reward-")) names.insert(name);
    }
  }
  return {names.begin(), names.end()};
}

}  // namespace espalier::testing
