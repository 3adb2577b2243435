// measure.h: one run of one workload against one server, from its warm-up to its report.
// Units:   requests a second.
// Threads: one; calls block until the run is over.
// Fails:   what make_dataset() refuses, a warm-up that the server refuses, a cache that cannot be flushed. Calls that
//          fail in the run itself are in the report.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/serving/report.h"

namespace espalier::bench {

// Those of --dataset-path, each cut to --num-prompts items.
Result<std::vector<Workload>> read_workloads(const LoadOptions& options);
// The workloads that the options name: files, or one made up from `seed`.
Result<std::vector<Workload>> make_workloads(const LoadOptions& options, const Target& target, std::uint64_t seed);

struct RunSettings {
  double rate = std::numeric_limits<double>::infinity();
  std::uint64_t seed = 42;  // of arrival times and adapters
  std::string salt;         // before every prompt
};

struct Measurement {
  Report report;
  RunResult run;
};

Result<Measurement> measure(const Target& target, const LoadOptions& options, const Workload& workload,
                            const RunSettings& settings, const RunHooks& hooks);

}  // namespace espalier::bench
