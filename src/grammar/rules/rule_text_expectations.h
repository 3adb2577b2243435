// rule_text_expectations.h: what the tests of both dialects of rule_text.h ask of a grammar.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "grammar/rules/earley_recogniser.h"
#include "grammar/rules/rule_cursor.h"
#include "grammar/rules/rule_text.h"

namespace espalier::testing {

inline Result<grammar::RuleText> parsed(grammar::RuleDialect dialect, std::string_view text,
                                        const grammar::RuleTextLimits& limits = {}) {
  return dialect == grammar::RuleDialect::ebnf ? grammar::parse_ebnf(text, limits) : grammar::parse_lark(text, limits);
}

inline std::string refusal(const Result<grammar::RuleText>& rules) {
  return rules.ok() ? "accepted" : rules.error().message;
}

// Which of `texts` the grammar accepts, each between brackets; or why the grammar is refused.
inline std::string accepted(const Result<grammar::RuleText>& rules, const std::vector<std::string>& texts) {
  if (!rules.ok()) return rules.error().message;
  std::string all;
  EarleyRecogniser recogniser(*rules);
  for (const std::string& text : texts)
    if (recogniser.accepts(text)) all += "[" + text + "]";
  return all;
}

inline std::string repeated(std::string_view text, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

// A grammar that must be refused, and how the message begins.
struct Refused {
  std::string grammar, message;  // of the message, the beginning
};

inline void expect_refusals(grammar::RuleDialect dialect, Error::Kind kind, const std::vector<Refused>& all) {
  for (const auto& [grammar, message] : all) {
    const auto rules = parsed(dialect, grammar);
    EXPECT_TRUE(refusal(rules).starts_with(message)) << grammar << "\n" << refusal(rules);
    if (rules.ok()) continue;
    EXPECT_EQ(rules.error().kind, kind) << grammar;
    if (kind == Error::Kind::bad_request) {
      EXPECT_EQ(rules.error().code, "grammar_invalid") << grammar;
    }
  }
}

inline void expect_too_complex(const Result<grammar::RuleText>& rules, std::string_view message) {
  EXPECT_EQ(refusal(rules), message);
  if (rules.ok()) return;
  EXPECT_EQ(rules.error().kind, Error::Kind::too_large);
  EXPECT_EQ(rules.error().code, "grammar_too_complex");
}

}  // namespace espalier::testing
