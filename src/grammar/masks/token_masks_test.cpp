// Masks against the slow truth: a token may come exactly when all its bytes can be read one by one.
#include "grammar/masks/token_masks.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>

#include "base/json/json.h"
#include "grammar/grammar.h"
#include "grammar/grammar_expectations.h"
#include "testing/data.h"

namespace espalier::grammar {
namespace {

using Kind = Constraint::Kind;

// Words, digits, punctuation, JSON's marks, characters of several bytes and pieces of them: enough for loops to pay.
std::shared_ptr<Vocabulary> vocabulary(std::mt19937& random) {
  const std::vector<std::string> parts{"a",  "b",    "c",    "xy",       "z",        "A", "B",   "0", "1",  "9",
                                       " ",  "\"",   "\\",   ",",        ":",        "{", "}",   "[", "]",  ".",
                                       "-",  "_",    "\n",   "\xc3\xa9", "\t",       "é", "日",  "n", "me", "\r",
                                       "tr", "\xe6", "\x97", "😀",       "\xf0\x9f", "/", "u00", "e", "+"};
  std::set<std::string> texts(parts.begin(), parts.end());
  for (unsigned byte = 0; byte < 256; ++byte) texts.insert(std::string(1, static_cast<char>(byte)));
  for (const std::size_t times : {9, 17, 26, 45, 90}) {  // longer than most
    for (const char* part : {"a", " ", "xy", "a ", "é"}) {
      std::string run;
      for (std::size_t i = 0; i < times; ++i) run += part;
      texts.insert(run);
      texts.insert(run + "\"");
      texts.insert(run + "\",");
    }
  }
  while (texts.size() < 4000) {
    std::string text;
    for (unsigned i = random() % 6; i < 7; ++i) text += parts[random() % parts.size()];
    texts.insert(text);
  }
  std::vector<std::string> tokens(texts.begin(), texts.end());
  std::shuffle(tokens.begin(), tokens.end(), random);
  tokens.insert(tokens.begin() + 7, "");  // a special token
  return std::make_shared<Vocabulary>(std::move(tokens));
}

bool has(const MaskWords& mask, TokenId token) {
  return ((mask[static_cast<std::size_t>(token) / 32] >> (token % 32)) & 1) != 0;
}

std::vector<TokenId> tokens_in(const MaskWords& mask, const Vocabulary& vocabulary) {
  std::vector<TokenId> tokens;
  for (TokenId token = 0; token < static_cast<TokenId>(vocabulary.size()); ++token) {
    if (has(mask, token)) tokens.push_back(token);
  }
  return tokens;
}

// may_end: by the grammar's limits of states, where nothing is said of the mask.
void expect_true_mask(Grammar& grammar, State state, const std::string& label, bool may_end = false) {
  const auto mask = grammar.mask(state);
  if (may_end && !mask.ok()) return;
  ASSERT_TRUE(mask.ok()) << label << ": " << mask.error().message;
  for (TokenId token = 0; token < static_cast<TokenId>(grammar.vocabulary().size()); ++token) {
    const std::string_view text = grammar.vocabulary().text(token);
    const auto next = grammar.read(state, text);
    if (may_end && !next.ok()) return;
    ASSERT_TRUE(next.ok());
    const bool expected = !text.empty() && *next != Automaton::dead;
    ASSERT_EQ(has(**mask, token), expected) << label << ", token " << in_quotes(text);
  }
}

// Goes through the grammar by random tokens and looks at every mask on the way.
void follow(Grammar& grammar, std::mt19937& random, int steps, const std::string& label) {
  State state = grammar.start();
  std::string text;
  for (int step = 0; step < steps; ++step) {
    ASSERT_NO_FATAL_FAILURE(expect_true_mask(grammar, state, label + " behind " + in_quotes(text)));
    const std::vector<TokenId> allowed = tokens_in(**grammar.mask(state), grammar.vocabulary());
    if (allowed.empty()) {
      EXPECT_TRUE(grammar.complete(state)) << label << ": a dead end behind " << in_quotes(text);
      return;
    }
    const TokenId token = allowed[random() % allowed.size()];
    text += grammar.vocabulary().text(token);
    state = *grammar.read(state, token);
  }
}

TEST(TokenMasks, AreExactlyTheTokensThatCanBeRead) {
  const auto seed = static_cast<unsigned>(testing::seed());
  std::mt19937 random(seed);
  const auto tokens = vocabulary(random);
  const std::vector<std::pair<Kind, std::string>> constraints{
      {Kind::regex, "[a-z]+"},
      {Kind::regex, "[a-z ]{3,12}\\."},
      {Kind::regex, "(\\w+ )*\\w+"},
      {Kind::regex, "[^\"\\\\]{0,20}\""},
      {Kind::regex, ".*日.{2}"},
      {Kind::regex, "[^é]*"},
      {Kind::regex, "(a|ab|abc){1,40}c"},
      {Kind::regex, "\\S{2,5}( \\S+)*"},
      {Kind::regex, ".{3,}é"},
      {Kind::regex, "[^日😀]{0,12}(me)+"},
      {Kind::choice, R"(["a","ab","abc","日","é"])"},
      {Kind::ebnf, "root ::= \"(\" root \")\" | [a-c]+"},
      {Kind::ebnf, "root ::= root \"+\" t | t\nt ::= [0-9]+ | \"[\" root \"]\""},
      {Kind::ebnf, "root ::= root root | \"a\" | \"b\" root \"c\""},
      {Kind::ebnf, "root ::= x y z \"end\"\nx ::= \"a\"*\ny ::= (\"b\" | \"\")\nz ::= x y"},
      {Kind::ebnf, "root ::= (\"a\"? \"b\"? \"xy\"? | root \".\")* \"c\"?"},
      {Kind::ebnf, "root ::= (item \",\"){2,4} item?\nitem ::= [0-9]* | \"tr\" item"},
      {Kind::json_schema, "{}"},
      {Kind::json_schema, R"({"type":"string"})"},
      {Kind::json_schema, R"({"type":"string","minLength":2,"maxLength":9})"},
      {Kind::json_schema, R"({"type":"string","maxLength":1000})"},
      {Kind::json_schema, R"({"type":"string","minLength":3,"maxLength":900})"},
      {Kind::json_schema, R"({"type":"string","maxLength":0})"},
      {Kind::json_schema, R"({"type":"string","minLength":4,"maxLength":4})"},
      {Kind::json_schema, R"({"type":"string","minLength":30})"},
      {Kind::json_schema, R"({"type":"string","minLength":1,"maxLength":28,"pattern":"^\\S*(\\s\\S+){0,2}$"})"},
      {Kind::json_schema, R"({"type":"string","maxLength":40,"pattern":"^(\\S+\\s+){0,14}\\S+$"})"},
      {Kind::json_schema, R"({"type":"array","items":{"maxLength":150,"pattern":"^(\\S+\\s){0,25}\\S{2}$"}})"},
      {Kind::json_schema, R"({"type":"string","pattern":"^(a{0,30} ?){0,20}$","not":{"pattern":"^(\\S{0,25} )*a$"}})"},
      {Kind::json_schema, R"({"type":"string","pattern":"^(\\S+\\s+){0,3}\\S+$"})"},
      {Kind::json_schema, R"({"type":"string","pattern":"^[a-z0-9é]{1,9}$"})"},
      {Kind::json_schema, R"({"anyOf":[{"enum":["me","a"]},{"pattern":"^[Aa]b|[Mm]e|[Tt]r$"}]})"},
      {Kind::json_schema, R"({"type":"string","pattern":"me"})"},
      {Kind::json_schema, R"({"type":"string","pattern":"[a-cA-C0-9]{7}"})"},
      {Kind::json_schema, R"({"type":"string","format":"uri"})"},
      {Kind::json_schema, R"({"type":"string","pattern":"(a+\\.)*z+\\.me"})"},
      {Kind::json_schema, R"({"type":["number","null","string"],"minimum":-3.5,"maxLength":2})"},
      {Kind::regex, "(.|\\n){0,30}me -?\\d+"},
      {Kind::regex, "[a-z0-9 ]{1,16}\", \"[a-c]{2,3}\", [-+]?[0-9]*\\.?[0-9]{0,2}[^a]{1,9}"},
      {Kind::regex, "(x[a-zA-Z0-9-]{0,61}[a-z])?(\\.[a-z]([a-zA-Z0-9 -]{0,20}[a-z])?)*"},
      {Kind::json_schema, R"({"type":"string","pattern":"xyz|me1|日a|u00n|[a-c]{3}tr","maxLength":60})"},
      {Kind::json_schema, R"({"anyOf":[{"pattern":"xyz|me1|日a"},{"pattern":"^(\\S+ ){0,4}n$"},{"enum":["é","me"]}]})"},
      {Kind::regex, ".*a.{10}"},
      {Kind::json_schema,
       R"({"type":"object","properties":{"a":{"type":"string","maxLength":3},"me":{},"é\"":{"type":"null"}}})"},
      {Kind::json_schema, R"({"enum":["a","a\n","ab\\","\"","日本",true,12,120,-1,[],[1],{"a":1}]})"},
      {Kind::json_schema, R"({"type":"string","pattern":"^[a-z]+_","maxLength":8})"},
      {Kind::json_schema,
       R"({"properties":{"name":{"type":"string"},"n":{"type":"integer"}},"required":["n"],"type":"object"})"},
      {Kind::json_schema,
       R"({"type":"object","patternProperties":{"^a":{"type":"integer"}},"additionalProperties":{"type":"null"}})"},
      {Kind::json_schema,
       R"({"type":"object","patternProperties":{"a":{"type":"integer"},"b *$":{"type":"null"}},"minProperties":1})"},
      {Kind::json_schema, R"({"type":"array","items":{"enum":["a","ab",1,null,{"a":[]}]},"maxItems":3})"},
      {Kind::json_schema,
       R"({"oneOf":[{"properties":{"a":{"enum":["x"]},"b":{"type":"null"}},"required":["b"]},)"
       R"({"properties":{"a":{"enum":["n"]},"c":{"maxLength":2}}},{"properties":{"a":{"type":"null"}}}]})"},
      {Kind::json_schema,
       R"({"oneOf":[{"type":"integer","multipleOf":3},{"type":"integer","minimum":10,"maximum":99}]})"},
      {Kind::json_schema,
       R"({"$ref":"#/$defs/t","$defs":{"t":{"type":"object","properties":{"c":{"type":"array","items":{"$ref":"#/$defs/t"}}},"additionalProperties":false}}})"},
  };
  for (const auto& [kind, text] : constraints) {
    for (const bool flexible : {false, true}) {
      if (flexible && kind != Kind::json_schema) continue;
      auto grammar = Grammar::compile({kind, text, flexible}, tokens, patient());
      ASSERT_TRUE(grammar.ok()) << text << ": " << grammar.error().message;
      for (int round = 0; round < 3; ++round) {
        ASSERT_NO_FATAL_FAILURE(follow(**grammar, random, 6, text + ", seed " + std::to_string(seed)));
      }
    }
  }
}

