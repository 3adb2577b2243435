#include "bench/dataset/dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace espalier::bench {
namespace {

struct Row {
  std::string_view name;
  Result<Workload> (*make)(const DatasetOptions&);
};

constexpr Row kRows[] = {
    {"random", random_dataset},
    {"random-ids", random_dataset},
    {"generated-shared-prefix", shared_prefix_dataset},
    {"sharegpt", sharegpt_dataset},
    {"custom", custom_dataset},
    {"openai", openai_dataset},
    {"mooncake", mooncake_dataset},
    {"prefix_repetition", prefix_repetition_dataset},
};

constexpr std::pair<std::string_view, std::string_view> kElsewhere[] = {
    {"image", "sends pictures, which this version does not"},
    {"mmmu", "sends pictures, which this version does not"},
    {"longbench_v2", "is downloaded by its own tool; turn it into --dataset-name custom (one JSON object a line)"},
    {"agentic-trace", "is a trace of its own form; turn it into --dataset-name workload (espalier-workload/1)"},
    {"speed-bench", "is downloaded by its own tool; turn it into --dataset-name custom (one JSON object a line)"},
};

}  // namespace

std::vector<std::string> dataset_names() {
  std::vector<std::string> names;
  for (const Row& row : kRows) names.emplace_back(row.name);
  names.emplace_back("workload");
  return names;
}

Result<Workload> make_dataset(const DatasetOptions& options) {
  for (const Row& row : kRows)
    if (row.name == options.name) return row.make(options);
  for (const auto& [name, why] : kElsewhere)
    if (name == options.name) return bad_request(fmt::format("--dataset-name {} {}", name, why), "dataset-name");
  return bad_request(
      fmt::format("--dataset-name {} is unknown; there are {}", options.name, fmt::join(dataset_names(), ", ")),
      "dataset-name");
}

}  // namespace espalier::bench
