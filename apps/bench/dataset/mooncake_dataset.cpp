// The Mooncake traces: arrival times, lengths, and for every block of the prompt an id, equal where contents are equal.
#include <fmt/format.h>

#include <algorithm>

#include "base/json/json_fields.h"
#include "bench/dataset/prompt_maker.h"
#include "bench/workload/json_lines.h"

namespace espalier::bench {
namespace {

constexpr int kBlockTokens = 512;

Result<Item> trace_item(const Json& line, std::size_t number, const PromptMaker& maker, const DatasetOptions& o) {
  ESP_TRY(const double timestamp_ms, get_number(line, "timestamp", {0, 1e12}));
  ESP_TRY(const auto input, get_integer(line, "input_length", {1, 10'000'000}));
  ESP_TRY(const auto output, get_integer(line, "output_length", {1, 10'000'000}));
  ESP_TRY(const Json* hashes, get_array(line, "hash_ids"));
  std::optional<Prompt> prompt;
  auto left = static_cast<int>(input);
  for (std::size_t i = 0; left > 0; ++i) {
    // Past the listed blocks the text is the request's own.
    std::int64_t block = -1 - static_cast<std::int64_t>(number);
    if (i < hashes->size()) {
      ESP_TRY(block, as_integer((*hashes)[i], fmt::format("hash_ids[{}]", i)));
    }
    Random random(derived_seed(o.seed, static_cast<std::uint64_t>(block) * 2 + (i < hashes->size() ? 0 : i)));
    Prompt more = maker.make(random, std::min(left, kBlockTokens));
    prompt = prompt ? PromptMaker::joined(*prompt, more) : std::move(more);
    left -= kBlockTokens;
  }
  const int length = maker.length(*prompt);
  Item item = request_item(number, std::move(*prompt), length, static_cast<int>(output), o.ignore_eos);
  item.arrival = timestamp_ms / 1000 * o.mooncake_slowdown_factor;
  return item;
}

}  // namespace

Result<Workload> mooncake_dataset(const DatasetOptions& o) {
  if (o.path.empty())
    return bad_request("--dataset-name mooncake needs --dataset-path: a trace, one JSON object a line", "dataset-path");
  Workload workload;
  workload.name = o.name;
  workload.salted = false;
  const PromptMaker maker(o);
  auto read = for_each_json_line(o.path, o.num_prompts, [&](const Json& line, std::size_t number) -> Result<> {
    ESP_TRY(Item item, trace_item(line, number, maker, o));
    workload.items.push_back(std::move(item));
    return success();
  });
  if (!read.ok()) return std::move(read).error();
  return workload;
}

}  // namespace espalier::bench
