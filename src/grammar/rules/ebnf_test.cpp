#include <gtest/gtest.h>

#include "grammar/rules/rule_text_expectations.h"

namespace espalier::grammar {
namespace {

using testing::accepted;
using testing::expect_refusals;

std::string ebnf(std::string_view grammar, const std::vector<std::string>& texts) {
  return accepted(parse_ebnf(grammar), texts);
}

// In the manner of the grammars that come with llama.cpp.
constexpr std::string_view kJsonGrammar = R"(
# any JSON document, without white space at its ends
root   ::= value

value  ::= object | array | string | number | ("true" | "false" | "null")
object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*   # further members
  )? ws "}"
array  ::= "[" ws (value ("," ws value)*)? ws "]"

string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt/] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\""
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9]+)?
ws ::= | " " | "\n" [ \t]{0,20}
)";

TEST(Ebnf, AJsonGrammarInTheStyleOfLlamaCppReadsJson) {
  const std::vector<std::string> good = {"{}", "[1, -2.5e+3,\n  null]", R"({"a": {"b\u00e9\n": [true]},"c": "é😀"})",
                                         "\"\"", "[[[[]]]]"};
  for (const std::string& text : good) EXPECT_EQ(ebnf(kJsonGrammar, {text}), "[" + text + "]");
  EXPECT_EQ(ebnf(kJsonGrammar, {"{", "[1,]", "\"\n\"", "01", "\"\\x\"", "nul", " 1"}), "");
}

TEST(Ebnf, RulesMayComeInAnyOrderAndCallThemselvesOnEitherSide) {
  EXPECT_EQ(ebnf("sum ::= sum \"+\" n | n\nroot ::= sum\nn ::= [0-9] n | [0-9]", {"1", "1+23+4", "+1", "1+", ""}),
            "[1][1+23+4]");
}

TEST(Ebnf, ARuleGoesOnOverLinesUntilTheNextOneBegins) {
  const std::string grammar =
      "root ::= \"a\"\n  \"b\" # not the end\n\n| (\r\n\"c\"\r\n) tail-1\r\n  tail-1\n::=\n\"d\"";
  EXPECT_EQ(ebnf(grammar, {"ab", "cd", "a", "c", "abcd"}), "[ab][cd]");
}

TEST(Ebnf, ADotBelongsToANameThatSomeRuleHas) {
  EXPECT_EQ(ebnf("root ::= a.b .c \"!\"\na.b ::= \"x\"\n .c ::= \"y\"", {"xy!", "x", "aqb"}), "[xy!]");
  EXPECT_EQ(ebnf("root ::= a.b\na ::= \"x\"\nb ::= \"y\"\na.c ::= \"z\"", {"xqy", "x.y", "xy"}), "[xqy][x.y]");
  EXPECT_EQ(ebnf("root ::= a.\na ::= \"x\"", {"xq", "x"}), "[xq]");
}

TEST(Ebnf, WhatOnlyXgrammarHasMeansWhatItMeansThere) {
  EXPECT_EQ(ebnf("root ::= [^] \"]\" \"\\/\"", {"a]/", "\n]/", "]/", "a]\\/"}), "[a]/][\n]/]");
}

TEST(Ebnf, AlternativesMayBeEmpty) {
  EXPECT_EQ(ebnf("root ::= | \"a\" | (\"b\" |) c () |\nc ::=\nd ::= \"d\"", {"", "a", "b", "d"}), "[][a][b]");
}

TEST(Ebnf, EveryEscapeOfALiteralIsItsCharacter) {
  const std::string all = "\\n\\r\\t\\f\\v\\b\\a\\e\\0\\\\\\\"\\'\\[\\]\\-\\?\\x41\\xe9\\u20AC\\U0001f600'\n";
  const std::string text = std::string("\n\r\t\f\v\b\a\x1b\0\\\"'[]-?A", 17) + "é€😀'\n";
  EXPECT_EQ(ebnf("root ::= \"" + all + "\"", {text}), "[" + text + "]");
  EXPECT_EQ(ebnf(R"(root ::= 'it\'s "so"')", {"it's \"so\""}), "[it's \"so\"]");
  EXPECT_EQ(ebnf("root ::= \"\"", {"", "\""}), "[]");
}