// Few letters, so that random grammars meet them; runs that open many rules at once.
std::shared_ptr<Vocabulary> few_letters(std::mt19937& random) {
  constexpr std::string_view kLetters = "abc()[]{}\":,1 ";
  std::set<std::string> texts{"null", "{\"a\":", "{\"a\":{\"a\":", "[{\"a\":[", "}}}", "1,"};
  for (const char letter : kLetters) {
    for (const std::size_t times : {1, 2, 3, 4, 5, 6, 9, 30}) texts.insert(std::string(times, letter));
  }
  while (texts.size() < 500) {
    std::string text;
    const std::size_t letters = random() % 2 == 0 ? 5 : kLetters.size();
    for (unsigned i = random() % 6; i < 8; ++i) text += kLetters[random() % letters];
    texts.insert(text);
  }
  return std::make_shared<Vocabulary>(std::vector<std::string>(texts.begin(), texts.end()));
}

// Rules that call one another at any place: first, last, as all of a way, as a part that may be left out.
std::string random_rules(std::mt19937& random) {
  const unsigned rules = 1 + random() % 5;
  const auto name = [](unsigned rule) { return rule == 0 ? std::string("root") : "r" + std::to_string(rule); };
  std::string text;
  for (unsigned rule = 0; rule < rules; ++rule) {
    text += name(rule) + " ::= ";
    const unsigned ways = 1 + random() % 3;
    for (unsigned way = 0; way < ways; ++way) {
      if (way > 0) text += " | ";
      const unsigned parts = 1 + random() % 3;
      for (unsigned part = 0; part < parts; ++part) {
        static constexpr const char* kParts[] = {"\"a\"", "\"b\"", "\"(\"", "\")\"", "\"ab\"", "[a-c]", "\"(a\""};
        const bool calls = random() % 2 == 0;
        text +=
            calls ? name(static_cast<unsigned>(random()) % rules) : std::string(kParts[random() % std::size(kParts)]);
        static constexpr const char* kTimes[] = {"", "", "", "", "?", "*", "{2}", "+"};
        text += std::string(kTimes[random() % std::size(kTimes)]) + " ";
      }
    }
    text += "\n";
  }
  return text;
}

