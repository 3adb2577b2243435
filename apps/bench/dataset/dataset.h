// dataset.h: the requests of `--dataset-name`, under the names and with the meaning they have in SGLang's tool.
//
// Random prompts are token ids wherever the server takes them, so that lengths are exact; else words, about a token
// each. The seed decides every request.
// Units:   lengths in tokens; without a tokenizer the lengths of given texts are estimated at four bytes a token.
// Threads: pure functions.
// Fails:   bad_request naming the flag; not_found or bad_file naming file and line.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/workload/workload.h"
#include "espalier/error.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier::bench {

struct DatasetOptions {
  std::string name = "sharegpt";
  std::string path;  // of one file
  std::optional<int> num_prompts;
  std::uint64_t seed = 42;
  bool ignore_eos = true;
  bool token_ids = true;                       // of made-up prompts: ids, or words
  std::optional<int> vocabulary;               // ids are below it
  std::shared_ptr<const Tokenizer> tokenizer;  // null: none

  int random_input_len = 1024, random_output_len = 1024;
  int random_prefix_len = 0;      // tokens before each of these prompts, the same for all
  double random_range_ratio = 0;  // lengths are drawn evenly from ratio x length to length

  std::optional<int> sharegpt_output_len, sharegpt_context_len;

  int gsp_num_groups = 64, gsp_prompts_per_group = 16;
  int gsp_system_prompt_len = 2048, gsp_question_len = 128, gsp_output_len = 256;
  bool gsp_ordered = false;

  int repetition_prefixes = 10;  // vLLM's data set: all requests in equal parts, each with one of the prefixes
  int repetition_prefix_len = 256, repetition_suffix_len = 256, repetition_output_len = 128;

  double mooncake_slowdown_factor = 1;
};

Result<Workload> make_dataset(const DatasetOptions& options);
std::vector<std::string> dataset_names();  // those that can be made

// Private to bench/dataset.
Result<Workload> random_dataset(const DatasetOptions& options);
Result<Workload> shared_prefix_dataset(const DatasetOptions& options);
Result<Workload> prefix_repetition_dataset(const DatasetOptions& options);
Result<Workload> sharegpt_dataset(const DatasetOptions& options);
Result<Workload> custom_dataset(const DatasetOptions& options);
Result<Workload> openai_dataset(const DatasetOptions& options);
Result<Workload> mooncake_dataset(const DatasetOptions& options);

}  // namespace espalier::bench
