// Any bytes as a constraint of any kind (the first byte picks it): it compiles or is refused with an error of its
// kinds, and the masks of what compiles are exactly the tokens that can be read, step by step.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "grammar/grammar.h"

namespace {

using namespace espalier;
using namespace espalier::grammar;

void require(bool condition) {
  if (!condition) std::abort();
}

std::shared_ptr<Vocabulary> vocabulary() {
  static const auto shared = [] {
    std::vector<std::string> tokens{"",   "{\"",  "\":", "\",\"", "\"}", "abc", "a1", " \"", "é",  "日本", "\xe6\x97",
                                    "][", "true", "12",  "0.5",   "\\n", "()",  "  ", "<|",  "x]", "\\u00"};
    for (unsigned byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
    return std::make_shared<Vocabulary>(std::move(tokens));
  }();
  return shared;
}

bool is_known(const Error& error) {
  using Kind = Error::Kind;
  return error.kind == Kind::bad_request || error.kind == Kind::unsupported || error.kind == Kind::too_large;
}

void walk(Grammar& grammar, std::string_view choices) {
  State state = grammar.start();
  for (std::size_t step = 0; step < 8; ++step) {
    const auto mask = grammar.mask(state);
    if (!mask.ok()) return require(is_known(mask.error()));
    std::vector<TokenId> allowed;
    for (TokenId token = 0; token < static_cast<TokenId>(grammar.vocabulary().size()); ++token) {
      const bool set = (((**mask)[static_cast<std::size_t>(token) / 32] >> (token % 32)) & 1) != 0;
      const auto next = grammar.read(state, token);
      if (!next.ok()) return require(is_known(next.error()));
      require(set == (!grammar.vocabulary().text(token).empty() && *next != Automaton::dead));
      if (set) allowed.push_back(token);
    }
    if (allowed.empty()) return;
    const auto choice = static_cast<unsigned char>(choices.empty() ? 0 : choices[step % choices.size()]);
    state = *grammar.read(state, allowed[choice % allowed.size()]);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto kind = static_cast<Constraint::Kind>(1 + data[0] % 7);
  GrammarLimits limits;
  limits.nodes = 100'000;
  limits.states = 50'000;
  limits.compile_time = limits.step_time = std::chrono::milliseconds(200);
  const auto closed = static_cast<Constraint::Closed>(data[0] / 16 % 3);
  const auto grammar = Grammar::compile({kind, std::string(text), (data[0] & 128) != 0, closed}, vocabulary(), limits);
  if (!grammar.ok()) {
    require(is_known(grammar.error()));
    return 0;
  }
  walk(**grammar, text);
  (void)(*grammar)->closing((*grammar)->start());
  return 0;
}