// Whether what the grammar says is true wherever random tokens lead, where its limit of open rules ends the text, too.
void follow_to_the_limit(Grammar& grammar, std::mt19937& random, const std::string& label) {
  State state = grammar.start();
  std::string text;
  for (int step = 0; step < 12; ++step) {
    const std::string place = label + " behind " + in_quotes(text);
    ASSERT_NO_FATAL_FAILURE(expect_true_mask(grammar, state, place, true));
    if (!grammar.usable()) return;  // some of these take many states for every letter
    const std::vector<TokenId> allowed = tokens_in(**grammar.mask(state), grammar.vocabulary());
    const auto said = grammar.allowed(state);
    ASSERT_EQ(said.ok(), !allowed.empty() || grammar.complete(state)) << place;
    if (!said.ok()) {
      ASSERT_EQ(said.error().code, "grammar_too_complex");
      ASSERT_FALSE(grammar.known(state));
    }
    if (allowed.empty()) return;
    const TokenId token = allowed[random() % allowed.size()];
    text += grammar.vocabulary().text(token);
    state = *grammar.read(state, token);
  }
}

TEST(TokenMasks, AreExactWhereNoMoreRulesMayBeOpened) {
  const auto seed = static_cast<unsigned>(testing::seed());
  std::mt19937 random(seed);
  const auto tokens = few_letters(random);
  int followed = 0, refused = 0;
  const auto look_at = [&](const Constraint& constraint, std::uint32_t nesting) {
    GrammarLimits limits;
    limits.nesting = nesting;
    limits.step_time = std::chrono::minutes(1);
    limits.states = 40'000;
    const std::string label = constraint.text + ", " + std::to_string(nesting) + " open, seed " + std::to_string(seed);
    const auto grammar = Grammar::compile(constraint, tokens, limits);
    if (!grammar.ok()) {
      EXPECT_TRUE(grammar.error().code == "grammar_too_complex" || grammar.error().code == "grammar_invalid") << label;
      ++refused;
      return;
    }
    ++followed;
    if (constraint.kind == Kind::ebnf) {
      EXPECT_TRUE((*grammar)->closing((*grammar)->start()).ok() || !(*grammar)->usable()) << label;
    }
    for (int round = 0; round < 2; ++round) follow_to_the_limit(**grammar, random, label);
  };
  for (int i = 0; i < 150 && !HasFatalFailure(); ++i) {
    const std::string rules = random_rules(random);
    for (const unsigned nesting : {1u, 2u, 3u + static_cast<unsigned>(random() % 6)})
      look_at({Kind::ebnf, rules}, nesting);
  }
  for (const char* schema : {
           "{}",
           R"({"type":"array","items":{"$ref":"#"}})",
           R"({"type":["array","integer"],"items":{"$ref":"#"},"uniqueItems":true})",
           R"({"type":"object","properties":{"a":{"$ref":"#"}},"additionalProperties":false})",
           R"({"anyOf":[{"type":"array","items":{"$ref":"#"}},{"properties":{"a":{"$ref":"#"}},"required":["a"]}]})",
       }) {
    for (const bool flexible : {false, true})
      for (std::uint32_t nesting = 1; nesting < 8 && !HasFatalFailure(); ++nesting)
        look_at({Kind::json_schema, schema, flexible}, nesting);
  }
  EXPECT_GT(followed, 100);
  EXPECT_GT(refused, 0);
}

