// prefix.h: what all runs of a program begin with, and how a back end comes to have it in its cache.
// Threads: compute_prefix() waits, as the reads of a state do (lang/waiting.h).
// Fails:   compute_prefix(): what the back end answers.
#pragma once

#include <string>

#include "espalier/graph.h"

namespace espalier::lang {

// The constant text that every run begins with: what stands before the first placeholder, generation or fork. Roles are
// written as the format has them.
std::string constant_prefix(const Graph& graph, const ChatFormat& format);

// A call that generates nothing.
Result<> compute_prefix(Backend& backend, std::string text);

}  // namespace espalier::lang
