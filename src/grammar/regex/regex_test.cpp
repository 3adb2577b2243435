// What patterns mean: the tree against a plain matcher over it, and every refusal with its kind and place.
#include "grammar/regex/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "grammar/regex/regex_model.h"
#include "testing/data.h"

namespace espalier::grammar {
namespace {

using namespace std::string_literals;
using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr auto kPython = RegexDialect::python;
constexpr auto kEcma = RegexDialect::ecma;

RegexOptions options_of(RegexDialect dialect) {
  RegexOptions options;
  options.dialect = dialect;
  options.look_ahead = true;
  return options;
}

Regex parsed(const std::string& pattern, RegexDialect dialect = kPython) {
  auto regex = parse_regex(pattern, options_of(dialect));
  EXPECT_TRUE(regex.ok()) << pattern << ": " << regex.error().message;
  return regex.ok() ? *regex : *parse_regex("");
}

bool matches(const std::string& pattern, std::string_view text, RegexDialect dialect = kPython) {
  const Regex regex = parsed(pattern, dialect);
  return RegexModel(regex).whole(text);
}

// The texts that match and those that do not.
struct Meaning {
  std::string pattern;
  std::vector<std::string> matched, others;
};

void expect_meanings(RegexDialect dialect, const std::vector<Meaning>& meanings) {
  for (const Meaning& meaning : meanings) {
    for (const auto& text : meaning.matched)
      EXPECT_TRUE(matches(meaning.pattern, text, dialect)) << meaning.pattern << " on " << text;
    for (const auto& text : meaning.others)
      EXPECT_FALSE(matches(meaning.pattern, text, dialect)) << meaning.pattern << " on " << text;
  }
}

struct Refusal {
  std::string pattern, construct;
  std::size_t at;
};

void expect_refused(RegexDialect dialect, Error::Kind kind, const std::vector<Refusal>& refusals) {
  for (const Refusal& refusal : refusals) {
    RegexOptions options;
    options.dialect = dialect;
    const auto regex = parse_regex(refusal.pattern, options);
    ASSERT_FALSE(regex.ok()) << refusal.pattern;
    EXPECT_EQ(regex.error().kind, kind) << refusal.pattern;
    EXPECT_EQ(regex.error().code, kind == Error::Kind::bad_request ? "grammar_invalid" : "") << refusal.pattern;
    EXPECT_THAT(regex.error().message, HasSubstr(refusal.construct)) << refusal.pattern;
    EXPECT_THAT(regex.error().message + ' ', HasSubstr(" at byte " + std::to_string(refusal.at) + ' '));
  }
}

TEST(Regex, EveryPublicPatternAgreesWithItsTextsOrIsRefused) {
  const auto path = testing::shared("schemas/regex_public.jsonl");
  if (path.empty()) GTEST_SKIP() << "left out: shared/schemas is not beside the checkout";
  std::istringstream lines(testing::read_file(path));
  int texts = 0;
  for (std::string line; std::getline(lines, line);) {
    const Json item = Json::parse(line);
    const std::string expect = item.value("expect", "ok");
    const auto regex = parse_regex(item.at("spec").get<std::string>());
    if (expect == "bounded") continue;
    ASSERT_EQ(regex.ok(), expect == "ok") << item.at("id");
    for (const Json& test : item.value("tests", Json::array())) {
      const std::string text = test.at("text");
      EXPECT_EQ(RegexModel(*regex).whole(text), test.at("valid").get<bool>()) << item.at("id") << " on " << text;
      ++texts;
    }
  }
  EXPECT_GE(texts, 1000);
}

TEST(Regex, TheTreeHasNoConcatOrEitherOfOneAndChildrenBeforeParents) {
  const Regex regex = parsed("((a)|(?:b(c|d){2,3}?)|)x");
  for (std::size_t i = 0; i < regex.nodes.size(); ++i) {
    const RegexNode& node = regex.nodes[i];
    for (const int child : node.children) EXPECT_LT(child, static_cast<int>(i));
    const bool joins = node.kind == RegexNode::Kind::concat || node.kind == RegexNode::Kind::either;
    EXPECT_TRUE(!joins || node.children.size() >= 2);
  }
  EXPECT_EQ(parsed("((?:(a)))").nodes.size(), 1u);
  EXPECT_EQ(parsed("").nodes.back().kind, RegexNode::Kind::empty);
}

TEST(Regex, EqualSetsAreKeptOnceHoweverTheyAreWritten) {
  EXPECT_EQ(parsed("aa[a]\\x61[aa](?i:1)1").sets.size(), 2u);
  EXPECT_EQ(parsed("\\w[\\w]\\w\\d[0-9]\\p{Nd}").sets.size(), 3u);
  EXPECT_EQ(parsed("..(?s:.[^\\d]\\D)").sets.size(), 3u);
  EXPECT_EQ(parsed("[^\\s\\S]").sets, std::vector<CodePointSet>{CodePointSet()});
}

TEST(Regex, QuantifiersCountAndOtherBracesAreCharacters) {
  expect_meanings(kPython, {{"a{2}", {"aa"}, {"a", "aaa"}},
                            {"a{2,}?", {"aa", "aaaa"}, {"a"}},
                            {"a{,2}", {"", "aa"}, {"aaa"}},
                            {"a{,}", {"", "aaa"}, {"a{,}"}},
                            {"(?:a|b){0}", {""}, {"a"}},
                            {"a{}{x}{1,2", {"a{}{x}{1,2"}, {"a"}},
                            {"(a*)*b??", {"", "aaab"}, {"bb"}}});
  expect_meanings(kEcma, {{"a{,2}", {"a{,2}"}, {"aa"}}, {"}]{", {"}]{"}, {}}, {"a{1,2}", {"a", "aa"}, {"aaa"}}});
}

TEST(Regex, BracketsAreReadAsEachDialectDoes) {
  expect_meanings(kPython, {{"[]abc]+", {"]abc"}, {"d"}},
                            {"[^]abc]", {"d"}, {"]", "a"}},
                            {"[a\\]]+", {"a]"}, {"\\"}},
                            {"[a-c-z]+", {"abc-z"}, {"d"}},
                            {"[[:a]+", {"[:a"}, {"]"}},
                            {"[-a-]+", {"-a"}, {"b"}},
                            {"[\\d\\s\\p{Greek}\\b\\]-a]+", {"1 \u03b1\b]_a"}, {"b", "\\"}},
                            {"[^\\D1]", {"0"}, {"1", "a"}}});
  expect_meanings(kEcma, {{"[]", {}, {"", "a"}},
                          {"[^]", {"a", "\n", "\u2028"}, {""}},
                          {"[^]]", {"a]"}, {"a", "]"}},
                          {"[\\w-.]+", {"a-."}, {"/"}},
                          {"[+-\\d]+", {"+-1"}, {",", "."}}});
}

TEST(Regex, EscapesAreReadAsEachDialectDoes) {
  expect_meanings(kPython, {{R"(\x41\u0042\U0001F600\0\07\101\t\.\_\é)", {"AB😀\0\aA\t._é"s}, {"A"}},
                            {R"([\x41\0\b\1\07\\])", {"A", "\0"s, "\b", "\1", "\a", "\\"}, {"b", "1"}},
                            {R"(\Aa\Z\z)", {"a"}, {"a\n"}},
                            {R"(\pL\p{Lu}\P{L}[\PL])", {"aB12"}, {"ab12", "aBcd"}}});
  expect_meanings(kEcma, {{R"(\x41\u0042\u{1F600}\uD83D\uDE00\0\cJ\/\-\_\€)", {"AB😀😀\0\n/-_€"s}, {"A"}},
                          {R"([\cA-\cC\u{61}]+)", {"\1\2\3a"}, {"\4", "A"}},
                          {R"(\p{Letter}\p{digit}\P{sc=Greek})", {"a\u09EAb"}, {"\u09EAab"}}});
}

TEST(Regex, PerlClassesAreUnicodeInPythonAndAsciiInEcma) {
  expect_meanings(kPython, {{"\\w+", {"aé漢²½_"}, {"-", "\u0301"}},
                            {"\\d", {"7", "\u0664"}, {"²", "½"}},
                            {"\\s", {" ", "\x1c", "\u0085", "\u3000"}, {"\ufeff", "\u200b"}},
                            {"(?a)\\w\\d\\s", {"a1\v"}, {"é1 ", "a\u0664 ", "a1\u3000"}},
                            {"(?a:\\w)\\W(?u:\\w)", {"a-é"}, {"é-é", "aéé"}}});
  expect_meanings(kEcma, {{"\\w", {"a", "_"}, {"é"}},
                          {"\\W", {"é"}, {"_"}},
                          {"\\d", {"7"}, {"\u0664"}},
                          {"\\s", {"\v", "\u00a0", "\ufeff", "\u2029", "\u3000"}, {"\x1c", "\u0085", "\u180e"}}});
}

TEST(Regex, TheDotLeavesOutTheEndsOfLinesOfItsDialect) {
  expect_meanings(kPython, {{".", {"\r", "\u2028", "😀"}, {"\n", ""}}, {"(?s).", {"\n"}, {}}});
  expect_meanings(kEcma, {{".", {"\u0085", "😀"}, {"\n", "\r", "\u2028", "\u2029"}}, {"(?s:.)", {"\n", "\u2029"}, {}}});
}

TEST(Regex, CaseIsIgnoredWhereTheFlagSays) {
  expect_meanings(kPython, {{"(?i)straße", {"STRAßE", "Straẞe", "\u017ftraße"}, {"strasse"}},
                            {"(?i:a)b", {"Ab"}, {"aB"}},
                            {"(?i)a(?-i:b)c", {"AbC"}, {"ABC"}},
                            {"(?i)[k-m]+", {"K\u212Al"}, {"j"}},
                            {"(?i)[^k]", {"l"}, {"K", "\u212A"}},
                            {"(?ia)[^k]", {"\u212A"}, {"K", "k"}},
                            {"(?i)i", {"I", "\u0130", "\u0131"}, {"j"}},
                            {"(?i)\\p{Lu}", {"a", "A"}, {"1"}}});
  expect_meanings(kEcma, {{"(?i:s)", {"S", "\u017f"}, {}},
                          {"(?i:i)", {"I"}, {"\u0130", "\u0131"}},
                          {"(?i:\\w)", {"\u017f", "\u212A"}, {"é"}},
                          {"(?i:[^\\W])", {"\u017f"}, {"é"}}});
}

TEST(Regex, FlagsHoldForTheirGroupOrFromTheBeginning) {
  expect_meanings(kPython, {{"(?i)(?s)a.", {"A\n"}, {}},
                            {"(?s:.(?-s:.)).", {"\nab"}, {"a\nb", "ab\n"}},
                            {"(?x) a  b # c)\n [ ] \\  +", {"ab  ", "ab   "}, {"ab"}},
                            {"(?x: a # b\n )  a", {"a  a"}, {"aa"}},
                            {"a(?#b)*", {"", "aaa"}, {"b"}},
                            {"(?m)ab|c", {"ab", "c"}, {"a"}}});
}

TEST(Regex, GroupsAnchorsAndLookAheadMeanWhatTheySay) {
  expect_meanings(kPython, {{"(?P<year>\\d+)(?:-(x))?", {"1", "1-x"}, {"1-"}},
                            {"^ab$|^$", {"ab", ""}, {"a"}},
                            {"a^b", {}, {"ab"}},
                            {"(?=.*\\d)[a-z\\d]{2}", {"a1"}, {"aa"}},
                            {"(?!foo)[a-z]+", {"bar", "fo"}, {"food"}},
                            {"a(?=b)*b", {"ab"}, {"a"}},
                            {"(|a|bb)", {"", "a", "bb"}, {"b"}}});
  const Regex search = parsed("^a|b$(?<n>)", kEcma);
  EXPECT_TRUE(RegexModel(search).anywhere("axx"));
  EXPECT_TRUE(RegexModel(search).anywhere("xxb"));
  EXPECT_FALSE(RegexModel(search).anywhere("xab\n"));
}

TEST(Regex, WhatIsNotRegularIsRefusedByNameAndPlace) {
  for (const auto dialect : {kPython, kEcma})
    expect_refused(dialect, Error::Kind::unsupported,
                   {{"ab(?<=a)b", "look-behind (?<=", 2},
                    {"(?<!a)b", "look-behind (?<!", 0},
                    {"é(?=a)", "look-ahead (?=", 2},
                    {"(?!a)", "look-ahead (?!", 0},
                    {"(a|b)\\1", "back-reference \\1", 5},
                    {"(?P<q>a)(?P=q)", "back-reference (?P=", 8},
                    {"(?<q>a)\\k<q>", "back-reference \\k", 7},
                    {"a\\b", "word boundary \\b", 1},
                    {"\\B", "word boundary \\B", 0},
                    {"(?>a+)b", "atomic group (?>", 0},
                    {"\\((?R)?\\)", "recursion (?R", 2},
                    {"(a(?1)?)", "recursion (?1", 2},
                    {"(a(?-1)?)", "recursion (?-1", 2},
                    {"(a)?(?(1)b|c)", "conditional (?(", 4},
                    {"(?m:^a)", "^ with the flag m", 4},
                    {"(?m:a$)", "$ with the flag m", 5}});
  expect_refused(kPython, Error::Kind::unsupported,
                 {{"a*+", "possessive quantifier *+", 1},
                  {"a{2}+", "possessive quantifier {2}+", 1},
                  {"\\N{DIGIT ONE}", "character by name \\N", 0}});
}

TEST(Regex, MalformedPatternsAreRefusedByNameAndPlace) {
  for (const auto dialect : {kPython, kEcma})
    expect_refused(dialect, Error::Kind::bad_request,
                   {{"x(abc", "missing )", 1},
                    {"abc)", "a ) that closes no group", 3},
                    {"a[z-a]", "bad class range z-a", 2},
                    {"a[abc", "class that does not end", 1},
                    {"[a-", "class that does not end", 0},
                    {"a{5,2}", "{5,2}", 1},
                    {"a{1000000001}", "repetitions", 1},
                    {"a{99999999999999999999999999}", "repetitions", 1},
                    {"*a", "nothing to repeat", 0},
                    {"a|+", "nothing to repeat", 2},
                    {"(?:{2})", "nothing to repeat", 3},
                    {"^*", "nothing to repeat", 1},
                    {"a**", "a quantifier behind a quantifier", 2},
                    {"abc\\", "a backslash with nothing behind it", 3},
                    {"\\q", "bad escape \\q", 0},
                    {"\\x4", "bad escape \\x4", 0},
                    {"[\\8]", "bad escape \\8", 1},
                    {"\\p{Nonsense}", "no class named \"Nonsense\"", 0},
                    {"\\p{L", "class without a name", 0},
                    {"\\p{}", "no class named", 0},
                    {"(?<n", "bad name of a group", 3},
                    {"(?<1>a)", "bad name of a group", 3},
                    {"(?q:a)", "unknown group or flag (?q", 0},
                    {"(?", "unknown group", 0},
                    {"(?i", "bad flags (?i", 0},
                    {"(?i-i:a)", "bad flags", 0},
                    {"a(?i)b", "flags for the whole pattern", 1},
                    {"ab\xff", "not UTF-8", 2},
                    {"\xc3", "not UTF-8", 0},
                    {"\xed\xa0\x80", "not UTF-8", 0}});
  expect_refused(kPython, Error::Kind::bad_request,
                 {{"\\400", "bad escape \\400", 0},
                  {"[\\w-z]", "bad class range \\w-z", 1},
                  {"[]", "class that does not end", 0},
                  {"\\U00110000", "bad escape", 0},
                  {"(?P<n>a)(?P<n>b)", "second group named n", 8},
                  {"(?au:a)", "bad flags", 0},
                  {"(?#abc", "comment that does not end", 0}});
  expect_refused(kEcma, Error::Kind::bad_request,
                 {{"a\\Z", "bad escape \\Z", 1},
                  {"\\a", "bad escape \\a", 0},
                  {"\\00", "bad escape", 0},
                  {"\\c1", "bad escape \\c", 0},
                  {"\\u{110000}", "bad escape", 0},
                  {"a*+", "a quantifier behind a quantifier", 2},
                  {"(?x:a)", "unknown group or flag (?x", 0}});
}

void expect_too_complex(const std::string& pattern, const RegexOptions& options) {
  const auto regex = parse_regex(pattern, options);
  ASSERT_FALSE(regex.ok());
  EXPECT_EQ(regex.error().kind, Error::Kind::too_large);
  EXPECT_EQ(regex.error().code, "grammar_too_complex");
}

TEST(Regex, DepthBytesPartsAndClassesAreLimited) {
  RegexOptions options;
  options.depth = 3;
  options.bytes = 30;
  options.nodes = 20;
  EXPECT_TRUE(parse_regex("(((a)))(b)", options).ok());
  expect_too_complex("((((a))))", options);
  EXPECT_TRUE(parse_regex(std::string(19, 'a'), options).ok());
  expect_too_complex(std::string(20, 'a'), options);  // and one that holds them together
  expect_too_complex("[" + std::string(29, 'a') + "]", options);
  std::string classes;
  for (char32_t c = 0x4e00; c < 0x4e00 + 6000; ++c)
    classes += "[^\\w" +
               std::string{static_cast<char>(0xe0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 0x3f)),
                           static_cast<char>(0x80 | (c & 0x3f))} +
               "]";
  expect_too_complex(classes, {});
}

TEST(Regex, SurrogatesMatchNothingUnlessTwoOfEcmaMakeACharacter) {
  expect_meanings(kPython, {{"[a\\uD800-\\uDFFF]", {"a"}, {"b"}}, {"a|\\uD83D\\uDE00", {"a"}, {"😀"}}});
  expect_meanings(kEcma, {{"[^\\uD800-\\uDFFF]", {"a", "😀"}, {}}, {"[\\uD83D\\uDE00-\\uD83D\\uDE02]", {"😁"}, {"a"}}});
}

}  // namespace
}  // namespace espalier::grammar
