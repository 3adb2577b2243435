// tracer.h: runs a function on placeholders and records what it does, as a graph.
//
// Nothing is called. Arguments without a value are recorded where they are appended; a function that looks at one, or
// at a variable, cannot be followed any further: the graph ends there and says why.
// Threads: the function's.
// Fails:   what the function throws by itself is thrown; bad_request for arguments that it has not.
#pragma once

#include "lang/graph/graph.h"

namespace espalier::lang {

// `known`: arguments that the graph has as constants. The others are its parameters.
Graph trace(const Function& function, const Arguments& known = {});

// The constant text that every run begins with: what stands before the first placeholder, generation or fork. Roles are
// written as the format has them.
std::string constant_prefix(const Graph& graph, const ChatFormat& format);

}  // namespace espalier::lang
