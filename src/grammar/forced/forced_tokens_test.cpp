#include "grammar/forced/forced_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "grammar/grammar.h"
#include "grammar/grammar_expectations.h"
#include "testing/data.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier::grammar {
namespace {

using Kind = Constraint::Kind;

// A random text of the grammar; empty when it did not end in time.
std::string random_text(Grammar& grammar, std::mt19937_64& random) {
  std::string text;
  State state = grammar.start();
  while (text.size() < 80) {
    const auto branches = grammar.automaton().branches(state);
    if (grammar.complete(state) && (branches.empty() || random() % 3 == 0)) return text;
    if (branches.empty()) return {};
    const auto& branch = branches[random() % branches.size()];
    std::vector<unsigned> bytes;
    for (unsigned byte = 0; byte < 256; ++byte) {
      if (branch.on.contains(byte)) bytes.push_back(byte);
    }
    text.push_back(static_cast<char>(bytes[random() % bytes.size()]));
    state = branch.to;
  }
  return {};
}

class ForcedTokens : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    tokenizer = Tokenizer::open_hf(testing::data(std::string("goldens/tokenizers/") + GetParam())).value();
    vocabulary = Vocabulary::of(tokenizer);
  }
  std::shared_ptr<Grammar> compiled(const Constraint& constraint) const {
    return Grammar::compile(constraint, vocabulary, patient()).value();
  }
  // How many tokens of `text` were forced; all must be the tokenizer's own.
  std::size_t check(Grammar& grammar, const std::string& text) const {
    const auto tokens = tokens_after(*vocabulary, {}, text);
    std::size_t count = 0;
    State state = grammar.start();
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const auto forced = grammar.forced(state, std::span(tokens).first(i)).value();
      count += forced.tokens.size();
      const auto rest = std::span(tokens).subspan(i);
      const bool own =
          forced.tokens.size() <= rest.size() && std::ranges::equal(forced.tokens, rest.first(forced.tokens.size()));
      EXPECT_TRUE(own) << ::testing::PrintToString(text) << " at token " << i << ": forced "
                       << ::testing::PrintToString(forced.tokens) << " of " << ::testing::PrintToString(tokens);
      state = grammar.read(state, tokens[i]).value();
    }
    return count;
  }

  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<Vocabulary> vocabulary;
};

TEST_P(ForcedTokens, AreThoseOfEveryTextThatGoesOnThatWay) {
  const std::vector<Constraint> constraints{
      {Kind::regex, R"re(\{"id": \d+, "name": "[a-z]{1,4}"\})re"},
      {Kind::regex, R"re(a  (\d|b|中|é|\.|  ))re"},
      {Kind::regex, R"re(x:\s\s(y|1|中)z   [0-9]\t\t[a5])re"},
      {Kind::regex, R"re(one\n\n(a|1| a)\n  (b|2))re"},
      {Kind::regex, R"re((the|then|there|them) (the|then|there|them)e?s?)re"},
      {Kind::regex, R"re("hour":-?\d{1,4},"minute":[0-9]+)re"},
      {Kind::regex, R"re(日本(語|人|)?[1é]?été(s|t)?)re"},
      {Kind::regex, R"re((é|è|ê|中|串)+ 😀?ü)re"},
      {Kind::regex, R"re(it'(s|d|x|re|\$) (we|they)'(ve|v|ll))re"},
      {Kind::regex, R"re(value = 12345\d*; return( 0| 1|);)re"},
      {Kind::json_schema,
       R"({"enum":["active","activated","act  1","act  b","a\u00a0\u00a05",{"a":[1,2,{"b":null}]}]})"},
      {Kind::json_schema, R"({"type":"object","properties":{"name":{"type":"integer"},"names":{"enum":["x","y z"]},
                             "other":{"type":"boolean"}},"required":["name","other"],"additionalProperties":false})"},
  };
  std::mt19937_64 random(testing::seed());
  const long texts = testing::operations(40, 2000);
  std::size_t forced = 0;
  for (const Constraint& constraint : constraints) {
    const auto grammar = compiled(constraint);
    for (long i = 0; i < texts; ++i) forced += check(*grammar, random_text(*grammar, random));
  }
  EXPECT_GT(forced, static_cast<std::size_t>(10 * texts));
}

TEST_P(ForcedTokens, StandBeforeWhatAForeignDigitCouldBeginWith) {
  const auto grammar = compiled({Kind::regex, R"re(\{"id": \d+\})re"});
  EXPECT_FALSE(grammar->forced(grammar->start(), {})->tokens.empty());
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, ForcedTokens, ::testing::Values("bytelevel-split", "sp-bpe-llama2-like"),
                         [](const auto& tokenizer) {
                           std::string name = tokenizer.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace espalier::grammar
