// Data sets of given texts: ShareGPT's conversations, lines of one's own, lines of whole OpenAI requests.
#include <fmt/format.h>

#include <algorithm>

#include "base/json/json_fields.h"
#include "bench/dataset/prompt_maker.h"
#include "bench/workload/json_lines.h"

namespace espalier::bench {
namespace {

constexpr int kDefaultPrompts = 1000;

struct Turns {
  std::string question, answer;
};

// The first two turns of {"conversations": [{"value" | "content": ...}, ...]}; nullopt when there are fewer.
std::optional<Turns> first_turns(const Json& conversation) {
  const Json* turns = find_field(conversation, "conversations");
  if (!turns) turns = find_field(conversation, "conversation");
  if (!turns || !turns->is_array() || turns->size() < 2) return std::nullopt;
  const auto said = [&](std::size_t i) -> const Json* {
    const Json* value = find_field((*turns)[i], "value");
    if (!value) value = find_field((*turns)[i], "content");
    return value && value->is_string() ? value : nullptr;
  };
  if (!said(0) || !said(1)) return std::nullopt;
  return Turns{said(0)->get<std::string>(), said(1)->get<std::string>()};
}

// SGLang's filter: neither very short nor too long. False: left out.
bool fits(int prompt_tokens, int output_tokens, const DatasetOptions& o) {
  if (prompt_tokens < 2 || output_tokens < 2) return false;
  return !o.sharegpt_context_len || prompt_tokens + output_tokens <= *o.sharegpt_context_len;
}

void add_turns(const Turns& turns, const DatasetOptions& o, Workload& workload) {
  const int input = tokens_of(turns.question, o.tokenizer.get());
  const int output = o.sharegpt_output_len.value_or(tokens_of(turns.answer, o.tokenizer.get()));
  if (!fits(input, output, o)) return;
  workload.items.push_back(request_item(workload.items.size(), turns.question, input, output, o.ignore_eos));
}

Error needs_path(std::string_view name, std::string_view what) {
  return bad_request(
      fmt::format("--dataset-name {} needs --dataset-path: {}. Without a file use --dataset-name random", name, what),
      "dataset-path");
}

Workload empty_workload(const DatasetOptions& o) {
  Workload workload;
  workload.name = o.name;
  return workload;
}

template <class T>
void shuffle(std::vector<T>& items, std::uint64_t seed) {
  Random random(derived_seed(seed, 0x5f17));
  for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[random.below(i)]);
}

Result<Workload> not_empty(Workload workload, const DatasetOptions& o) {
  if (workload.items.empty())
    return bad_file(fmt::format("{}: holds no request that fits (two turns, --sharegpt-context-len)", o.path));
  return workload;
}

}  // namespace

Result<Workload> sharegpt_dataset(const DatasetOptions& o) {
  if (o.path.empty())
    return needs_path(o.name, "a ShareGPT file, a JSON list of {\"conversations\": [{\"value\"}, ...]}");
  ESP_TRY(const std::string text, read_text_file(o.path));
  auto list = parse_json(text, {.depth = 64, .values = 50'000'000});
  if (!list.ok()) return in_file(std::move(list).error(), o.path);
  if (!list->is_array()) return bad_file(fmt::format("{}: must be a JSON list of conversations", o.path));
  std::vector<Turns> all;
  for (const Json& conversation : *list)
    if (auto turns = first_turns(conversation)) all.push_back(std::move(*turns));
  shuffle(all, o.seed);
  Workload workload = empty_workload(o);
  const auto most = static_cast<std::size_t>(o.num_prompts.value_or(kDefaultPrompts));
  for (const Turns& turns : all) {
    if (workload.items.size() >= most) break;
    add_turns(turns, o, workload);
  }
  return not_empty(std::move(workload), o);
}

Result<Workload> custom_dataset(const DatasetOptions& o) {
  if (o.path.empty())
    return needs_path(o.name, "lines of {\"conversations\": [{\"content\"}, ...]} or {\"prompt\", \"output_tokens\"}");
  Workload workload = empty_workload(o);
  auto read = for_each_json_line(o.path, o.num_prompts, [&](const Json& line, std::size_t) -> Result<> {
    if (const auto turns = first_turns(line)) {
      add_turns(*turns, o, workload);
      return success();
    }
    ESP_TRY(std::string prompt, get_string(line, "prompt"));
    ESP_TRY(const auto tokens, find_integer(line, "output_tokens", {1, 10'000'000}));
    const int output = tokens ? static_cast<int>(*tokens) : o.sharegpt_output_len.value_or(256);
    const int input = tokens_of(prompt, o.tokenizer.get());
    workload.items.push_back(request_item(workload.items.size(), std::move(prompt), input, output, o.ignore_eos));
    return success();
  });
  if (!read.ok()) return std::move(read).error();
  return not_empty(std::move(workload), o);
}

Result<Workload> openai_dataset(const DatasetOptions& o) {
  if (o.path.empty()) return needs_path(o.name, "lines of whole requests, {\"messages\", \"max_tokens\", ...}");
  Workload workload = empty_workload(o);
  auto read = for_each_json_line(o.path, o.num_prompts, [&](const Json& line, std::size_t number) -> Result<> {
    ESP_CHECK(get_array(line, "messages"));
    ESP_TRY(const auto limit, find_integer(line, "max_tokens", {1, 10'000'000}));
    Item item = request_item(number, std::string(), 0, static_cast<int>(limit.value_or(256)), false);
    std::get<RequestWork>(item.work).call.verbatim = line;
    workload.items.push_back(std::move(item));
    return success();
  });
  if (!read.ok()) return std::move(read).error();
  return not_empty(std::move(workload), o);
}

}  // namespace espalier::bench
