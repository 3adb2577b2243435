// load_options.h: what is sent and how, as flags of `bench serving` and `bench compare`: the names, meanings and
// defaults of SGLang's bench_serving, with vLLM's where SGLang has none.
// Threads: values. Fails: check() names the flag.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/dataset/dataset.h"
#include "bench/load/arrivals.h"
#include "bench/load/caller.h"
#include "espalier/error.h"

namespace espalier::bench {

struct LoadOptions {
  DatasetOptions dataset;
  std::vector<std::string> dataset_paths;  // several only of workload files; a folder stands for all in it
  std::string workload_size = "any";       // of a folder's files: small, full, any
  std::string prompt_form = "auto";
  std::string tokenizer_path;
  bool tokenize_prompt = false;

  std::vector<std::string> request_rates = {"inf"};
  double burstiness = 1;
  std::optional<int> max_concurrency;
  std::string ramp_up_strategy;
  std::optional<double> ramp_up_start_rps, ramp_up_end_rps;
  bool use_arrivals = false;

  double temperature = 0;
  std::optional<double> top_p, min_p, frequency_penalty, presence_penalty, repetition_penalty;
  std::optional<int> top_k;
  bool disable_stream = false, disable_ignore_eos = false;
  std::string extra_request_body;
  bool return_logprob = false, apply_chat_template = false;
  std::vector<std::string> lora_names;
  SelectMethod select = SelectMethod::automatic;
  std::string constraints = "auto";
  int warmup_requests = 1;
  bool flush_cache = false;
  bool fresh_connections = false;
  bool report_ideal = false;
  int timeout_s = 6 * 3600;
  std::vector<std::string> goodput;   // "ttft:200"
  std::vector<std::string> metadata;  // "name=value"
  std::vector<double> percentiles;    // of latencies, further ones

  // Derived by check().
  std::vector<double> rates;  // of request_rates
  std::optional<Ramp> ramp;   // of the three flags
  Json sampling;              // of the flags from top_p to top_k; null: none given
  std::map<std::string, std::string> metadata_values;
  Json extra_body;                               // of extra_request_body
  std::map<std::string, double> goodput_limits;  // milliseconds by "ttft", "tpot", "e2el"
};

void add_load_flags(CLI::App& app, LoadOptions& options);  // the two that follow, and what requests look like
void add_dataset_flags(CLI::App& app, LoadOptions& options);
void add_pace_flags(CLI::App& app, LoadOptions& options);

// Checks what flags alone can tell and fills the derived fields.
Result<> check(LoadOptions& options);

}  // namespace espalier::bench
