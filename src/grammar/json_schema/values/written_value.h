// written_value.h: the value, or the string, that a piece of JSON ends with.
//
// Threads: pure functions. Fails: never; of what is no beginning of JSON some piece is given back.
#pragma once

#include <string>
#include <string_view>

namespace espalier::grammar {

// Of `[{"a": 1}, 2` it is `2`, of `[{"a": 1}` it is `{"a": 1}`. Requires: `json` begins with a value, and one ends
// where it ends.
std::string_view last_value(std::string_view json);

// With both quotes, also of what begins behind the first one. Requires: `json` ends with a string's last quote.
std::string last_string(std::string_view json);

}  // namespace espalier::grammar
