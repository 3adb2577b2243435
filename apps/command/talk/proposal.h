// proposal.h: the model of `espalier run` when a person names none: what is here already, what could be fetched, how long
// that takes, and which is the largest that fits the free memory.
//
// Threads: one. Fails: bad_request where nobody can be asked (no terminal) or nothing was chosen, with the same list.
#pragma once

#include <string>

#include "espalier/error.h"

namespace espalier::command {

Result<std::string> ask_for_model();

}  // namespace espalier::command
