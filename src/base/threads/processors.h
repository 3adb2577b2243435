// processors.h: which processors this process may use, and on which of them to compute.
//
// A compute thread waits for the others after every operation, so all should be alike and none should share a core: by
// default one thread a performance core, and no more than a container's limit grants. Machines without a choice
// (fewer than four such cores) take what there is.
// Threads: any. Fails: never; what cannot be read restricts nothing.
// Source: linux/find_processors.h; on macOS sysctl(3)'s hw.perflevel0 (the performance cores) and hw.physicalcpu.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace espalier {

constexpr std::size_t kLeastCores = 4;  // of which a choice is made

// The processors of this process: those it may use, and those that one compute thread each should run on.
struct Processors {
  std::vector<int> allowed;    // that this process may run on, ascending
  std::vector<int> computing;  // of these, the ones for one compute thread each
  int granted = 0;             // how many at a time: computing.size(), or fewer where a control group limits their time
  std::string left_out;        // why not all: "8 efficiency cores, 16 second threads of a core"; empty if all
  std::vector<int> nodes;      // of memory that `computing` are near to
};

const Processors& own_processors();  // of this process, looked for at the first call

// Lets the calling thread run on these only; a refusal costs speed only. Empty: nothing happens. macOS lets nobody
// choose: there the thread gets the class of those that run on performance cores whenever one is free.
void keep_this_thread_on(std::span<const int> processors);

}  // namespace espalier
