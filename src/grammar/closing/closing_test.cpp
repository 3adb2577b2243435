// Closings: as short as a plain search finds them, valid, and found where there is a long way to go. What they take is
// printed; no time is asserted.
#include "grammar/closing/closing.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/grammar_expectations.h"
#include "testing/data.h"

namespace espalier::grammar {
namespace {

using Kind = Constraint::Kind;
using Clock = std::chrono::steady_clock;

struct Closed {
  std::string text;
  bool valid = false;
  double milliseconds = 0;
};

Closed close(Grammar& grammar, const std::string& begun) {
  const State at = *grammar.read(grammar.start(), begun);
  EXPECT_NE(at, Automaton::dead) << begun;
  const auto before = Clock::now();
  const auto found = grammar.closing(at);
  const double taken = std::chrono::duration<double, std::milli>(Clock::now() - before).count();
  EXPECT_TRUE(found.ok()) << begun.substr(0, 40);
  if (!found.ok()) return {"", false, taken};
  const auto end = grammar.read(at, *found);
  return {*found, end.ok() && *end != Automaton::dead && grammar.complete(*end), taken};
}

std::string closing(Kind kind, const std::string& constraint, const std::string& begun) {
  const auto grammar = Grammar::compile({kind, constraint}, bytes_only(), patient());
  EXPECT_TRUE(grammar.ok()) << constraint << ": " << (grammar.ok() ? "" : grammar.error().message);
  if (!grammar.ok()) return {};
  const Closed closed = close(**grammar, begun);
  EXPECT_TRUE(closed.valid) << constraint.substr(0, 100) << " <- " << begun.substr(0, 40) << closed.text.substr(0, 100);
  fmt::print("{:8.3f} ms  {} <- {}: {} bytes {}\n", closed.milliseconds, constraint.substr(0, 70), begun.substr(0, 10),
             closed.text.size(), closed.text.substr(0, 30));
  return closed.text;
}

std::string repeated(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

// The length of a shortest text that completes what was begun, by looking at all of them; nothing: there are many.
std::optional<std::size_t> judged(Grammar& grammar, const std::string& begun) {
  constexpr std::size_t kMost = 4'000;
  std::vector<State> states{*grammar.read(grammar.start(), begun)}, next;
  std::unordered_set<State> seen(states.begin(), states.end());
  for (std::size_t length = 0; !states.empty() && seen.size() < kMost; ++length) {
    next.clear();
    for (const State state : states) {
      if (grammar.complete(state)) return length;
      for (char byte = ' '; byte < 0x7f; ++byte) {
        const auto to = grammar.read(state, std::string(1, byte));
        if (!to.ok()) return std::nullopt;
        if (*to != Automaton::dead && seen.insert(*to).second) next.push_back(*to);
      }
    }
    states.swap(next);
  }
  return std::nullopt;
}

// Texts that can come, byte by byte.
std::string some_beginning(Grammar& grammar, std::mt19937_64& rng) {
  std::string text;
  State state = grammar.start();
  for (std::size_t most = rng() % 12; text.size() < most;) {
    std::vector<char> ways;
    for (char byte = ' '; byte < 0x7f; ++byte)
      if (*grammar.read(state, std::string(1, byte)) != Automaton::dead) ways.push_back(byte);
    if (ways.empty()) break;
    text.push_back(ways[rng() % ways.size()]);
    state = *grammar.read(state, std::string_view(text).substr(text.size() - 1));
  }
  return text;
}

class SomeConstraint {
 public:
  explicit SomeConstraint(std::mt19937_64& rng) : rng_(rng) {}

  std::string rules() {
    std::string text;
    for (const char* rule : {"root", "x", "y"}) text += fmt::format("{} ::= {} | {}\n", rule, sequence(), sequence());
    return text + "z ::= \"" + std::string(1 + rng_() % 9, 'd') + "\"\n";
  }

  std::string schema(int depth = 0) {
    switch (rng_() % (depth > 2 ? 3 : 6)) {
      case 0:
        return fmt::format(R"({{"enum":[{},"a{}",[{}]]}})", rng_() % 1000, rng_() % 20, rng_() % 3);
      case 1:
        return fmt::format(
            R"({{"type":"string","pattern":"^[ab]*c?$","minLength":{},"not":{{"enum":["","a","b","ab"]}}}})",
            rng_() % 4);
      case 2:
        return fmt::format(R"({{"type":"integer","minimum":{},"multipleOf":{}}})", rng_() % 90, 1 + rng_() % 60);
      case 3:
        return fmt::format(R"({{"type":"array","items":{},"minItems":{}{}}})", schema(depth + 1), rng_() % 4,
                           rng_() % 3 == 0 ? R"(,"maxItems":4)" : "");
      case 4:
        return fmt::format(
            R"({{"oneOf":[{{"type":"array","items":{},"minItems":1}},{{"type":"object","properties":{{"k":{}}},"required":["k"]}}]}})",
            schema(depth + 1), schema(depth + 1));
      default:
        return fmt::format(
            R"({{"type":"object","properties":{{"a":{},"bb":{},"c":{}}}{}{},"additionalProperties":false}})",
            schema(depth + 1), schema(depth + 1), schema(depth + 1), rng_() % 2 == 0 ? R"(,"required":["c","bb"])" : "",
            rng_() % 2 == 0 ? R"(,"minProperties":2)" : "");
    }
  }

 private:
  std::string sequence() {
    static constexpr const char* kParts[] = {"\"a\"", "\"bb\"", "[abc]",         "x",   "y",
                                             "z",     "x{2}",   "(y | \"cc\")?", "root"};
    std::string text = rng_() % 2 == 0 ? "\"a\"" : "[bc]{2}";
    for (std::size_t i = rng_() % 4; i > 0; --i) text += std::string(" ") + kParts[rng_() % std::size(kParts)];
    return text;
  }

  std::mt19937_64& rng_;
};

TEST(Closings, AreAsShortAsAPlainSearchFindsThem) {
  std::mt19937_64 rng(testing::seed());
  int told = 0;
  for (int i = 0; i < 150; ++i) {
    const Kind kind = i % 2 == 0 ? Kind::ebnf : Kind::json_schema;
    const std::string constraint = i % 2 == 0 ? SomeConstraint(rng).rules() : SomeConstraint(rng).schema();
    const auto grammar = Grammar::compile({kind, constraint}, bytes_only(), patient());
    if (!grammar.ok()) continue;  // allows no text
    const std::string begun = some_beginning(**grammar, rng);
    const auto judge = *Grammar::compile({kind, constraint}, bytes_only(), patient());
    const auto shortest = judged(*judge, begun);
    const Closed closed = close(**grammar, begun);
    EXPECT_TRUE(closed.valid) << constraint << " <- " << begun;
    if (!shortest) continue;
    ++told;
    EXPECT_EQ(closed.text.size(), *shortest) << constraint << " <- " << begun << " <- " << closed.text;
  }
  EXPECT_GT(told, 60);
}

TEST(Closings, AreValidWhereMembersMustDifferAndMostlyAsShort) {
  std::mt19937_64 rng(testing::seed());
  int told = 0, shortest = 0;
  for (int i = 0; i < 60; ++i) {
    SomeConstraint some(rng);
    const std::string constraint =
        i % 2 == 0
            ? fmt::format(R"({{"type":"array","items":{},"uniqueItems":true,"minItems":{}}})", some.schema(1),
                          rng() % 4)
            : fmt::format(R"({{"type":"object","propertyNames":{{"pattern":"^[ab]?c?$"}},"additionalProperties":{},)"
                          R"("minProperties":{}}})",
                          some.schema(2), rng() % 5);
    const auto grammar = Grammar::compile({Kind::json_schema, constraint}, bytes_only(), patient());
    if (!grammar.ok()) continue;
    const std::string begun = some_beginning(**grammar, rng);
    const auto judge = *Grammar::compile({Kind::json_schema, constraint}, bytes_only(), patient());
    const auto length = judged(*judge, begun);
    const Closed closed = close(**grammar, begun);
    EXPECT_TRUE(closed.valid) << constraint << " <- " << begun;
    if (!length) continue;
    ++told;
    EXPECT_GE(closed.text.size(), *length) << constraint << " <- " << begun;
    shortest += closed.text.size() == *length ? 1 : 0;
  }
  fmt::print("{} of {} as short as can be\n", shortest, told);
  EXPECT_GE(shortest * 10, told * 8);
}

// Where members must differ from one another a shorter text may be missed, but not in these.
TEST(Closings, AreShortWhereMembersMustDiffer) {
  EXPECT_EQ(closing(Kind::json_schema, R"({"type":"object","minProperties":3})", R"({", ")"), R"(:0,"":0,"!":0})");
  EXPECT_EQ(closing(Kind::json_schema, R"({"type":"array","uniqueItems":true,"items":{"type":"object"},"minItems":3})",
                    "[{}"),
            R"(,{"":0},{"":1}])");
  EXPECT_EQ(
      closing(Kind::json_schema, R"({"type":"array","minItems":12,"uniqueItems":true,"items":{"type":"integer"}})", "[")
          .size(),
      26u);
  EXPECT_EQ(closing(Kind::json_schema, R"({"type":"array","minItems":30,"uniqueItems":true})", "[").size(), 80u);
  EXPECT_EQ(closing(Kind::json_schema, R"({"type":"object","minProperties":50})", "{").size(), 299u);
  EXPECT_EQ(closing(Kind::json_schema,
                    R"({"type":"array","uniqueItems":true,"items":{"enum":[0,"ab",100,true]},"minItems":3})", "[")
                .size(),
            11u);
}

TEST(Closings, AreFoundWhereTheWayIsLong) {
  EXPECT_EQ(closing(Kind::json_schema, R"({"type":"array","minItems":20})", "[0,"), repeated("0,", 18) + "0]");
  EXPECT_EQ(closing(Kind::json_object, "", repeated(R"({"a":)", 200)), "0" + repeated("}", 200));
  EXPECT_EQ(closing(Kind::json_schema, R"({"type":"array"})", repeated("[", 200)), repeated("]", 200));
  EXPECT_EQ(closing(Kind::json_schema, R"({"type":"array","minItems":1000})", "["), repeated("0,", 999) + "0]");
  EXPECT_EQ(closing(Kind::json_schema, R"({"type":"string","minLength":500})", "\"").size(), 501u);
  EXPECT_EQ(
      closing(Kind::json_schema, R"({"type":"string","pattern":"^[a-z]+[0-9]{300}x$","minLength":400})", "\"a").size(),
      400u);
  EXPECT_EQ(closing(Kind::json_schema, R"({"type":"integer","multipleOf":1000000,"minimum":1})", "12"), "000000");
  EXPECT_EQ(closing(Kind::json_schema, R"({"enum":["a long text","another",{"a":[1,2,3]}]})", R"({"a)"),
            R"(":[1,2,3]})");
  EXPECT_EQ(closing(Kind::regex, "(a|bb){100}c*[d-f]{200,}", "abba").size(), 297u);
  EXPECT_EQ(closing(Kind::ebnf, "root ::= \"(\" root \")\" | [0-9]{1,3}", repeated("(", 300)),
            "0" + repeated(")", 300));
  EXPECT_EQ(
      closing(Kind::ebnf, "root ::= item{50}\nitem ::= \"<\" (item | word) \">\"\nword ::= [a-z]{5} | \"x\" word", "<")
          .size(),
      349u);
  EXPECT_EQ(closing(Kind::ebnf, "root ::= \"a\" root | [b]{100}", "a").size(), 100u);
}

TEST(Closings, AreFoundInLargeObjects) {
  std::string names, listed;
  for (int i = 0; i < 200; ++i) {
    const char* comma = i > 0 ? "," : "";
    names += fmt::format(R"({}"name{}")", comma, i);
    listed += fmt::format(
        R"({}"name{}":{{"type":"object","properties":{{"x":{{"type":"string","minLength":{}}}}},"required":["x"]}})",
        comma, i, i % 7);
  }
  const std::string required = fmt::format(R"({{"type":"object","properties":{{{}}},"required":[{}])", listed, names);
  EXPECT_EQ(closing(Kind::json_schema, required + "}", "{").size(), 4284u);
  EXPECT_EQ(closing(Kind::json_schema, required + R"(,"additionalProperties":false})", "{").size(), 4284u);
  EXPECT_EQ(closing(Kind::json_schema, fmt::format(R"({{"type":"object","required":[{}]}})", names), "{").size(),
            2290u);
  const std::string some = fmt::format(R"({{"type":"object","properties":{{{}}},)", listed);
  EXPECT_EQ(closing(Kind::json_schema, some + R"("minProperties":20})", "{").size(), 119u);
  closing(Kind::json_schema, some + R"("minProperties":5,"additionalProperties":false})", "{");  // any: too many ways
}

TEST(Closings, ThoseThatAreNotFoundLeaveTheGrammarToOthers) {
  const auto grammar =
      *Grammar::compile({Kind::json_schema, R"({"type":"array","minItems":100000})"}, bytes_only(), patient());
  for (int i = 1; i < 30; ++i)
    EXPECT_FALSE(grammar->closing(*grammar->read(grammar->start(), "[" + repeated("0,", i))).ok());
  EXPECT_TRUE(grammar->usable());
}

}  // namespace
}  // namespace espalier::grammar
