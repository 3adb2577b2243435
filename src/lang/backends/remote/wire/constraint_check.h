// constraint_check.h: whether a whole text is one that a constraint allows; for servers that cannot be held to it.
// Threads: a pure function, costly for large schemas.
// Fails:   as compiling a constraint does (espalier/grammar.h).
#pragma once

#include <string_view>

#include "espalier/grammar.h"

namespace espalier::lang {

// Of JSON kinds the text may be spaced in any way.
Result<bool> matches(const Constraint& constraint, std::string_view text);

}  // namespace espalier::lang
