// thread_priority.h: who goes first where more threads of the process have something to do than there are processors.
//
// A scheduler lets a thread run for milliseconds before it looks who else wants the processor, however little that
// thread should have of it. A step of a model waits as long for the member of its team that was there, and a token for
// the thread that is to send it. So threads say what they are.
// Threads: any, for itself, for good. Fails: never; where the system does not let it, it stays as it is.
// Why: docs/decisions/constraints.md.
#pragma once

#include <chrono>

namespace espalier {

// What it does takes microseconds and somebody waits for it: it goes before those that compute, and of two such the one
// with the shorter turns.
void shorten_thread_slices(std::chrono::microseconds turn);

// What it does can wait, what others do cannot (yield_to_model.h).
void lower_thread_priority();

}  // namespace espalier
