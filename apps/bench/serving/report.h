// report.h: what one run measured, in the words of SGLang's and vLLM's tools.
//
// TPOT is a request's time after its first token, divided by its other tokens; ITL is the time between a token and the
// next, over all requests. Cached tokens are counted over the calls for which the server told them.
// Units:   milliseconds in the summaries, seconds for durations, tokens.
// Threads: values and pure functions. Fails: never.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "bench/load/statistics.h"
#include "bench/serving/load_options.h"
#include "bench/serving/target.h"
#include "bench/workload/conductor.h"

namespace espalier::bench {

struct Report {
  std::string backend, model, dataset, workload;  // workload: the file's own name, else the data set's
  bool programs = false;
  double request_rate = std::numeric_limits<double>::infinity();
  std::optional<int> max_concurrency;

  double duration = 0;
  int items = 0, items_ended = 0;  // programs, or requests
  int completed = 0, failed = 0;   // calls
  std::string first_error;
  bool interrupted = false;
  std::vector<std::string> notes;  // what was not done as asked

  std::int64_t input_tokens = 0, output_tokens = 0, retokenized_output_tokens = 0;
  std::optional<std::int64_t> cached_tokens;
  std::int64_t cached_of_tokens = 0;  // prompt tokens of the calls that told their cached ones
  std::optional<double> ideal_hit_rate;
  int scorings = 0, unmatched_selects = 0;
  Accuracy accuracy;

  Summary e2e, ttft, tpot, itl;  // ms
  double concurrency = 0;        // mean
  int most_concurrent = 0;
  double most_output_tokens_per_s = 0;
  std::optional<double> accept_length;
  std::optional<double> goodput;  // requests a second within all limits

  double per_second(double amount) const { return duration > 0 ? amount / duration : 0; }
  std::optional<double> hit_rate() const;  // 0..1
};

Report make_report(const Workload& workload, const RunResult& run, const Target& target, const LoadOptions& options,
                   double rate);

// A figure that a run gives, for comparisons and plots.
struct Figure {
  std::string name, unit;
  double value = 0;
  bool more_is_better = false;
};
std::vector<Figure> figures_of(const Report& report);

// Share of prompt tokens that a cache without limits would have found, calls taken one after another as they were
// sent; the last token of a prompt is always computed. nullopt when the server told no ids.
std::optional<double> ideal_hit_rate(const Journal& journal);

// One object with the keys of SGLang's bench_serving, ours (workload figures) after them.
Json report_json(const Report& report, const LoadOptions& options, const Target& target, const std::string& tag);
// Keys that --output-details adds to it.
void add_details(Json& result, const RunResult& run);
// One object with the keys of vLLM's `bench serve --save-result`.
Json vllm_json(const Report& report, const LoadOptions& options, const RunResult* details);

std::string report_table(const Report& report);
std::string sweep_table(const std::vector<Report>& reports);     // one line a rate
std::string workload_table(const std::vector<Report>& reports);  // one line a workload

}  // namespace espalier::bench
