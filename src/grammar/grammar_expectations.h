// grammar_expectations.h: what tests say of a constraint: texts that it accepts and texts that it refuses.
//
// Tokens are the 256 bytes. Threads: tests'. Fails: as failures of the test that asks.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "grammar/grammar.h"

namespace espalier::grammar {

inline std::shared_ptr<Vocabulary> bytes_only() {
  std::vector<std::string> tokens;
  for (unsigned byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  return std::make_shared<Vocabulary>(std::move(tokens));
}

// A constraint with texts that it must accept and texts that it must refuse.
struct Verdicts {
  std::string constraint;
  std::vector<std::string> accepted, refused;
};

// Of time there is enough on a busy machine and with sanitizers, too.
inline GrammarLimits patient() {
  GrammarLimits limits;
  limits.compile_time = limits.step_time = std::chrono::seconds(60);
  return limits;
}

inline void expect(Constraint::Kind kind, const Verdicts& verdicts) {
  const auto grammar = Grammar::compile({kind, verdicts.constraint}, bytes_only(), patient());
  ASSERT_TRUE(grammar.ok()) << verdicts.constraint << ": " << grammar.error().message;
  const auto reads = [&](const std::string& text) {
    const auto state = (*grammar)->read((*grammar)->start(), text);
    return state.ok() && *state != Automaton::dead && (*grammar)->complete(*state);
  };
  for (const std::string& text : verdicts.accepted) EXPECT_TRUE(reads(text)) << verdicts.constraint << " <- " << text;
  for (const std::string& text : verdicts.refused) EXPECT_FALSE(reads(text)) << verdicts.constraint << " <- " << text;
}

inline Error refused(Constraint::Kind kind, const std::string& text) {
  const auto grammar = Grammar::compile({kind, text}, bytes_only(), patient());
  EXPECT_FALSE(grammar.ok()) << text;
  return grammar.ok() ? Error{} : grammar.error();
}

}  // namespace espalier::grammar
