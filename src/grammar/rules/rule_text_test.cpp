#include "grammar/rules/rule_text.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <random>

#include "base/json/json.h"
#include "grammar/rules/rule_text_expectations.h"
#include "grammar/rules/rule_text_printer.h"
#include "testing/data.h"

namespace espalier::grammar {
namespace {

using testing::EarleyRecogniser;
using testing::expect_too_complex;
using testing::parsed;
using testing::printed;
using testing::refusal;
using testing::repeated;

int check_public_item(const Json& item, RuleDialect dialect, const std::string& grammar) {
  const std::string name = item["id"].get<std::string>() + (dialect == RuleDialect::lark ? " as Lark" : " as EBNF");
  const std::string expect = item.value("expect", "ok");
  const auto rules = parsed(dialect, grammar);
  if (expect == "bounded") return 0;
  EXPECT_EQ(rules.ok(), expect == "ok") << name << ": " << refusal(rules);
  if (!rules.ok()) return 0;
  int texts = 0;
  for (const Json& test : item["tests"]) {
    const auto text = test["text"].get<std::string>();
    EXPECT_EQ(EarleyRecogniser(*rules).accepts(text), test["valid"].get<bool>()) << name << ": " << text;
    ++texts;
  }
  return texts;
}

TEST(RuleText, ThePublicGrammarsAcceptAndRefuseTheirExamples) {
  const auto path = testing::shared("schemas/ebnf_public.jsonl");
  if (path.empty()) {
    std::printf("left out: no shared/schemas/ebnf_public.jsonl beside the checkout\n");
    return;
  }
  std::ifstream in(path);
  int grammars = 0, texts = 0;
  for (std::string line; std::getline(in, line); ++grammars) {
    const auto item = parse_json(line);
    ASSERT_TRUE(item.ok());
    texts += check_public_item(*item, RuleDialect::ebnf, (*item)["spec"].get<std::string>());
    if (item->contains("lark") && (*item)["lark"].is_string())
      texts += check_public_item(*item, RuleDialect::lark, (*item)["lark"].get<std::string>());
  }
  std::printf("%d grammars, %d texts\n", grammars, texts);
  EXPECT_GT(texts, 0);
}

// A random tree in the form that parsers make, built from the leaves up.
class RandomRules {
 public:
  explicit RandomRules(std::uint64_t seed) : random_(seed) {}

  RuleText make() {
    rules_ = {};
    const std::size_t count = 1 + random_() % 4;
    for (std::size_t i = 0; i < count; ++i) rules_.rules.push_back({"r" + std::to_string(i), -1});
    for (auto& rule : rules_.rules) rule.body = make_node(4);
    return rules_;
  }

 private:
  int add(RuleNode node) {
    rules_.nodes.push_back(std::move(node));
    return static_cast<int>(rules_.nodes.size()) - 1;
  }

  std::uint32_t character() {
    const std::uint32_t most[] = {0x7f, 0x7ff, 0xd7ff, 0x10ffff};
    const std::uint32_t c = static_cast<std::uint32_t>(random_() % most[random_() % 4]);
    return c >= 0xd800 && c <= 0xdfff ? c - 0x800 : c;
  }

  int make_leaf() {
    RuleNode node;
    node.kind = static_cast<RuleNode::Kind>(random_() % 3);
    if (node.kind == RuleNode::Kind::literal) {
      for (auto left = random_() % 4; left > 0; --left) append_character(node.bytes, character());
    } else if (node.kind == RuleNode::Kind::rule) {
      node.index = static_cast<int>(random_() % rules_.rules.size());
    } else {
      CodePointSet set;
      for (auto left = 1 + random_() % 3; left > 0; --left) {
        const std::uint32_t a = character(), b = character();
        set.add(std::min(a, b), std::max(a, b));
      }
      node.index = static_cast<int>(rules_.sets.size());
      rules_.sets.push_back(std::move(set));
    }
    return add(std::move(node));
  }

  int make_node(int depth) {
    if (depth == 0 || random_() % 4 == 0) return make_leaf();
    RuleNode node;
    node.kind = static_cast<RuleNode::Kind>(3 + random_() % 3);
    const bool repeat = node.kind == RuleNode::Kind::repeat;
    for (auto left = repeat ? 1 : 2 + random_() % 3; left > 0; --left) node.children.push_back(make_node(depth - 1));
    if (repeat) {
      node.low = static_cast<int>(random_() % 3);
      node.high = random_() % 2 == 0 ? RuleNode::kUnbounded : 2 + static_cast<int>(random_() % 3);
    }
    return add(std::move(node));
  }