// More alternatives than are followed one by one.
TEST(TokenMasks, AreExactForManyThousandsOfAlternatives) {
  const auto seed = static_cast<unsigned>(testing::seed());
  std::mt19937 random(seed);
  const auto tokens = vocabulary(random);
  Json choices = Json::array();
  for (int i = 0; i < 25'000; ++i) {
    std::string text;
    for (int letters = 0; letters < 6; ++letters) text += "abxyz019 me"[random() % 11];
    choices.push_back(text);
  }
  auto grammar = Grammar::compile({Kind::choice, choices.dump()}, tokens, patient());
  ASSERT_TRUE(grammar.ok()) << grammar.error().message;
  for (int round = 0; round < 4; ++round) follow(**grammar, random, 4, "many, seed " + std::to_string(seed));
}

TEST(TokenMasks, AreTheSameWhateverWasAskedBefore) {
  std::mt19937 random(7);
  const auto tokens = vocabulary(random);
  const Constraint constraint{Kind::json_schema, R"({"type":"object","properties":{"name":{"type":"string"}}})"};
  const auto cold = *Grammar::compile(constraint, tokens, patient()),
             warm = *Grammar::compile(constraint, tokens, patient());
  for (const char* text : {"{\"name\":\"", "{\"", "{\"name\":\"ab\\"})
    (void)warm->mask(*warm->read(warm->start(), text));
  const auto at = [](Grammar& grammar, std::string_view text) {
    return **grammar.mask(*grammar.read(grammar.start(), text));
  };
  for (const char* text : {"{", "{\"n", "{\"name\":\"ab"}) EXPECT_EQ(at(*cold, text), at(*warm, text)) << text;
}

}  // namespace
}  // namespace espalier::grammar
