// tuning.h: what measuring found out about programs, kept in a folder for next time.
//
// <folder>/<program's name>.json holds an entry for each form of the program and model that was measured: the graph as
// it was traced, the model, and how many runs under way at once were quickest.
// Threads: any; two processes that write at once keep one of the two files, whole.
// Fails:   load: none; a file that cannot be read or understood counts as none. save: io... as its Error says.
#pragma once

#include <optional>
#include <string>

#include "espalier/compiler.h"

namespace espalier::lang {

struct TuningKey {
  std::string folder;   // empty: nothing is kept
  std::string program;  // its name
  Json graph;           // as traced
  std::string model;    // as the back end tells it
};

std::optional<int> load_tuning(const TuningKey& key);
Result<> save_tuning(const TuningKey& key, int runs, const std::vector<MeasuredRuns>& measured);

}  // namespace espalier::lang