  std::mt19937_64 random_;
  RuleText rules_;
};

TEST(RuleText, AnyTreePrintedInEitherDialectReadsBackAsItself) {
  RandomRules random(testing::seed());
  for (long n = 0; n < testing::operations(2'000, 100'000); ++n) {
    const RuleText rules = random.make();
    const std::string wanted = printed(rules);
    for (const RuleDialect dialect : {RuleDialect::ebnf, RuleDialect::lark}) {
      const std::string text = printed(rules, dialect);
      const auto again = parsed(dialect, text);
      ASSERT_TRUE(again.ok()) << text << refusal(again);
      ASSERT_EQ(printed(*again), wanted) << text;
    }
  }
}

TEST(RuleText, NestedBracketsAreRefusedWhateverTheirNumber) {
  const std::string open = repeated("(", 60'000), close = repeated(")", 60'000);
  const std::string message = "more than 200 brackets are open at once";
  expect_too_complex(parse_ebnf("root ::= " + open + "\"a\"" + close), "grammar line 1, column 210: " + message);
  expect_too_complex(parse_lark("start: " + open + "\"a\"" + close), "grammar line 1, column 208: " + message);
  expect_too_complex(parse_lark("start: " + repeated("[", 60'000)), "grammar line 1, column 208: " + message);
  EXPECT_TRUE(parse_ebnf("root ::= " + open.substr(0, 200) + "\"a\"" + close.substr(0, 200)).ok());
  EXPECT_TRUE(parse_lark("start: " + open.substr(0, 200) + "\"a\"" + close.substr(0, 200)).ok());
}

TEST(RuleText, QuantifiersUponQuantifiersAreRefusedBeforeTheTreeIsTooHighToWalk) {
  EXPECT_TRUE(parse_ebnf("root ::= \"a\"" + repeated("*", 200)).ok());
  expect_too_complex(parse_ebnf("root ::= \"a\"" + repeated("+*", 100'000)),
                     "grammar line 1, column 816: quantifiers and groups nest deeper than 804");
  expect_too_complex(parse_lark("start: \"a\"" + repeated("~2", 100'000)),
                     "grammar line 1, column 1617: quantifiers and groups nest deeper than 804");
}

TEST(RuleText, LimitsOfSizeAreKept) {
  const RuleTextLimits few_bytes{.bytes = 20}, few_nodes{.nodes = 10}, few_rules{.rules = 3};
  expect_too_complex(parse_ebnf("root ::= \"0123456789\"", few_bytes),
                     "grammar line 1, column 1: 21 bytes of grammar; at most 20");
  expect_too_complex(parse_lark("start: \"0123456789\"  ", few_bytes),
                     "grammar line 1, column 1: 21 bytes of grammar; at most 20");
  expect_too_complex(parse_ebnf("root ::= " + repeated("\"a\" ", 11), few_nodes),
                     "grammar line 1, column 50: more than 10 literals, classes, groups and quantifiers");
  expect_too_complex(parse_lark("start: /" + repeated("[a]", 11) + "/", few_nodes),
                     "grammar line 1, column 8: more than 10 literals, classes, groups and quantifiers");
  EXPECT_TRUE(parse_ebnf("root ::= a b\na ::= \"\"\nb ::= a", few_rules).ok());
  expect_too_complex(parse_ebnf("root ::= a b c", few_rules), "grammar line 1, column 14: more than 3 rules");
  expect_too_complex(parse_lark("start: a\na: b\nb: \"b\"\nc: \"c\"", few_rules),
                     "grammar line 4, column 1: more than 3 rules");
  expect_too_complex(parse_ebnf("root ::= \"a\"{1000000001}"),
                     "grammar line 1, column 14: more than 1000000000 repetitions");
  expect_too_complex(parse_lark("start: \"a\" ~ 2..99999999999999999999999"),
                     "grammar line 1, column 17: more than 1000000000 repetitions");
}

TEST(RuleText, ClassesOfHundredsOfRangesCannotFillTheMemory) {
  std::string grammar = "start: a";
  for (int i = 0; i < 20'000; ++i) grammar += " /\\w/";
  const auto rules = parse_lark(grammar + "\na: \"a\"");
  ASSERT_FALSE(rules.ok());
  EXPECT_EQ(rules.error().kind, Error::Kind::too_large) << rules.error().message;
}

TEST(RuleText, TextThatIsNotUtf8IsRefusedWhereItBreaks) {
  for (const RuleDialect dialect : {RuleDialect::ebnf, RuleDialect::lark})
    for (const std::string broken : {"\xff", "\xe2\x82", "\xed\xa0\x80", "\xc0\xaf"})
      EXPECT_EQ(refusal(parsed(dialect, "# é\n# " + broken)), "grammar line 2, column 3: the text is not UTF-8 here");
}

}  // namespace
}  // namespace espalier::grammar
