// prefix.h: what all runs of a program begin with.
#pragma once

#include <string>

#include "espalier/graph.h"

namespace espalier::lang {

// The constant text that every run begins with: what stands before the first placeholder, generation or fork. Roles are
// written as the format has them.
std::string constant_prefix(const Graph& graph, const ChatFormat& format);

}  // namespace espalier::lang
