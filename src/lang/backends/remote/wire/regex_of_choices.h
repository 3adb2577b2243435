// regex_of_choices.h: some strings as one regular expression, for servers that know no other way.
#pragma once

#include <string>
#include <string_view>

#include "espalier/json.h"

namespace espalier::lang {

// Requires: a list of strings.
inline std::string regex_of_choices(const Json& choices) {
  constexpr std::string_view special = R"(\.^$|?*+()[]{}/-)";
  std::string regex = "(";
  for (const Json& choice : choices) {
    if (regex.size() > 1) regex += '|';
    for (const char c : choice.get_ref<const std::string&>()) {
      if (special.find(c) != std::string_view::npos) regex += '\\';
      regex += c;
    }
  }
  return regex + ")";
}

}  // namespace espalier::lang
