// replay.h: a graph carried out: the program that was traced, without its function.
//
// The nodes are appended to states in their order, which is the order the function would have appended them in; so the
// text, the calls and the values are those of the interpreter.
// Threads: as Function::run. Fails: bad_request for a parameter without a value and for a graph that is not whole.
#pragma once

#include "lang/graph/graph.h"

namespace espalier::lang {

// The program as a function with the graph's parameters.
Result<Function> function_of(Graph graph);

}  // namespace espalier::lang
