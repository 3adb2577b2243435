// argument_text.h: what a program says of an argument's value.
//
// Threads: pure functions. Fails: never.
#pragma once

#include <string>
#include <vector>

#include "espalier/json.h"

namespace espalier::lang {

// As Python's str() would write it: a text as it is.
std::string argument_text(const Json& value);
// The same of each entry of a list.
std::vector<std::string> entry_texts(const Json& list);

}  // namespace espalier::lang
