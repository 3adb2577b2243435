// load_needs.h: reads what a program needs of its file: matrices packed for the kernels, tables, angles.
//
// Threads: one caller; the team packs. Fails: an Error that names the tensor, or for lack of memory.
#pragma once

#include <functional>
#include <memory>

#include "model/cpu/lower.h"

namespace espalier {

// Called with the matrices done and their number, on the loading thread.
using LoadProgress = std::function<void(int done, int total)>;

// What does not fit into memory goes into the file that is given back, where the weights allow one; else it is null.
Result<std::shared_ptr<PanelFile>> load_needs(const Program& program, const Weights& weights, Loaded& loaded,
                                              const LoadProgress& progress = {});

}  // namespace espalier
