// json_bench: MB/s of parse_json beside the library's own parser, on the kinds of documents that reach a server.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "base/json/json.h"

namespace {

using espalier::Json;

std::string repeated(std::string text, const std::string& piece, std::size_t bytes, const std::string& end) {
  while (text.size() < bytes) text += piece;
  return text + end;
}

std::string numbers(std::size_t bytes, double scale) {
  std::string text = "[";
  for (int i = 0; text.size() < bytes; ++i) text += fmt::format("{},", (i * 7919 % 151936) * scale);
  return text + "0]";
}

std::string vocabulary(std::size_t bytes) {
  std::string text = "{";
  for (int i = 0; text.size() < bytes; ++i) text += fmt::format("\"\\u0120tok{}\":{},", i * 7919 % 1'000'003, i);
  return text + "\"last\":0}";
}

template <class Parse>
double megabytes_per_second(const std::string& text, Parse&& parse) {
  double best = 0;
  for (int round = 0; round < 3; ++round) {
    const auto start = std::chrono::steady_clock::now();
    parse(text);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    best = std::max(best, static_cast<double>(text.size()) / taken.count() / 1e6);
  }
  return best;
}

void report(const char* what, const std::string& text) {
  const espalier::JsonLimits limits{.values = 100'000'000};
  bool accepted = true;
  const double ours =
      megabytes_per_second(text, [&](const auto& t) { accepted = espalier::parse_json(t, limits).ok(); });
  const double theirs = megabytes_per_second(text, [](const auto& t) { return nlohmann::json::parse(t).size(); });
  fmt::print("{:<34} {:>5.1f} MB {:>8.0f} MB/s   library {:>5.0f} MB/s{}\n", what,
             static_cast<double>(text.size()) / 1e6, ours, theirs, accepted ? "" : "   REFUSED");
}

}  // namespace

int main() {
  constexpr std::size_t size = 32u << 20;
  report("image in base64", repeated("{\"image\":\"", "iVBORw0KGgoAAAANSUhEUgAAAAE", size, "\"}"));
  report("chat messages", repeated("[",
                                   "{\"role\":\"user\",\"content\":\"What is the capital of France? Tell me about it "
                                   "in a few words.\\nThanks\"},",
                                   size, "0]"));
  report("text in Chinese", repeated("[\"", "\u4f60\u597d\uff0c\u4e16\u754c\u3002 ", size, "\"]"));
  report("token ids", numbers(size, 1));
  report("floats", numbers(size, 0.00137));
  report("vocabulary of 1M tokens", vocabulary(20u << 20));
  report("safetensors header",
         repeated("[",
                  "{\"model.layers.17.mlp.down_proj.weight\":{\"dtype\":\"BF16\",\"shape\":[4096,14336],"
                  "\"data_offsets\":[1234567890,1352008402]}},",
                  size, "0]"));
  report("smallest containers", repeated("[", "[],{},", 8u << 20, "0]"));
}
