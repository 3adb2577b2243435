// Encoding in MB/s and tokens/s, incremental detokenisation in microseconds a token, opening in milliseconds; all in
// the processor time of one thread, so that other work on the machine disturbs little. usage: tokenizer_bench FOLDER...
// (each with a tokenizer.json); by default the goldens beside the checkout
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/threads/thread_time.h"
#include "text/stream/detokenizer.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/tokenizer_impl.h"

namespace {

using espalier::Tokenizer;
double thread_seconds() {
  return std::chrono::duration<double>(espalier::thread_time()).count();
}

double seconds_of(auto&& work) {
  const double begin = thread_seconds();
  work();
  return thread_seconds() - begin;
}

std::string repeated(std::string_view text, std::size_t bytes) {
  std::string all;
  while (all.size() < bytes) all.append(text);
  return all;
}

struct Sample {
  const char* name;
  std::string text;
};

std::vector<Sample> samples() {
  const char* english =
      "The ferry leaves at noon, so we'd better walk quickly; it won't wait for anyone's luggage. In 1987 the harbour "
      "was "
      "rebuilt with stone from three quarries, and since then no winter storm has reached the lower streets.\n";
  const char* code =
      "static int find(const std::vector<Item>& items, std::string_view name) {\n  for (size_t i = 0; i < "
      "items.size(); ++i) {\n"
      "    if (items[i].name == name) return static_cast<int>(i);  // first match\n  }\n  return -1;\n}\n\n";
  const char* chinese =
      "昨天下午我们在湖边散步，看见了三只白鹭。价格是123元，比上个月贵了一点，但是大家都觉得很值得。\n";
  return {{"english", repeated(english, 2 << 20)},
          {"code", repeated(code, 2 << 20)},
          {"chinese", repeated(chinese, 2 << 20)},
          {"spaces", std::string(2 << 20, ' ')},
          {"one word", std::string(2 << 20, 'a')}};
}

void measure(const std::filesystem::path& folder, const std::vector<Sample>& all) {
  std::shared_ptr<const Tokenizer> tokenizer;
  const double opening = seconds_of([&] {
    if (auto opened = Tokenizer::open_hf(folder); opened.ok()) tokenizer = *opened;
  });
  if (!tokenizer) {
    fmt::print("{}: cannot be opened\n", folder.string());
    return;
  }
  fmt::print("{}: opened in {:.0f} ms, {} tokens\n", folder.filename().string(), opening * 1e3, tokenizer->size());
  for (const Sample& sample : all) {
    std::vector<espalier::TokenId> ids;
    double best = 1e9;
    for (int run = 0; run < 3; ++run) best = std::min(best, seconds_of([&] { ids = *tokenizer->encode(sample.text); }));
    espalier::IncrementalDetokenizer stream(*tokenizer);
    std::size_t shown = 0;
    const double streaming = seconds_of([&] {
      for (const auto id : ids) shown += stream.push(id).size();
      shown += stream.finish().size();
    });
    fmt::print("  {:10} {:7.1f} MB/s {:7.2f} Mtoken/s   detokenise {:.3f} us/token ({} bytes)\n", sample.name,
               static_cast<double>(sample.text.size()) / best / 1e6, static_cast<double>(ids.size()) / best / 1e6,
               streaming * 1e6 / static_cast<double>(ids.size()), shown);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::filesystem::path> folders(argv + 1, argv + argc);
  if (folders.empty())
    for (const char* name : {"qwen3", "deepseek_v3", "sp-bpe-llama2-like", "unigram-t5-like"})
      folders.push_back(std::filesystem::path("../shared/goldens/tokenizers") / name);
  const auto all = samples();
  for (const auto& folder : folders) measure(folder, all);
}
