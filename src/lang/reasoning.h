// reasoning.h: what a model thought, and what it answered.
//
// Each family of models marks its thinking with words of its own; some begin inside it, so that only its end is marked.
// Text without an end mark behind a beginning is all thinking. Threads: pure functions.
// Fails: bad_request naming the known model types.
#pragma once

#include <string>
#include <string_view>

#include "espalier/error.h"

namespace espalier::lang {

struct Reasoned {
  std::string thinking, answer;  // both without blanks around them
};

Result<> check_reasoning_type(std::string_view model_type);
Result<Reasoned> split_reasoning(std::string_view text, std::string_view model_type);

}  // namespace espalier::lang
