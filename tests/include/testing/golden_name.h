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

// The goldens of a kind ("models", "lora") in both places whose names are wanted.
template <class Wanted>
std::vector<std::string> goldens_named(Wanted wanted, const std::string& kind = "models") {
  std::set<std::string> names;
  for (const auto& folder : {shared("goldens/" + kind), data("goldens/" + kind)}) {
    std::error_code absent;
    for (const auto& entry : std::filesystem::directory_iterator(folder, absent))
      if (const std::string name = entry.path().filename(); wanted(name)) names.insert(name);
  }
  return {names.begin(), names.end()};
}

// LoRA adapters.
inline std::vector<std::string> lora_goldens() {
  return goldens_named([](const std::string&) { return true; }, "lora");
}

// Models of images and text.
inline std::vector<std::string> picture_goldens() {
  return goldens_named([](const std::string& name) { return name.starts_with("mm-"); });
}

// Text models: decoders that give logits.
inline std::vector<std::string> text_goldens() {
  return goldens_named([](const std::string& name) {
    const auto is = [&](const char* prefix) { return name.starts_with(prefix); };
    return !is("mm-") && !is("emb-") && !is("rerank-") && !is("reward-");
  });
}

}  // namespace espalier::testing
