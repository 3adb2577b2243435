#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "bench/dataset/prompt_maker.h"

namespace espalier::bench {
namespace {

constexpr int kDefaultPrompts = 1000;

struct Groups {
  int count, requests;  // groups, requests of each
  int prefix, suffix, output;
  bool shuffled;
};

Workload grouped(const DatasetOptions& o, const Groups& groups) {
  Workload workload;
  workload.name = o.name;
  workload.salted = false;
  Random random(o.seed);
  const PromptMaker maker(o);
  std::size_t number = 0;
  for (int group = 0; group < groups.count; ++group) {
    const Prompt prefix = maker.make(random, groups.prefix);
    for (int i = 0; i < groups.requests; ++i) {
      Prompt prompt = PromptMaker::joined(prefix, maker.make(random, groups.suffix));
      const int length = maker.length(prompt);
      workload.items.push_back(request_item(number++, std::move(prompt), length, groups.output, o.ignore_eos));
    }
  }
  if (groups.shuffled)
    for (std::size_t i = workload.items.size(); i > 1; --i)
      std::swap(workload.items[i - 1], workload.items[random.below(i)]);
  return workload;
}

}  // namespace

Result<Workload> random_dataset(const DatasetOptions& o) {
  if (o.random_range_ratio < 0 || o.random_range_ratio > 1)
    return bad_request("--random-range-ratio must be in 0..1", "random-range-ratio");
  Workload workload;
  workload.name = o.name;
  workload.salted = false;
  Random random(o.seed);
  const auto drawn = [&](int longest) {
    const auto least = static_cast<int>(longest * o.random_range_ratio);
    return static_cast<int>(random.between(std::max(least, 1), longest));
  };
  const PromptMaker maker(o);
  const std::optional<Prompt> prefix =
      o.random_prefix_len > 0 ? std::optional(maker.make(random, o.random_prefix_len)) : std::nullopt;
  const int count = o.num_prompts.value_or(kDefaultPrompts);
  for (int i = 0; i < count; ++i) {
    const int input = drawn(o.random_input_len), output = drawn(o.random_output_len);
    Prompt prompt = maker.make(random, input);
    if (prefix) prompt = PromptMaker::joined(*prefix, prompt);
    const int length = maker.length(prompt);
    workload.items.push_back(
        request_item(static_cast<std::size_t>(i), std::move(prompt), length, output, o.ignore_eos));
  }
  return workload;
}

Result<Workload> shared_prefix_dataset(const DatasetOptions& o) {
  return grouped(o, {o.gsp_num_groups, o.gsp_prompts_per_group, o.gsp_system_prompt_len, o.gsp_question_len,
                     o.gsp_output_len, !o.gsp_ordered});
}

Result<Workload> prefix_repetition_dataset(const DatasetOptions& o) {
  const int count = o.num_prompts.value_or(kDefaultPrompts), each = count / o.repetition_prefixes;
  if (each == 0)
    return bad_request(fmt::format("--num-prompts {} must be at least --prefix-repetition-num-prefixes {}", count,
                                   o.repetition_prefixes),
                       "num-prompts");
  return grouped(o, {o.repetition_prefixes, each, o.repetition_prefix_len, o.repetition_suffix_len,
                     o.repetition_output_len, true});
}

}  // namespace espalier::bench
