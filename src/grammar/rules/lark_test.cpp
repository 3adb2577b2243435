#include <gtest/gtest.h>

#include "grammar/rules/rule_text_expectations.h"

namespace espalier::grammar {
namespace {

using testing::accepted;
using testing::expect_refusals;

std::string lark(std::string_view grammar, const std::vector<std::string>& texts) {
  return accepted(parse_lark(grammar), texts);
}

TEST(Lark, DefinitionsEndWithTheirLineUnlessTheNextBeginsWithAVerticalBar) {
  EXPECT_EQ(lark("start: a // one\n  # two\n\n  | B \\\n  \"c\"\na: \"a\"\r\n\r\n_b_2: (\n\"x\"\n| \"y\"\n)\nB: _b_2 "
                 "\"b\" |\n",
                 {"a", "xbc", "ybc", "c", "xb", ""}),
            "[a][xbc][ybc][c]");
}

TEST(Lark, WhatOnlyShapesTreesIsAccepted) {
  EXPECT_EQ(lark("%llguidance {}\n?start: x -> left | y -> right_1\n    | (z->inner)\n!x.2: \"x\"\n?!y.-1: Y\n_z: z\n"
                 "z: \"z\"\nY.10 : \"y\"",
                 {"x", "y", "z", "xy"}),
            "[x][y][z]");
}

TEST(Lark, EveryEscapeOfALiteralIsItsCharacter) {
  const std::string text = "\n\r\t\f\b\\\"'/Aé€😀";
  EXPECT_EQ(lark(R"(start: "\n\r\t\f\b\\\"\'\/\x41\xe9\u20AC\U0001f600")", {text}), "[" + text + "]");
}

TEST(Lark, LiteralsMayIgnoreCase) {
  EXPECT_EQ(lark("start: \"Se-[lect]\"i", {"Se-[lect]", "sE-[LECT]", "sel", "se-l"}), "[Se-[lect]][sE-[LECT]]");
  EXPECT_EQ(lark("start: \"é.\\n\"i", {"é.\n", "É.\n", "éx\n"}), "[é.\n][É.\n]");
  EXPECT_EQ(lark("start: \"\"i \"a\"", {"a", "A"}), "[a]");
}

TEST(Lark, RangesGoFromCharacterToCharacter) {
  EXPECT_EQ(lark("start: \"a\"..\"c\" | \"\\u03b1\" .. \"ω\"", {"a", "b", "c", "d", "λ", "-"}), "[a][b][c][λ]");
}

TEST(Lark, QuantifiersRepeatWhatStandsBeforeThem) {
  const std::vector<std::string> texts = {"", "ab", "abab", "ababab", "abababab", "a", "abb"};
  const std::pair<std::string, std::string> wanted[] = {{"*", "[][ab][abab][ababab][abababab]"},
                                                        {"+", "[ab][abab][ababab][abababab]"},
                                                        {"?", "[][ab]"},
                                                        {"~2", "[abab]"},
                                                        {" ~ 2 .. 3", "[abab][ababab]"},
                                                        {"~0..1", "[][ab]"},
                                                        {"{2}", "[abab]"},
                                                        {"{ 2,}", "[abab][ababab][abababab]"},
                                                        {"{,1}", "[][ab]"}};
  for (const auto& [quantifier, accepts] : wanted) {
    EXPECT_EQ(lark("start: \"ab\"" + quantifier, texts), accepts) << quantifier;
    EXPECT_EQ(lark("start: (\"a\" B)" + quantifier + "\nB: /b/", texts), accepts) << quantifier;
  }
  EXPECT_EQ(lark("start: [\"a\" [\"b\"]] [\n\"c\"\n]", {"", "a", "ab", "c", "abc", "b"}), "[][a][ab][c][abc]");
}

TEST(Lark, RegularExpressionsStandForTheirCharacters) {
  EXPECT_EQ(lark("start: /a\\/[^\\/]\\\\(?:b|c){2,3}/", {"a/x\\bc", "a/x\\bcb", "a//\\bc", "a/x\\b"}),
            "[a/x\\bc][a/x\\bcb]");
  EXPECT_EQ(lark("start: /ab./i /./s /x*?/u", {"AB.\n", "ab,y", "a\n..", "aBcdxx"}), "[AB.\n][ab,y][aBcdxx]");
  EXPECT_EQ(lark("start: /\"[^\"\\n]*\"/ // a comment", {"\"\"", "\"//\"", "\"\n\""}), "[\"\"][\"//\"]");
}

TEST(Lark, TerminalsOfTheLibraryCanBeImported) {
  struct Case {
    std::string name;
    std::vector<std::string> yes, no;
  };
  const Case cases[] = {{"INT", {"0", "007"}, {"", "-1", "1.0", "٣"}},
                        {"SIGNED_INT", {"0", "-1", "+22"}, {"", "-", "--1"}},
                        {"DIGIT", {"0"}, {"", "00", "a"}},
                        {"NUMBER", {"1", "1.", ".5", "1.5", "1e9", "1.e-9", ".5E+1"}, {".", "-1", "e1", "1e"}},
                        {"SIGNED_NUMBER", {"1", "-1.", "+.5", "-1e9"}, {"-", ".", "--1"}},
                        {"FLOAT", {"1.", ".5", "1e9", "1.5e-9"}, {"1", ".", "-1.0"}},
                        {"SIGNED_FLOAT", {"-1.", "+1e9", ".5"}, {"1", "-1"}},
                        {"DECIMAL", {"1.", ".5", "1.5"}, {"1", "1.5e1"}},
                        {"WORD", {"a", "Word"}, {"", "a b", "a1", "_"}},
                        {"LETTER", {"a", "Z"}, {"", "aa", "1"}},
                        {"LCASE_LETTER", {"a"}, {"A"}},
                        {"UCASE_LETTER", {"A"}, {"a"}},
                        {"HEXDIGIT", {"a", "F", "9"}, {"g", "aa"}},
                        {"CNAME", {"_", "a1", "_b"}, {"1a", "", "a-b"}},
                        {"ESCAPED_STRING", {R"("")", R"("a\"b")", R"("\\")"}, {R"("a"b")", R"("\")", "\"\n\"", "\""}},
                        {"WS", {" ", "\t\f\r\n "}, {"", "a"}},
                        {"WS_INLINE", {" ", " \t"}, {"", "\n"}},
                        {"NEWLINE", {"\n", "\r\n\n"}, {"", "\r"}},
                        {"CR", {"\r"}, {"\n"}},
                        {"LF", {"\n"}, {"\r"}}};
  for (const auto& [name, yes, no] : cases) {
    std::string wanted;
    for (const std::string& text : yes) wanted += "[" + text + "]";
    EXPECT_EQ(lark("%import common." + name + "\nstart: " + name, yes), wanted) << name;
    EXPECT_EQ(lark("start: t\n%import common." + name + " -> t // renamed\n", no), "") << name;
  }
  EXPECT_EQ(lark("%import common (INT, WS,\n  WORD)\nstart: INT WS WORD", {"1 a", "1a"}), "[1 a]");
}

TEST(Lark, PrioritiesMayBeAnyNumber) {
  EXPECT_EQ(lark("start.-7: A B\nA.2: \"a\"\nB.10000000000000000000000: \"b\"", {"ab"}), "[ab]");
}

TEST(Lark, WhatIsMalformedIsRefusedWhereItStands) {
  expect_refusals(
      RuleDialect::lark, Error::Kind::bad_request,
      {{"", "grammar line 1, column 1: a rule named \"start\", where every text begins, is missing"},
       {"root: \"a\"", "grammar line 1, column 1: a rule named \"start\""},
       {"start: a\n  b\na: \"a\"", "grammar line 2, column 4: a colon is expected after \"b\""},
       {"start \"a\"", "grammar line 1, column 7: a colon is expected after \"start\""},
       {"start.x: \"a\"", "grammar line 1, column 7: a number is expected here, the priority"},
       {"\"a\"", "grammar line 1, column 1: a definition is expected here"},
       {"?: \"a\"", "grammar line 1, column 2: a definition is expected here"},
       {"start: +", "grammar line 1, column 8: there is nothing before this quantifier to repeat"},
       {"start: \"a\" | ~2", "grammar line 1, column 14: there is nothing before"},
       {"start: \"a\" ~ 3..2", "grammar line 1, column 12: this range of repetitions goes downwards"},
       {"start: \"a\" ~ x", "grammar line 1, column 14: a number of repetitions is expected here"},
       {"start: (\"a\"\nb: \"b\"", "grammar line 1, column 8: '(' is not closed"},
       {"start: (\"a\"", "grammar line 1, column 8: '(' is not closed"},
       {"start: (\"a\"]", "grammar line 1, column 12: ']' stands here, but '(' of line 1 is open"},
       {"start: \"a\"]", "grammar line 1, column 11: ']' closes nothing"},
       {"start: \"a\n\"", "grammar line 1, column 8: this literal is not closed with \""},
       {"start: \"\\q\"", "grammar line 1, column 9: unknown escape"},
       {"start: 'a'", "grammar line 1, column 8: \"'\" is not expected here"},
       {"start: \"a\" - \"b\"", "grammar line 1, column 12: \"-\" is not expected here"},
       {"start: \"a\" -> x \"b\"", "grammar line 1, column 17: \"\\\"\" is not expected here"},
       {"start: \"a\" -> \"b\"", "grammar line 1, column 15: a name is expected here"},
       {"start: \"b\"..\"a\"", "grammar line 1, column 8: this range goes downwards"},
       {"start: \"ab\"..\"c\"", "grammar line 1, column 8: a range goes from one character to one character"},
       {"start: \"a\"..c", "grammar line 1, column 13: a literal is expected after .."},
       {"start: /a", "grammar line 1, column 8: this regular expression is not closed with /"},
       {"start: /a\\", "grammar line 1, column 8: this regular expression is not closed with /"},
       {"start: /a\nb: /b/", "grammar line 1, column 8: this regular expression is not closed with / on its line"},
       {"start: \"a\"\n b: /(a/", "grammar line 2, column 5: in the regular expression \"(a\": "},
       {"start: \"a\"\nstart: \"b\"", "grammar line 2, column 1: \"start\" is defined a second time, after line 1"},
       {"%import common.INT\nstart: INT\nINT: /1/", "grammar line 3, column 1: \"INT\" is defined a second time"},
       {"start: a B", "grammar line 1, column 8: \"a\" is not defined"},
       {"%import common.INT x", "grammar line 1, column 20: \"x\" is not expected here"},
       {"%import common INT", "grammar line 1, column 16: '.' and a name or a list"},
       {"%import common (INT", "grammar line 1, column 20: ',' or ')' is expected here"}});
}

TEST(Lark, WhatCannotBeHonouredIsNamed) {
  expect_refusals(RuleDialect::lark, Error::Kind::unsupported,
                  {{"start: \"a\"\n%ignore WS", "grammar line 2, column 1: %ignore is not supported: write what"},
                   {"%declare A", "grammar line 1, column 1: %declare is not supported"},
                   {"%override a: \"b\"", "grammar line 1, column 1: %override is not supported"},
                   {"%llguidance {\"no_forcing\": true}", "grammar line 1, column 1: %llguidance is not supported"},
                   {"%import common.C_COMMENT", "grammar line 1, column 16: the terminal common.C_COMMENT"},
                   {"%import .other.X", "grammar line 1, column 9: only the terminals of the library `common`"},
                   {"%import python.NAME", "grammar line 1, column 9: only the terminals of the library `common`"},
                   {"sep{x, y}: x", "grammar line 1, column 1: templates are not supported"},
                   {"start: sep{ a, b}", "grammar line 1, column 11: templates are not supported"},
                   {"start[lazy]: \"a\"", "grammar line 1, column 1: options of rules"},
                   {"start: %json {}", "grammar line 1, column 8: %json"},
                   {"start: <|eot|>", "grammar line 1, column 8: references to tokens"},
                   {"start: @other", "grammar line 1, column 8: references to other grammars"},
                   {"start: A & B", "grammar line 1, column 10: the intersection of terminals"},
                   {"start: /^a/", "grammar line 1, column 8: "},
                   {"start: /a$/", "grammar line 1, column 8: "},
                   {"start: /a(?=b)/", "grammar line 1, column 8: "},
                   {"start: /(a)\\1/", "grammar line 1, column 8: "}});
}

}  // namespace
}  // namespace espalier::grammar