TEST(Ebnf, EveryEscapeOfACharacterClassIsItsCharacter) {
  const std::string marks = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
  std::string grammar = "root ::= [";
  std::vector<std::string> texts;
  std::string wanted;
  for (const char c : marks) {
    grammar += std::string("\\") + c;
    texts.emplace_back(1, c);
    wanted += std::string("[") + c + "]";
  }
  EXPECT_EQ(ebnf(grammar + "]", texts), wanted);
  EXPECT_EQ(ebnf("root ::= [\\n\\t\\x1f\\u00e9\\U0001F600]", {"\n", "\t", "\x1f", "é", "😀", "n", "x", "1"}),
            "[\n][\t][\x1f][é][😀]");
}

TEST(Ebnf, CharacterClassesHoldRangesDashesAndShorthands) {
  EXPECT_EQ(ebnf("root ::= [a-cx]", {"a", "b", "c", "d", "x", "-", ""}), "[a][b][c][x]");
  EXPECT_EQ(ebnf("root ::= [^a-c\n]", {"a", "c", "d", "é", "\n", "", "dd"}), "[d][é]");
  EXPECT_EQ(ebnf("root ::= [-+]", {"-", "+", ","}), "[-][+]");
  EXPECT_EQ(ebnf("root ::= [+-]", {"-", "+", ","}), "[-][+]");
  EXPECT_EQ(ebnf("root ::= [^-]", {"-", "+"}), "[+]");
  EXPECT_EQ(ebnf("root ::= [+--]", {"+", ",", "-", "."}), "[+][,][-]");
  EXPECT_EQ(ebnf("root ::= [α-ω^\"']", {"α", "λ", "ω", "a", "^", "\"", "'"}), "[α][λ][ω][^][\"][']");
  EXPECT_EQ(ebnf("root ::= [\\d.]", {"7", ".", "a", "٣"}), "[7][.]");
  EXPECT_EQ(ebnf("root ::= [\\w]", {"_", "z", "A", "0", "é", "-"}), "[_][z][A][0]");
  EXPECT_EQ(ebnf("root ::= [\\s-]", {" ", "\t", "-", "a"}), "[ ][\t][-]");
  EXPECT_EQ(ebnf("root ::= [\\D] | [^\\W\\D]", {"a", "7", "-"}), "[a][7][-]");
}

TEST(Ebnf, ADotIsAnyOneCharacter) {
  EXPECT_EQ(ebnf("root ::= . \".\"", {"a.", "\n.", "😀.", ".", "ab."}), "[a.][\n.][😀.]");
}

TEST(Ebnf, AClassOfVeryManyCharactersIsRead) {
  std::string grammar = "root ::= [";
  for (char32_t c = 0x10fffe; c > 0x20000; c -= 2) append_character(grammar, c);
  EXPECT_EQ(ebnf(grammar + "]", {"\U00020002", "\U00020003", "\U0010fffe"}), "[\U00020002][\U0010fffe]");
}

TEST(Ebnf, QuantifiersRepeatWhatStandsBeforeThem) {
  const std::vector<std::string> texts = {"", "ab", "abab", "ababab", "abababab", "a", "abb"};
  const std::pair<std::string, std::string> wanted[] = {{"*", "[][ab][abab][ababab][abababab]"},
                                                        {"+", "[ab][abab][ababab][abababab]"},
                                                        {"?", "[][ab]"},
                                                        {"{2}", "[abab]"},
                                                        {"{ 2 , }", "[abab][ababab][abababab]"},
                                                        {"{2,-1}", "[abab][ababab][abababab]"},
                                                        {"{2,3}", "[abab][ababab]"},
                                                        {"{,2}", "[][ab][abab]"},
                                                        {"{0}", "[]"},
                                                        {"{1}", "[ab]"},
                                                        {"{0,1000000000}", "[][ab][abab][ababab][abababab]"},
                                                        {"{2}{2}", "[abababab]"},
                                                        {"{2}?", "[][abab]"}};
  for (const auto& [quantifier, accepts] : wanted) {
    EXPECT_EQ(ebnf("root ::= \"ab\"" + quantifier, texts), accepts) << quantifier;
    EXPECT_EQ(ebnf("root ::= (\"a\" b)\n" + quantifier + "\nb ::= [b]", texts), accepts) << quantifier;
  }
}

