// Streams cut anywhere: detokenizing piece by piece gives the whole text, stop strings are found as in the whole text.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "text/stream/detokenizer.h"
#include "text/stream/stop_matcher.h"
#include "text/tokenizer/small_tokenizers.h"

namespace {

using namespace espalier;

bool has_broken_run(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::string run;
  for (const TokenId id : ids) {
    if (tokenizer.is_byte(id)) {
      run += tokenizer.token_bytes(id);
    } else if (tokenizer.contains(id)) {
      if (!is_utf8(run)) return true;
      run.clear();
    }
  }
  return !is_utf8(run);
}

void detokenize(const Tokenizer& tokenizer, std::string_view bytes) {
  std::vector<TokenId> ids;
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2)
    ids.push_back(static_cast<TokenId>(static_cast<unsigned char>(bytes[i]) +
                                       256 * (static_cast<unsigned char>(bytes[i + 1]) % 2)) -
                  1);
  for (const bool skip : {false, true}) {
    IncrementalDetokenizer stream(tokenizer, {.skip_special = skip});
    std::string all;
    for (const TokenId id : ids) {
      const std::string piece = stream.push(id);
      if (!is_utf8(piece)) std::abort();
      all += piece;
    }
    all += stream.finish();
    if (!is_utf8(all)) std::abort();
    if (!has_broken_run(tokenizer, ids) && all != tokenizer.decode(ids, {.skip_special = skip})) std::abort();
  }
}

// The match that ends first, the longest of those; without an automaton.
std::string by_search(const std::string& text, const std::vector<std::string>& stops, std::optional<int>& matched) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    for (std::size_t i = 0; i < stops.size(); ++i) {
      if (!std::string_view(text).substr(0, end).ends_with(stops[i])) continue;
      if (!matched || stops[i].size() > stops[static_cast<std::size_t>(*matched)].size()) matched = static_cast<int>(i);
    }
    if (matched) return text.substr(0, end - stops[static_cast<std::size_t>(*matched)].size());
  }
  return text;
}

// Lines: the first few are stop strings, the last is the text; the bytes of the lines say where it is cut.
void match(std::string_view input) {
  std::vector<std::string> stops;
  while (stops.size() < 8) {
    const std::size_t newline = input.find('\n');
    if (newline == std::string_view::npos) break;
    if (newline > 0) stops.emplace_back(input.substr(0, newline));
    input.remove_prefix(newline + 1);
  }
  const std::string text(input.substr(0, 500));
  const auto compiled = StopStrings::make(stops);
  if (!compiled.ok()) std::abort();
  StopMatcher matcher({*compiled, {}});
  std::string all;
  for (std::size_t at = 0, i = 0; at < text.size(); ++i) {
    const std::size_t size = 1 + static_cast<unsigned char>(text[i % text.size()]) % 7;
    all += matcher.feed(std::string_view(text).substr(at, size));
    at += size;
  }
  all += matcher.finish();
  std::optional<int> expected;
  if (all != by_search(text, stops, expected) || matcher.matched() != expected) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const testing::Pair bytes = testing::byte_level(), characters = testing::character_level();
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  detokenize(*bytes.ours, input);
  detokenize(*characters.ours, input);
  match(input);
  return 0;
}
