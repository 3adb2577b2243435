#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

#include "grammar/grammar_expectations.h"
#include "testing/data.h"

namespace espalier::grammar {
namespace {

constexpr auto kJsonSchema = Constraint::Kind::json_schema;

TEST(Multiples, LargeFactorsHaveBounds) {
  expect(kJsonSchema, {R"({"type":"integer","multipleOf":999999937,"minimum":-5e10,"exclusiveMaximum":1099511627776})",
                       {"-999999937", "0", "1098999930763", "-49999996850"},
                       {"999999938", "1099999930700", "-50999996787", "1", "0.0"}});
  expect(kJsonSchema, {R"({"type":"number","multipleOf":0.00086413,"minimum":0.00086414,"maximum":1728.26})",
                       {"0.00172826", "0.001728260", "1728.26", "1728.25913587", "0.86413"},
                       {"0.00086413", "0", "1728.26086413", "1728.2591358", "0.8641"}});
  expect(kJsonSchema, {R"({"type":"integer","multipleOf":1000000,"minimum":100000000000000000000000000})",
                       {"100000000000000000000000000", "123456789012345678901000000"},
                       {"99999999999999999999000000", "123456789012345678901000001"}});
}

TEST(Multiples, OfSeveralFactorsAreThoseOfTheLeastCommonOne) {
  expect(kJsonSchema, {R"({"allOf":[{"multipleOf":86400},{"multipleOf":0.007}],"type":"number","minimum":604801})",
                       {"1209600", "604800000", "1209600.00"},
                       {"604800", "691200", "1209600.5"}});
  expect(kJsonSchema, {R"({"allOf":[{"multipleOf":999983},{"multipleOf":8}],"type":"integer","maximum":-1})",
                       {"-7999864", "-15999728"},
                       {"0", "-999983", "7999864"}});
}

TEST(Multiples, BoundsWithoutOneBetweenThemAreRefused) {
  for (const char* bounds :
       {R"("minimum":1,"maximum":999999936)", R"("exclusiveMinimum":0,"exclusiveMaximum":999999937)",
        R"("minimum":-999999936,"exclusiveMaximum":0)", R"("minimum":0.5,"maximum":0.75)"}) {
    const std::string schema = fmt::format(R"({{"type":"number","multipleOf":999999937,{}}})", bounds);
    EXPECT_EQ(refused(kJsonSchema, schema).message, refused(kJsonSchema, "false").message) << schema;
  }
}

// Numbers in units of 1/1000.
struct MultipleCase {
  int factor = 1000, low = 0, high = 0;
  bool above = false, below = false, integers = false;  // above: the bound itself is none

  bool contains(int value) const {
    return value % factor == 0 && value >= low + above && value <= high - below && (!integers || value % 1000 == 0);
  }
  std::string schema() const {
    return fmt::format(R"({{"type":"{}","multipleOf":{},"{}":{},"{}":{}}})", integers ? "integer" : "number",
                       factor / 1000.0, above ? "exclusiveMinimum" : "minimum", low / 1000.0,
                       below ? "exclusiveMaximum" : "maximum", high / 1000.0);
  }
};

MultipleCase draw(std::mt19937& random) {
  const auto between = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  MultipleCase drawn;
  drawn.factor = std::vector{between(1, 40) * 1000, between(1, 40) * 250, between(1, 9000)}[random() % 3];
  drawn.low = between(-150, 150) * (between(0, 1) == 1 ? 1000 : 100);
  drawn.high = drawn.low + between(0, 60) * 500;
  drawn.above = between(0, 1) == 1, drawn.below = between(0, 1) == 1, drawn.integers = between(0, 1) == 1;
  return drawn;
}

// All that a number's text begins with, and the text with zeros behind it.
void add_beginnings(std::set<std::string>& beginnings, const std::string& text, bool integers) {
  for (std::size_t size = 0; size <= text.size(); ++size) beginnings.insert(text.substr(0, size));
  if (integers) return;
  std::string longer = text.find('.') == std::string::npos ? text + "." : text;
  while (longer.size() - longer.find('.') < 4) beginnings.insert(longer), longer += '0';
  beginnings.insert(longer);
}

TEST(Multiples, BetweenBoundsAreThoseOfArithmetic) {
  const auto seed = static_cast<unsigned>(testing::seed());
  std::mt19937 random(seed);
  for (int round = 0; round < 150; ++round) {
    const MultipleCase drawn = draw(random);
    const std::string label = fmt::format("{}, seed {}", drawn.schema(), seed);
    std::set<std::string> beginnings;
    for (int value = drawn.low; value <= drawn.high; ++value) {
      if (drawn.contains(value)) add_beginnings(beginnings, fmt::format("{}", value / 1000.0), drawn.integers);
    }
    const auto grammar = Grammar::compile({kJsonSchema, drawn.schema()}, bytes_only(), patient());
    ASSERT_EQ(grammar.ok(), !beginnings.empty()) << label;
    if (!grammar.ok()) continue;
    if (drawn.low < 0 && drawn.contains(0)) add_beginnings(beginnings, "-0", drawn.integers);
    for (int value = drawn.low - 3000; value <= drawn.high + 3000; ++value) {
      if (drawn.integers && value % 1000 != 0) continue;
      const std::string text = fmt::format("{}", value / 1000.0);
      const auto end = (*grammar)->read((*grammar)->start(), text);
      ASSERT_TRUE(end.ok()) << label;
      ASSERT_EQ(*end != Automaton::dead && (*grammar)->complete(*end), drawn.contains(value)) << text << " " << label;
      for (std::size_t size = 1; size <= text.size(); ++size) {
        const auto state = (*grammar)->read((*grammar)->start(), text.substr(0, size));
        ASSERT_EQ(*state != Automaton::dead, beginnings.contains(text.substr(0, size))) << text << " " << label;
      }
    }
  }
}

}  // namespace
}  // namespace espalier::grammar
