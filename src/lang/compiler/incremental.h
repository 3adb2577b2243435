// incremental.h: a function that looks at values, compiled from one look to the next.
//
// The function runs on states that record what it does. When it looks at something (a variable, a text), what was
// recorded since the last look is a piece of a graph: passes change it, all of it is begun, and the look waits for the
// value. So nothing is called singly that could be called together, and a join waits for nobody.
// Threads: the function's; its states may be looked at from others.
// Fails:   as the function's states do.
#pragma once

#include "espalier/compiler.h"

namespace espalier::lang {

// Runs the function so on the state. What it throws is thrown, when all that it did before has begun.
void compile_incrementally(const Function& function, State& s, const Arguments& arguments,
                           const CompileOptions& options);

}  // namespace espalier::lang
