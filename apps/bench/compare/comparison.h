// comparison.h: what alternating runs against several servers say: figures, and ratios of each server to the first.
//
// A ratio is taken within one repetition, where both had the same requests and nearly the same machine; ratios are then
// summed up over repetitions. One in which strangers used the processors is marked, and left out of the summary as long
// as others remain.
// Units:   as the figures'. Threads: values and pure functions. Fails: never.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/compare/machine_load.h"
#include "bench/serving/report.h"

namespace espalier::bench {

struct Visit {  // of one server in one repetition
  Report report;
  Conditions conditions;
  double cold_start_s = 0;  // from launch to the first completion; 0: it was running
};
// The report's figures and the processors' time that the server spent, where it is known.
std::vector<Figure> figures_of(const Visit& visit);

struct Repetition {
  std::vector<Visit> visits;  // by server
  bool noisy(double strangers_limit) const;
};

struct ComparedCase {  // one workload at one rate
  std::string name;
  double rate = 0;
  std::vector<Repetition> repetitions;
};

struct ComparedServer {
  std::string name, backend, model, command;  // command: empty when it was not launched
  std::uint64_t peak_resident_bytes = 0;      // 0: unknown
  std::vector<double> cold_starts_s;
};

struct Comparison {
  std::vector<ComparedServer> servers;
  std::vector<ComparedCase> cases;
  double strangers_limit = 0.1;
  bool interrupted = false;
};

struct Ratio {
  std::string figure, unit;
  bool more_is_better = false;
  double least = 0, median = 0, most = 0;
  std::size_t repetitions = 0;
  double base = 0, value = 0;  // medians of the figure itself: of the first server, of this one
};

// Of server `server` to the first, over the quiet repetitions, or over all when none is quiet.
std::vector<Ratio> ratios_of(const ComparedCase& compared, std::size_t server, double strangers_limit);

Json comparison_json(const Comparison& comparison);
std::string comparison_table(const Comparison& comparison);
std::string visit_line(const ComparedCase& compared, std::size_t repetition, const ComparedServer& server,
                       const Visit& visit, double strangers_limit);

}  // namespace espalier::bench