TEST(Ebnf, WhatIsMalformedIsRefusedWhereItStands) {
  expect_refusals(
      RuleDialect::ebnf, Error::Kind::bad_request,
      {{"", "grammar line 1, column 1: a rule named \"root\", where every text begins, is missing"},
       {"a ::= \"x\"", "grammar line 1, column 1: a rule named \"root\""},
       {"root ::= * \"a\"", "grammar line 1, column 10: there is nothing before this quantifier to repeat"},
       {"root ::= (|+)", "grammar line 1, column 12: there is nothing before"},
       {"root ::= {2}", "grammar line 1, column 10: there is nothing before"},
       {"root ::= [z-a]", "grammar line 1, column 11: this range goes downwards"},
       {"root ::= []", "grammar line 1, column 10: this character class is empty"},
       {"root ::= [\\d-z]", "grammar line 1, column 11: a range needs a character at both ends"},
       {"root ::= [a-\\d]", "grammar line 1, column 11: a range needs a character at both ends"},
       {"root ::= [a", "grammar line 1, column 10: this character class is not closed with ]"},
       {"root ::= [a-", "grammar line 1, column 13: the text ends in the middle"},
       {"root ::= [\\q]", "grammar line 1, column 11: unknown escape \"\\\\q\""},
       {"root ::= \"a\n", "grammar line 1, column 10: this literal is not closed with \""},
       {"root ::= 'a\"", "grammar line 1, column 10: this literal is not closed with '"},
       {"root ::=\r\n\"\\d\"", "grammar line 2, column 2: unknown escape"},
       {"root ::= \"\\é\"", "grammar line 1, column 11: unknown escape \"\\\\é\""},
       {"root ::= \"\\", "grammar line 1, column 11: nothing follows the backslash"},
       {"root ::= \"\\x4\"", "grammar line 1, column 11: this escape needs 2 hexadecimal digits"},
       {"root ::= \"\\u123\"", "grammar line 1, column 11: this escape needs 4 hexadecimal digits"},
       {"root ::= \"\\U1234567", "grammar line 1, column 11: this escape needs 8 hexadecimal digits"},
       {"root ::= \"\\ud83d\"", "grammar line 1, column 11: half of a surrogate pair is no character"},
       {"root ::= \"\\U00110000\"", "grammar line 1, column 11: there is no character above U+10FFFF"},
       {"root ::= (\"a\"\nb ::= \"b\"", "grammar line 1, column 10: '(' is not closed"},
       {"root ::= (\"a\"", "grammar line 1, column 10: '(' is not closed"},
       {"root ::= \"a\")", "grammar line 1, column 13: ')' closes nothing"},
       {"root ::= \"a\"{2", "grammar line 1, column 15: '}' is expected here"},
       {"root ::= \"a\"{}", "grammar line 1, column 14: a number of repetitions is expected here"},
       {"root ::= \"a\"{,}", "grammar line 1, column 15: a number of repetitions is expected here"},
       {"root ::= \"a\"{-1}", "grammar line 1, column 14: a number of repetitions is expected here"},
       {"root ::= \"a\"{3,2}", "grammar line 1, column 13: from 3 to 2 repetitions is no range"},
       {"# é\nroot ::= é", "grammar line 2, column 10: \"é\" is not expected here"},
       {"root ::= ::= \"a\"", "grammar line 1, column 10: \":\" is not expected here"},
       {"root \"a\"", "grammar line 1, column 6: ::= is expected after \"root\""},
       {"\"a\"", "grammar line 1, column 1: a rule is expected here"},
       {"root ::= \"a\" b ::= \"b\"", "grammar line 1, column 14: the rule \"b\" must begin on a line of its own"},
       {"root ::= \"a\"\n\nroot ::= \"b\"",
        "grammar line 3, column 1: \"root\" is defined a second time, after line 1"},
       {"root ::= \"a\" |\n  un-known?", "grammar line 2, column 3: \"un-known\" is not defined"}});
}

TEST(Ebnf, WhatCannotBeHonouredIsNamed) {
  expect_refusals(RuleDialect::ebnf, Error::Kind::unsupported,
                  {{"root ::= \"a\" (= \"b\")", "grammar line 1, column 14: look-ahead, (= ...), is not supported"},
                   {"root ::= <think> .*", "grammar line 1, column 10: references to tokens"},
                   {"root ::= <[1000]>", "grammar line 1, column 10: references to tokens"},
                   {"root ::= !<[1000]>*", "grammar line 1, column 10: references to tokens"},
                   {"root ::= TagDispatch((\"<a>\", a))", "grammar line 1, column 10: xgrammar's TagDispatch(...)"},
                   {"root ::= Regex(\"a\")", "grammar line 1, column 10: xgrammar's Regex(...) is not supported"}});
  EXPECT_EQ(ebnf("root ::= Token (\"b\")\nToken ::= \"a\"", {"ab"}), "[ab]");  // a name like any other
}

}  // namespace
}  // namespace espalier::grammar
