// batch.h: many runs of a program, their results in order.
//
// A few threads run the functions, one at a time each; what a function has queued goes on without a thread, so the
// number of threads bounds the functions that wait for a value and not the calls under way.
// Threads: `begin` runs on the batch's threads, `each` and the progress on the caller's.
// Fails:   what `begin` throws for the first item that fails is thrown here, after the others that had begun ended.
#pragma once

#include <cstddef>
#include <functional>

#include "espalier/program.h"

namespace espalier::lang {

inline constexpr std::size_t kAhead = 200;  // items that are begun before the first of them was taken

// Calls each(i, state) for every item in order, when its state has no more to do.
void run_batch(std::size_t items, const BatchOptions& options, std::size_t ahead,
               const std::function<State(std::size_t)>& begin, const std::function<void(std::size_t, State)>& each);

}  // namespace espalier::lang
