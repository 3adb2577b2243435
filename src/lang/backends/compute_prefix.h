// compute_prefix.h: how a back end comes to have a text in its cache: a call that generates nothing.
// Threads: waits, as the reads of a state do (lang/execute/waiting.h).
// Fails:   what the back end answers.
#pragma once

#include <string>

#include "espalier/backend.h"

namespace espalier::lang {

Result<> compute_prefix(Backend& backend, std::string text);

}  // namespace espalier::lang
