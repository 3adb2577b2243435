// tuning.h: how a batch of a program is carried out quickest, found by measuring and kept in a folder for next time.
//
// <folder>/<program's name>.json, version 2, holds an entry for each form of the program and model that was measured:
// the graph as it was traced, the model, the settings, and what was measured. A file of an earlier version counts as
// none, and is replaced.
// Threads: any; two processes that write at once keep one of the two files, whole.
// Fails:   bad_file, field tuning_folder, for a file that is not of this form or larger than 16 MiB, naming the place:
//          it is not overwritten. save: not_found for a folder that cannot be written. What the measuring of a batch
//          fails with.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "espalier/compiler.h"

namespace espalier::lang {

// What a measurement holds for: program, graph and model, and the folder it is kept in.
struct TuningKey {
  std::string folder;   // empty: nothing is kept
  std::string program;  // its name
  Json graph;           // as traced
  std::string model;    // as the back end tells it
};

Result<std::optional<BatchSettings>> load_tuning(const TuningKey& key);
Result<> save_tuning(const TuningKey& key, const BatchSettings& best, const std::vector<MeasuredSettings>& measured);

// What of the options applies to a program.
struct Tunable {
  bool groups = true, ways = true;
};
// The quickest settings of a batch, and all that were measured.
struct Tuning {
  BatchSettings best;
  std::vector<MeasuredSettings> measured;
};
// `measure` runs a batch; the seconds it took.
Result<Tuning> find_quickest(const TuneOptions& options, const Tunable& tunable,
                             const std::function<Result<double>(const BatchSettings&)>& measure);

}  // namespace espalier::lang
