// Any bytes as patterns and a text: what compiles finds the same in the text however it is cut, and a refusal names its
// field.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "grammar/regex/stop_regex.h"
#include "text/stream/stop_matcher.h"

namespace {

using namespace espalier;

struct Told {
  std::string text;
  std::optional<int> matched;
  bool operator==(const Told&) const = default;
};

Told told(const Stops& stops, std::string_view text, std::size_t step) {
  StopMatcher matcher(stops);
  std::string all;
  for (std::size_t at = 0; at < text.size(); at += step) all += matcher.feed(text.substr(at, step));
  all += matcher.finish();
  return {all, matcher.matched()};
}

}  // namespace

// Lines: the first few are patterns, the last is the text.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view input(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> patterns;
  while (patterns.size() < 4) {
    const std::size_t newline = input.find('\n');
    if (newline == std::string_view::npos) break;
    if (newline > 0) patterns.emplace_back(input.substr(0, std::min<std::size_t>(newline, 256)));
    input.remove_prefix(newline + 1);
  }
  const auto compiled = grammar::compile_stop_regex(patterns);
  if (!compiled.ok()) {
    if (compiled.error().field != "stop_regex") std::abort();
    return 0;
  }
  const std::string_view text = input.substr(0, 10'000);
  const Stops stops{nullptr, *compiled};
  const Told whole = told(stops, text, std::max<std::size_t>(1, text.size()));
  if (!text.starts_with(whole.text)) std::abort();
  for (const std::size_t step : {1, 3}) {
    if (told(stops, text, step) != whole) std::abort();
  }
  return 0;
}
