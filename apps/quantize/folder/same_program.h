// same_program.h: whether two descriptions of a model compute the same.
// Threads: pure. Fails: never.
#pragma once

#include <optional>
#include <string>

#include "model/program/program.h"

namespace espalier::quantizer {

// What differs first, in words; none: nothing does. Names of tensors and values of vectors do not count.
std::optional<std::string> difference(const Program& a, const Program& b);

}  // namespace espalier::quantizer
