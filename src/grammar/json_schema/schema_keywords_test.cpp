#include <fmt/format.h>
#include <gtest/gtest.h>

#include "grammar/grammar_expectations.h"

namespace espalier::grammar {
namespace {

constexpr auto kSchema = Constraint::Kind::json_schema;

TEST(SchemaKeywords, ItemsDifferInValueHoweverTheyAreWritten) {
  expect(kSchema, {R"({"type":"array","uniqueItems":true})",
                   {"[]", "[1]", "[1,2,12]", R"(["a","b","ab"])", R"([1,"1",[1],{"a":1}])", "[[1,2],[2,1]]",
                    R"([{"a":1},{"a":2},{"b":1}])", "[0,false,null,\"\"]"},
                   {"[1,1]", "[1,2,1]", "[1,1.0]", "[10,1e1]", "[0,-0]", R"(["a","\u0061"])", "[null,null]",
                    R"([{"a":1,"b":2},{"b":2,"a":1}])", "[[1,2],[1,2]]", "[[1,2],[3],[1,2.0]]"}});
  expect(kSchema, {R"({"items":{"type":"array","uniqueItems":true},"uniqueItems":true})",
                   {"[[1,2],[1]]", "[[1,2],[2,1],[]]"},
                   {"[[1,1]]", "[[1,2],[1,2]]", "[[],[]]"}});
}

// As readers of JSON have it the last member of a name is the value's.
TEST(SchemaKeywords, AnItemWithANameTwiceIsLikeItsLastMembers) {
  const std::string array = R"({"type":"array","uniqueItems":true,"minItems":2)";
  expect(kSchema,
         {array + "}",
          {R"([{"a":1,"a":2},{"a":1}])", R"([{"a":1},{"":1,"":2},3])", R"([[{"":1,"":2}],[{"":1}]])"},
          {R"([{"a":1,"a":2},{"a":2}])", R"([{"a":1},{"a":2,"a":1}])", R"([[{"a":{"b":1,"b":2}}],[{"a":{"b":2}}]])"}});
  expect(kSchema, {array + R"(,"contains":{"enum":[[],true]}})",
                   {R"([{"a":"x","":"a"},{"":"x","":""},true])"},
                   {R"([{"a":"x","":"a"},{"":"x","":""}])"}});
}

// Wherever a limit is met, reading ends there: what is only half made must not be taken for something else.
TEST(SchemaKeywords, LimitsThatAreMetAnywhereEndTheTextOnly) {
  const std::string schema =
      R"({"type":"array","uniqueItems":true,"items":{"anyOf":[{"type":"number"},{"type":"string"},)"
      R"({"type":"object","properties":{"a":{"not":{"enum":["x",1]}}},"minProperties":1}]}})";
  const std::string text = R"([12345678901234567890,"text",{"a":2,"b":[3]},{"a":[1.5],"c":"x"},0.25,"more"])";
  std::size_t ended = 0;
  for (std::size_t nodes = 50; nodes < 12'000; nodes += nodes / 16) {
    GrammarLimits limits;
    limits.nodes = nodes;
    const auto grammar = Grammar::compile({kSchema, schema}, bytes_only(), limits);
    if (!grammar.ok()) continue;
    const auto state = (*grammar)->read((*grammar)->start(), text);
    if (!state.ok()) ++ended;
    if (state.ok()) {
      EXPECT_TRUE((*grammar)->complete(*state)) << nodes;
    }
  }
  EXPECT_GT(ended, 0u);
}

// Of numbers that are too long to be told apart from their neighbours one stands for those.
TEST(SchemaKeywords, ItemsThatAreLongNumbersLeaveOthers) {
  const std::string array = R"({"type":"array","uniqueItems":true,"minItems":2,"items":)";
  const std::string sevens(500, '7'), zeros(500, '0');
  expect(kSchema, {array + R"({"type":"number"}})",
                   {"[1e99999,1]", "[-1e99999,1]", "[1e-99999,0]", "[-1E-99999,1,0]", "[1e99999999999999999999,-2]",
                    "[" + sevens + "," + sevens + "8]", "[0." + sevens + ",0.7]", "[0." + zeros + "1,0]",
                    "[0." + zeros + "1e502,1]", "[0e99999,1]"},
                   {"[1e99999,1e99999]", "[0e99999,0]", "[0e99999999999999999999,0]", "[" + sevens + "," + sevens + "]",
                    "[" + sevens + "," + sevens + ".0]", "[1" + zeros + "e-500,1]", "[0." + zeros + "1e501,1]",
                    "[1e9999,1" + zeros + "000]"}});
  const std::string nines(700, '9');
  expect(kSchema, {array + R"({"type":"number","minimum":-1,"maximum":1}})",
                   {"[0." + nines + ",0.999]", "[-0." + nines + ",0]", "[0.5" + nines + ",0.50,0.6]"},
                   {"[0." + nines + ",0." + nines + "]", "[-0." + nines + ",-0." + nines + "]"}});
  expect(kSchema, {array + R"({"type":"array"}})",
                   {"[[1e99999],[1]]", "[[1e99999],[]]", "[[" + nines + "],[7]]"},
                   {"[[" + nines + "],[" + nines + "]]"}});
}

TEST(SchemaKeywords, AnArrayGoesOnOnlyWhereThereIsAnotherValue) {
  expect(kSchema, {R"({"items":{"enum":["a","b"]},"uniqueItems":true,"type":"array"})",
                   {"[]", R"(["b"])", R"(["b","a"])"},
                   {R"(["a","a"])", R"(["a","b",)", R"(["a","b","a"])"}});
  EXPECT_EQ(refused(kSchema, R"({"items":{"type":"boolean"},"uniqueItems":true,"minItems":3,"type":"array"})").code,
            "grammar_invalid");
  expect(kSchema,
         {R"({"items":{"type":"integer","minimum":0,"maximum":2},"uniqueItems":true,"minItems":3,"type":"array"})",
          {"[2,0,1]"},
          {"[2,0,0]", "[-0,0,1]", "[0,1]"}});
  expect(kSchema,
         {R"({"prefixItems":[{"type":"boolean"},{"type":"boolean"}],"items":false,"uniqueItems":true,"type":"array"})",
          {"[true,false]", "[false]"},
          {"[true,true]"}});
}

// Listed values count by what they are, also objects and arrays, and numbers in two spellings once.
TEST(SchemaKeywords, ListedItemsComeOnceEach) {
  const auto listed = [](const std::string& values, const std::string& more = "") {
    return R"({"type":"array","uniqueItems":true,"items":{"enum":)" + values + "}" + more + "}";
  };
  expect(kSchema, {listed(R"([1,"1",null,true,[1],{"a":[1]}])"),
                   {"[]", R"([1,"1",null,true,[1],{"a":[1]}])", R"([{"a":[1]},true,1,[1],"1"])"},
                   {"[1,1]", "[[1],[1]]", R"([{"a":[1]},null,{"a":[1]}])", "[true,true]", "[null,null]", "[2]"}});
  expect(kSchema, {R"({"type":"array","uniqueItems":true,"items":{"const":{"a":[1,{}]}}})",
                   {"[]", R"([{"a":[1,{}]}])"},
                   {R"([{"a":[1,{}]},{"a":[1,{}]}])", R"([{"a":[1]}])"}});
  expect(kSchema, {R"({"uniqueItems":true,"enum":[[1,2],[1,1],[[],{}],[2]]})", {"[1,2]", "[[],{}]", "[2]"}, {"[1,1]"}});
  expect(kSchema, {listed(R"([[1],[2],[3]])", R"(,"minItems":3)"), {"[[2],[1],[3]]"}, {"[[1],[2]]", "[[1],[2],[1]]"}});
  for (const std::string& schema :
       {listed(R"(["a","a"])", R"(,"minItems":2)"), listed("[1,1.0]", R"(,"minItems":2)"),
        listed("[0,-0.0]", R"(,"minItems":2)"), listed("[[1],[2],[1.0]]", R"(,"minItems":3)"),
        listed(R"([{"a":1,"b":2},{"b":2,"a":1.0},{}])", R"(,"minItems":3)"),
        std::string(R"({"type":"array","uniqueItems":true,"minItems":2,"items":{"const":{"a":[1]}}})"),
        std::string(R"({"uniqueItems":true,"const":[{"a":1},{"a":1}]})")}) {
    EXPECT_EQ(refused(kSchema, schema).code, "grammar_invalid") << schema;
  }
}

// \u001f and \u001F: whoever must find so many different ones would be led to where there is no other.
TEST(SchemaKeywords, ControlCharactersCountOnceWhateverTheirEscape) {
  const std::string array = R"({"type":"array","uniqueItems":true,"items":{"type":"string","pattern":)";
  const std::string object = R"({"type":"object","additionalProperties":false,"minProperties":2,"patternProperties":)";
  expect(kSchema, {array + R"("^[\\x1e\\x1f]$"},"minItems":2})",
                   {R"(["\u001f","\u001e"])", R"(["\u001F","\u001e"])"},
                   {R"(["\u001f","\u001F"])", R"(["\u001E","\u001e"])"}});
  expect(kSchema, {object + R"({"^[\\x1e\\x1f]$":true}})",
                   {R"({"\u001f":1,"\u001e":2})", R"({"\u001F":1,"\u001e":2})"},
                   {R"({"\u001f":1,"\u001F":2})"}});
  // The first item must leave the second one its only value.
  expect(kSchema, {R"({"type":"array","uniqueItems":true,"prefixItems":[{"pattern":"^[\\x1e\\x1f]$","type":"string"},)"
                   R"({"const":"\u001f"}],"minItems":2,"items":false})",
                   {R"(["\u001e","\u001f"])", R"(["\u001E","\u001F"])"},
                   {R"(["\u001f","\u001f"])", R"(["\u001F","\u001f"])"}});
  for (const std::string& schema : {array + R"("^[\\x1f\\n]$"},"minItems":3})", array + R"("^\\x1f$"},"minItems":2})",
                                    object + R"({"^\\x1f$":true}})"}) {
    EXPECT_EQ(refused(kSchema, schema).code, "grammar_invalid") << schema;
  }
}

TEST(SchemaKeywords, ItemsLeaveOthersTheValuesThatThoseNeed) {
  const std::string array = R"({"type":"array","uniqueItems":true,"prefixItems":)";
  const auto begins = [&](const std::string& schema, const std::string& text) {
    const auto grammar = *Grammar::compile({kSchema, array + schema}, bytes_only(), patient());
    return *grammar->read(grammar->start(), text) != Automaton::dead;
  };
  const std::string two = R"([{"enum":["a","b"]},{"const":"a"}],"minItems":2})";
  EXPECT_TRUE(begins(two, R"(["b)") && begins(two, R"(["b","a)"));
  EXPECT_FALSE(begins(two, R"(["a)")) << "nothing could follow";
  const std::string numbers =
      R"([{"type":"integer","minimum":1,"maximum":3},{"enum":[1,2]},{"enum":[2,1.0]}],"minItems":3})";
  EXPECT_TRUE(begins(numbers, "[3,1,2") && begins(numbers, "[3,2,1"));
  EXPECT_FALSE(begins(numbers, "[1"));
  expect(kSchema, {array + R"([{"enum":["a","b"]},{"const":"a"}],"minItems":2})",
                   {R"(["b","a"])", R"(["b","a",1])"},
                   {R"(["a","b"])", R"(["a","a"])", R"(["b","b"])"}});
  expect(kSchema, {array + R"([{"enum":["a","z"]}],"items":{"enum":["a","b"]},"minItems":3})",
                   {R"(["z","a","b"])", R"(["z","b","a"])"},
                   {R"(["a","b"])", R"(["z","b"])", R"(["z","a","a"])"}});
  expect(kSchema, {array + R"([{"enum":[[1],[2]]},{"enum":[[1],[2]]},{"enum":[[1],[2],[3]]}],"minItems":3})",
                   {"[[1],[2],[3]]", "[[2],[1],[3],[4]]"},
                   {"[[1],[2],[1]]", "[[1],[3],[2]]"}});
  // Also objects and arrays, and of items that may be anything.
  const std::string no_members = R"([{}],"items":{"type":"object","maxProperties":0},"minItems":2})";
  expect(kSchema, {array + no_members, {R"([{"":6},{}])", "[[],{}]"}, {"[{},{}]", "[{}]", R"([{},{"":6}])"}});
  EXPECT_FALSE(begins(no_members, "[{}"));
  expect(kSchema, {array + R"([true,{"type":"array","items":{"enum":["a","b"]},"minItems":1,"maxItems":1}],)" +
                       R"("items":{"const":["b"]},"minItems":3})",
                   {R"([1,["a"],["b"]])", R"([[],["a"],["b"]])"},
                   {R"([["a"],["b"],["b"]])", R"([1,["b"],["a"]])", R"([["b"],["a"],["b"]])"}});
  expect(kSchema,
         {array + R"([{"type":"object"},{"properties":{"a":{"type":"null"}},"required":["a"],"type":"object",)" +
              R"("additionalProperties":false}],"minItems":2})",
          {R"([{},{"a":null}])", R"([{"a":1},{"a":null}])"},
          {R"([{"a":null},{"a":null}])"}});
  EXPECT_EQ(refused(kSchema, array + R"([{"enum":[1,2]},{"enum":[2,1]},{"enum":[1.0,2]}],"minItems":3})").code,
            "grammar_invalid");
}

// The sign says nothing there, and with it the first digit could not be forced to follow what stands before.
TEST(SchemaKeywords, ZeroHasNoSignAboveABoundOfZero) {
  expect(kSchema, {R"({"type":"integer","minimum":0})", {"0", "7"}, {"-0", "-1"}});
  expect(kSchema, {R"({"type":"number","minimum":0,"maximum":1})", {"0.0", "0.5"}, {"-0", "-0.0"}});
  expect(kSchema, {R"({"type":"number","minimum":-1})", {"-0", "-0.0", "-0.5"}, {"-1.5"}});
  expect(kSchema, {R"({"type":"number","not":{"const":0}})", {"1", "-0.5"}, {"0", "-0", "-0.0", "0.0"}});
  expect(kSchema, {R"({"type":"number","not":{"minimum":0}})", {"-1"}, {"0", "-0", "-0.0"}});
}

TEST(SchemaKeywords, FormatsOfNumbersLeaveMembersInTheirOrder) {
  const auto with_format = [](const std::string& format) {
    return R"({"type":"object","required":["b"],"properties":{"b":{},"a":{"format":")" + format + R"("}}})";
  };
  for (const char* format : {"int32", "double", "utc-millisec", "date-time"})
    expect(kSchema, {with_format(format), {R"({"b":1})"}, {R"({"a":2,"b":1})"}});
  expect(kSchema, {with_format("color"), {R"({"a":2,"b":1})"}, {}});
}

// A token may come exactly when its bytes can be read, also where it ends one item and begins or ends the next.
TEST(SchemaKeywords, MasksKnowWhichItemsHaveBeenWritten) {
  std::vector<std::string> tokens;
  for (unsigned byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (const char* more : {"\",\"",        "a\",\"a",
                           "a\",\"a\"",    "a\",\"b\"",
                           "a\"]",         "\",",
                           "\"a\",\"a\"",  "\"b\",",
                           "1,1",          "1,2",
                           ",1",           "],[",
                           "1],[1",        "1],[1]",
                           "\":1,\"a\"",   "a\":1,\"a\":1}",
                           "a\":1,\"b\":", "{\"a\":\"\",\"a\"",
                           "a\":1}",       "\":\"\",\"a\":1",
                           "true,",        "true,false,",
                           "[1,1",         "\"a\",\"b\","}) {
    tokens.emplace_back(more);
  }
  const auto vocabulary = std::make_shared<Vocabulary>(tokens);
  const std::string array = R"({"type":"array","uniqueItems":true)";
  for (const std::string& schema :
       {array + "}", array + R"(,"items":{"type":"string"}})", array + R"(,"items":{"enum":["a","b"]}})",
        array + R"(,"items":{"pattern":"^(a|b.*)$","type":"string"}})", array + R"(,"items":{"type":"boolean"}})",
        array + R"(,"items":{"type":"array","uniqueItems":true,"items":{"enum":[1,2]}}})",
        std::string(R"({"type":"object","minProperties":2})"),
        std::string(R"({"type":"object","minProperties":2,"propertyNames":{"enum":["a","b"]}})"),
        std::string(R"({"type":"object","not":{"additionalProperties":{"type":"integer"}}})")}) {
    const auto grammar = *Grammar::compile({kSchema, schema}, vocabulary, patient());
    for (const char* text : {"",
                             R"([)",
                             R"([")",
                             R"(["a)",
                             R"(["a")",
                             R"(["a",)",
                             R"(["b","a)",
                             R"(["b","a")",
                             R"([1)",
                             R"([1,2,)",
                             "[true",
                             "[true,",
                             "[[1",
                             "[[1],",
                             "[[1],[2",
                             "[[1,2],[2,",
                             "[[],[1",
                             "{",
                             R"({")",
                             R"({"a)",
                             R"({"a":1)",
                             R"({"a":1,")",
                             R"({"a":1,"a)",
                             R"({"b":"",")",
                             R"({"a":1,"b)",
                             R"({"b":"","b)"}) {
      const State state = *grammar->read(grammar->start(), text);
      if (state == Automaton::dead) continue;
      const auto mask = *grammar->mask(state);
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        const bool readable = *grammar->read(state, tokens[i]) != Automaton::dead;
        EXPECT_EQ(((*mask)[i / 32] >> (i % 32)) & 1, readable ? 1u : 0u)
            << schema << " behind " << text << ": " << tokens[i];
      }
    }
  }
}

TEST(SchemaKeywords, AGrammarThatHasSeenManyItemsTakesNoNewTexts) {
  GrammarLimits limits;
  limits.states = 4000;
  const auto grammar = *Grammar::compile({kSchema, R"({"type":"array","items":{"type":"string"},"uniqueItems":true})"},
                                         bytes_only(), limits);
  int texts = 0;
  for (; grammar->usable() && texts < 10'000; ++texts) {
    ASSERT_NE(*grammar->read(grammar->start(), "[\"" + std::to_string(texts) + "\"]"), Automaton::dead);
  }
  EXPECT_LT(texts, 10'000);
  EXPECT_TRUE(grammar->read(grammar->start(), R"(["new","newer"])").ok()) << "those under way can go on";
}

TEST(SchemaKeywords, UniqueItemsTakePartInFormulas) {
  expect(kSchema, {R"({"type":"array","items":{"type":"integer"},"not":{"uniqueItems":true}})",
                   {"[1,1]", "[1,2,3,2]"},
                   {"[]", "[1]", "[1,2,3]"}});
  expect(kSchema, {R"({"oneOf":[{"type":"string"},{"type":"array","items":{"type":"string"},"uniqueItems":true}]})",
                   {R"("a")", R"(["a","b"])"},
                   {R"(["a","a"])", "[1]"}});
  expect(kSchema, {R"({"type":"array","anyOf":[{"uniqueItems":true},{"maxItems":2}]})",
                   {"[1,1]", "[1,2,3]"},
                   {"[1,1,2]", "[1,2,1]"}});
  EXPECT_EQ(refused(kSchema, R"({"type":"array","contains":{"const":1},"minContains":2,"uniqueItems":true})").code,
            "grammar_invalid");
}

TEST(SchemaKeywords, UnevaluatedMembersAreThoseThatNoSchemaThatHoldsSpeaksOf) {
  expect(kSchema,
         {R"({"type":"object","properties":{"a":{}},"allOf":[{"properties":{"b":{}}}],"unevaluatedProperties":false})",
          {R"({"a":1,"b":2})", R"({"b":2,"a":1})", "{}"},
          {R"({"c":1})", R"({"a":1,"c":1})"}});
  expect(kSchema,
         {R"({"type":"object","anyOf":[{"properties":{"a":{"const":1}},"required":["a"]},)"
          R"({"properties":{"b":{"type":"string"}},"required":["b"]}],"unevaluatedProperties":{"type":"null"}})",
          {R"({"a":1})", R"({"b":"x"})", R"({"a":1,"b":"x"})", R"({"a":1,"b":null})", R"({"a":null,"b":"x","c":null})"},
          {R"({"a":1,"b":2})", R"({"a":2,"b":"x"})", "{}", R"({"a":1,"c":1})"}});
  expect(kSchema, {R"({"type":"object","if":{"required":["a"],"properties":{"a":{}}},"then":{"properties":{"b":{}}},)"
                   R"("else":{"properties":{"c":{}}},"unevaluatedProperties":false})",
                   {R"({"a":1,"b":2})", R"({"c":1})", "{}"},
                   {R"({"a":1,"c":2})", R"({"b":1})"}});
}

TEST(SchemaKeywords, UnevaluatedItemsAreThoseBehindTheOnesThatAreSpokenOf) {
  expect(kSchema,
         {R"({"type":"array","prefixItems":[{"type":"string"}],"anyOf":[{"prefixItems":[true,{"const":2}]},{}],)"
          R"("unevaluatedItems":false})",
          {"[]", R"(["a"])", R"(["a",2])"},
          {R"(["a",3])", R"(["a",2,2])", "[1]"}});
  expect(kSchema, {R"({"type":"array","contains":{"type":"string"},"unevaluatedItems":{"type":"integer"}})",
                   {R"(["a",1,"b"])", R"(["a"])"},
                   {R"(["a",1.5])", "[1]"}});
}

TEST(SchemaKeywords, WhatDependsOnANameSpeaksOfNoItems) {
  expect(kSchema, {R"({"dependentSchemas":{"b":{"items":{}}},"unevaluatedItems":false})",
                   {"[]", R"({"b":1})", "1"},
                   {"[1]", "[[]]"}});
}

TEST(SchemaKeywords, DynamicReferencesLeadToTheOutermostAnchor) {
  const std::string tree =
      R"({"$id":"http://x/strict","$dynamicAnchor":"node","$ref":"tree","unevaluatedProperties":false,"$defs":{"t":)"
      R"({"$id":"tree","$dynamicAnchor":"node","type":"object","properties":{"v":{"type":"integer"},)"
      R"("c":{"type":"array","items":{"$dynamicRef":"#node"}}}}}})";
  expect(kSchema, {tree,
                   {R"({"v":1,"c":[{"v":2}]})", "{}"},
                   {R"({"w":1})", R"({"v":1,"c":[{"w":2}]})", R"({"c":[{"c":[{"w":1}]}]})"}});
  expect(kSchema, {R"({"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,)"
                   R"("anyOf":[{"type":"integer"},{"type":"array","items":{"$recursiveRef":"#"}}]})",
                   {"1", "[[1],2]"},
                   {R"("a")", R"([["a"]])"}});
}

TEST(SchemaKeywords, MembersInAnyOrderComeOnceEachHoweverManyThereAre) {
  std::string properties;
  for (int i = 0; i < 130; ++i) properties += fmt::format(R"({}"p{}":{{"type":"integer"}})", i == 0 ? "" : ",", i);
  expect(kSchema, {R"({"type":"object","not":{"required":["p1"]},"additionalProperties":false,"properties":{)" +
                       properties + "}}",
                   {R"({"p129":1,"p0":2,"p64":3,"p63":4,"p128":5})", R"({"p2":1,"p65":0})", "{}"},
                   {R"({"p129":1,"p0":2,"p129":3})", R"({"p0":2,"p64":3,"p0":1})", R"({"p64":1,"p64":3})",
                    R"({"p2":0,"p1":0})", R"({"p130":1})"}});
}

// At some of these sizes what holds the schema's constraints grows while the array's items are looked at.
TEST(SchemaKeywords, WhatAnArrayMustContainIsTheSameBesideAnyNumberOfOtherValues) {
  std::string others;
  for (int number = 0; number < 150; ++number) {
    others += fmt::format("{}\"other {}\"", number == 0 ? "" : ",", number);
    expect(kSchema, {R"({"anyOf":[{"type":"array","contains":{"const":1},"minContains":2,"maxContains":3},{"enum":[)" +
                         others + "]}]}",
                     {"[1,2,1]", R"([null,1,"a",1,1])", R"("other 0")"},
                     {"[1]", "[1,1,1,1]", "1"}});
  }
}

TEST(SchemaKeywords, NumbersThatNoDoubleHoldsAreExact) {
  expect(kSchema, {R"({"const":12345678901234567890123})",
                   {"12345678901234567890123"},
                   {"12345678901234567890124", "12345678901234567000000"}});
  expect(kSchema, {R"({"type":"integer","minimum":100000000000000000000000001,"maximum":100000000000000000000000003})",
                   {"100000000000000000000000001", "100000000000000000000000003"},
                   {"100000000000000000000000000", "100000000000000000000000004"}});
}

TEST(SchemaKeywords, NumbersThatDoublesHoldAreThoseThatTheSchemaWrites) {
  expect(kSchema, {R"({"enum":[35650346.6886,[18961805.2818]]})",
                   {"35650346.6886", "[18961805.2818]"},
                   {"35650346.688600004", "[18961805.281800002]"}});
  expect(kSchema, {R"({"type":"number","minimum":7513010.6642,"exclusiveMaximum":27874262.3443})",
                   {"7513010.6642", "27874262.3442999"},
                   {"7513010.6641999", "27874262.3443", "27874262.3443000001"}});
}

TEST(SchemaKeywords, FormatsThatNoPatternDecidesOfferAPart) {
  expect(kSchema, {R"({"type":"string","format":"hostname"})",
                   {R"("a--b.com")", R"("x1")"},
                   {R"("xn--X")", R"("a.xn--hello-txk")", R"("a.")", R"("-a")"}});
  expect(kSchema, {R"({"type":"string","format":"idn-hostname"})",
                   {"\"실례.테스트\"", "\"a。b\"", R"("host-name")"},
                   {R"("xn--X")", "\"a·l\"", R"("-a")", R"("a..b")"}});
  expect(kSchema,
         {R"({"type":"string","format":"regex"})",
          {R"x("([abc])+\\s+$")x", R"x("^(a|b{2,})*?(?=[^a-z0-9]$)")x", R"x("[]")x", R"x("\\cA")x"},
          {R"x("^(abc]")x", R"x("(?P<name>x)")x", R"x("a**")x", R"x("[b-a]")x", R"x("\\a")x", R"x("(?i)a")x"}});
}

TEST(SchemaKeywords, ALeapSecondIsAt235960UtcWhereverTheClockStands) {
  Verdicts verdicts{R"({"type":"string","format":"time"})", {}, {}};
  for (int local = 0; local < 24 * 60; ++local) {
    const auto text = [&](char sign, int offset) {
      offset = (offset + 24 * 60) % (24 * 60);
      return fmt::format(R"("{:02}:{:02}:60{}{:02}:{:02}")", local / 60, local % 60, sign, offset / 60, offset % 60);
    };
    const int east = local + 1, west = 23 * 60 + 59 - local;
    verdicts.accepted.insert(verdicts.accepted.end(), {text('+', east), text('-', west)});
    for (const int by : {1, 10, 60, 600, 24 * 60 - 1})
      verdicts.refused.insert(verdicts.refused.end(), {text('+', east + by), text('-', west + by)});
  }
  expect(kSchema, verdicts);
  expect(kSchema, {R"({"format":"date-time"})",
                   {R"("1990-12-31T15:59:60-08:00")", R"("1990-12-31T23:59:60Z")", R"("1990-12-31t23:59:60.25z")",
                    R"("1991-01-01T05:29:60.5+05:30")", R"("1991-01-01T00:59:60+01:00")"},
                   {R"("1990-12-31T22:59:60Z")", R"("1990-12-31T15:59:60-07:00")", R"("1990-12-31T15:59:60")",
                    R"("1990-12-31T15:59:61-08:00")", R"("1990-12-31T15:59:60.-08:00")"}});
}

TEST(SchemaKeywords, WhatOnlyDraft3HasIsRefusedThereAndANameElsewhere) {
  const std::string draft3 = R"({"$schema":"http://json-schema.org/draft-03/schema#",)";
  for (const std::string keyword : {R"("extends":{"type":"null"})", R"("disallow":["string"])"}) {
    const Error error = refused(kSchema, draft3 + R"("properties":{"a":{)" + keyword + "}}}");
    EXPECT_EQ(error.kind, Error::Kind::unsupported);
    EXPECT_EQ(error.field, "#/properties/a/" + keyword.substr(1, keyword.find('"', 1) - 1));
    expect(kSchema, {"{" + keyword + "}", {"1"}, {}});
  }
  expect(kSchema,
         {draft3 + R"("type":"object","properties":{"a":{"type":"any","required":true}}})", {R"({"a":1})"}, {"{}"}});
}

TEST(SchemaKeywords, ABoundThatIsNoNumberIsSaidToBeNone) {
  EXPECT_EQ(refused(kSchema, R"({"minimum":"3"})").message, "JSON schema: minimum at #/minimum must be a number");
  const Error longer = refused(kSchema, R"({"minimum":1e3000})");
  EXPECT_NE(longer.message.find("at most 2000 digits"), std::string::npos) << longer.message;
}

TEST(SchemaKeywords, NotLeavesOutAllOfAFormatThatIsOfferedInPart) {
  expect(kSchema, {R"({"type":"string","not":{"format":"time"}})",
                   {R"("15:59:61Z")", R"("noon")"},
                   {R"("15:59:60-08:00")", R"("23:59:60Z")", R"("12:00:00Z")"}});
  expect(kSchema, {R"({"type":"string","not":{"format":"date-time"}})",
                   {R"("2024-02-30T12:00:00Z")"},
                   {R"("2016-12-31T15:59:60.5-08:00")", R"("2016-12-31t12:00:00z")"}});
  expect(kSchema, {R"({"type":"string","not":{"format":"hostname"}})",
                   {R"("-a")", R"("a_b")", R"("")"},
                   {R"("xn--4gbwdl.xn--wgbh1c")", R"("XN--X")", R"("a.b")"}});
  expect(kSchema,
         {R"({"anyOf":[{"type":"integer"},{"not":{"format":"regex"}}]})", {"1"}, {"[]", R"("(?i)a")", R"("a")"}});
  expect(kSchema, {R"({"type":"string","oneOf":[{"format":"time"},{"minLength":14}]})",
                   {R"("12:00:00Z")", R"("a quarter past twelve")"},
                   {R"("12:00:00+01:00")", R"("15:59:60-08:00")"}});
}

TEST(SchemaKeywords, MembersAreCountedByNameHoweverOftenTheyCome) {
  expect(kSchema, {R"({"type":"object","minProperties":2})",
                   {R"({"a":1,"b":2})", R"({"a":1,"b":2,"a":3})", R"({"a":1,"A":2})", R"({"":1,"a":2})"},
                   {R"({"a":1})", R"({"a":1,"a":2})", R"({"a":1,"a":2,"b":3})", R"({"":1,"":2})", R"({"\n":1,"\n":2})",
                    R"({"\u001f":1,"\u001F":2})", R"({"a\"b":1,"a\"b":2})", R"({"\\":1,"\\":2})"}});
  expect(kSchema, {R"({"type":"object","minProperties":3,"properties":{"a":{}}})",
                   {R"({"a":1,"b":2,"c":3})", R"({"b":1,"c":2,"a":3})"},
                   {R"({"a":1,"b":2,"b":3})", R"({"b":1,"b":2,"a":3})", R"({"a":1,"a":2,"b":3})"}});
  expect(kSchema, {R"({"type":"object","not":{"maxProperties":2}})",
                   {R"({"a":1,"b":2,"c":3})"},
                   {R"({"a":1,"b":2,"b":3})", R"({"a":1,"b":2})"}});
  expect(kSchema, {R"({"type":"array","uniqueItems":true,"items":{"type":"object","minProperties":2}})",
                   {R"([{"a":1,"b":2},{"a":1,"c":2}])"},
                   {R"([{"a":1,"a":2}])", R"([{"a":1,"b":2},{"b":2,"a":1}])", R"([{"a":1,"b":2},{"c":1,"c":2}])"}});
}

TEST(SchemaKeywords, AMemberThatHadToDifferIsNotReplacedByAnotherOfItsName) {
  expect(kSchema, {R"({"type":"object","not":{"additionalProperties":{"type":"string"}}})",
                   {R"({"x":1})", R"({"x":"a","x":1})", R"({"x":1,"y":"a","y":2})"},
                   {"{}", R"({"x":"a"})", R"({"x":1,"x":"a"})", R"({"x":1,"y":2,"x":"a"})"}});
  expect(kSchema, {R"({"type":"object","not":{"patternProperties":{"^x":{"type":"string"}}}})",
                   {R"({"x1":1})", R"({"y":1,"y":2,"x":1})"},
                   {R"({"y":1})", R"({"x1":1,"x1":"a"})"}});
  expect(kSchema, {R"({"oneOf":[{"additionalProperties":{"type":"string"}},{"minProperties":2}],"type":"object"})",
                   {R"({"a":"x"})", R"({"a":1,"b":2})", "{}"},
                   {R"({"a":1})", R"({"a":1,"a":2})", R"({"a":"x","b":"y"})"}});
}

TEST(SchemaKeywords, AnObjectHasNoMoreMembersThanNames) {
  const std::string two = R"({"type":"object","propertyNames":{"enum":["a","b"]},)";
  expect(kSchema,
         {two + R"("minProperties":2})", {R"({"a":1,"b":2})", R"({"b":1,"a":2})"}, {R"({"a":1,"a":2})", R"({"a":1})"}});
  EXPECT_EQ(refused(kSchema, two + R"("minProperties":3})").code, "grammar_invalid");
  EXPECT_EQ(refused(kSchema, R"({"type":"object","minProperties":2,"additionalProperties":false,"patternProperties":)"
                             R"({"^[ab]$":{"type":"null"},"^b":false}})")
                .code,
            "grammar_invalid");
}

TEST(SchemaKeywords, ASchemaWithoutValueNamesTheOneInsideThatHasNone) {
  const struct {
    const char *schema, *place;
  } cases[] = {
      {"false", "#"},
      {R"({"type":"string","enum":[1]})", "#"},
      {R"({"type":"object","properties":{"addr":{"type":"object","properties":{"a":{}},"required":["a","b"],)"
       R"("additionalProperties":false}},"required":["addr"]})",
       "#/properties/addr"},
      {R"({"type":"object","properties":{"a":true,"b/c":false},"required":["a","b/c"]})", "#/properties/b~1c"},
      {R"({"$ref":"#/$defs/x","$defs":{"x":{"allOf":[{"type":"string"},{"type":"null","minimum":1,"const":2}]}}})",
       "#/$defs/x/allOf/1"},
      {R"({"allOf":[{"type":"string"},{"type":"null"}]})", "#"},
      {R"({"type":"object","required":["a"],"properties":{"a":{"$ref":"#"}}})", "#"},
  };
  for (const auto& [schema, place] : cases) {
    const Error error = refused(kSchema, schema);
    EXPECT_EQ(error.code, "grammar_invalid") << schema;
    EXPECT_EQ(error.field, place) << schema;
    EXPECT_EQ(error.message, fmt::format("JSON schema: no value satisfies the schema at {}", place));
  }
}

TEST(SchemaKeywords, WhatIsTooComplexNamesTheSchemaThatIs) {
  std::string contains;
  for (int i = 0; i < 400; ++i)
    contains += fmt::format(R"({}{{"contains":{{"required":["n{}"]}}}})", i > 0 ? "," : "", i);
  const std::string hostile = R"({"type":"array","allOf":[)" + contains + "]}";
  EXPECT_EQ(refused(kSchema, hostile).field, "#");
  const Error inner = refused(
      kSchema, R"({"type":"object","required":["a","b"],"properties":{"a":{"type":"null"},"b":)" + hostile + "}}");
  EXPECT_EQ(inner.code, "grammar_too_complex");
  EXPECT_EQ(inner.field, "#/properties/b");
  EXPECT_EQ(inner.message,
            "JSON schema: too many ways to satisfy the schema at #/properties/b; a simpler one will do better");
}

TEST(SchemaKeywords, DependenciesSayWhatTheyMayBe) {
  const struct {
    const char *schema, *message, *place;
  } cases[] = {
      {R"({"dependentRequired":{"x":7}})", "must be a list of names", "#/dependentRequired/x"},
      {R"({"dependentRequired":{"":["a",7]}})", "must be a list of names", "#/dependentRequired/"},
      {R"({"dependentRequired":{"x":{}}})", "must be a list of names", "#/dependentRequired/x"},
      {R"({"dependentSchemas":{"x":["a"]}})", "must be an object or a boolean, but is", "#/dependentSchemas/x"},
      {R"({"dependencies":{"x":7}})", "must be a schema or a list of names", "#/dependencies/x"},
      {R"({"dependencies":{"x":[7]}})", "must be a list of names", "#/dependencies/x"},
  };
  for (const auto& [schema, message, place] : cases) {
    const Error error = refused(kSchema, schema);
    EXPECT_EQ(error.field, place) << schema;
    EXPECT_NE(error.message.find(fmt::format("{} {}", place, message)), std::string::npos) << error.message;
  }
  expect(kSchema, {R"({"type":"object","dependencies":{"a":"b","c":["d"],"e":{"required":["f"]},"g":false}})",
                   {R"({"a":1,"b":2})", R"({"c":1,"d":2})", R"({"e":1,"f":2})", "{}"},
                   {R"({"a":1})", R"({"c":1})", R"({"e":1})", R"({"g":1})"}});
}

// Each was a call within a call: a small schema could end the process.
TEST(SchemaKeywords, QuestionsWithinQuestionsEndBeforeTheStackDoes) {
  for (const char* schema :
       {R"({"type":"object","minProperties":1000000,"not":{"additionalProperties":{"type":"string"}}})",
        R"({"type":"array","minItems":1000000,"not":{"items":{"type":"string"}}})",
        R"({"type":"array","minItems":1000000,"uniqueItems":true,"not":{"items":{"type":"string"}}})"}) {
    EXPECT_TRUE(Grammar::compile({kSchema, schema}, bytes_only(), patient()).ok()) << schema;
  }
  for (const char* link :
       {R"("n{0}":{{"allOf":[{{"$ref":"#/$defs/n{1}"}}]}},)", R"("n{0}":{{"not":{{"$ref":"#/$defs/n{1}"}}}},)",
        R"("n{0}":{{"type":"array","minItems":1,"items":{{"$ref":"#/$defs/n{1}"}}}},)",
        R"("n{0}":{{"required":["a"],"type":"object","properties":{{"a":{{"$ref":"#/$defs/n{1}"}}}}}},)"}) {
    std::string links;
    for (int i = 0; i < 10'000; ++i) links += fmt::format(fmt::runtime(link), i, i + 1);
    const Error error = refused(kSchema, R"({"$ref":"#/$defs/n0","$defs":{)" + links + R"("n10000":true}})");
    EXPECT_EQ(error.code, "grammar_too_complex");
    EXPECT_TRUE(error.field.starts_with("#/$defs/n")) << error.field;
    EXPECT_NE(error.message.find("in a row, lead to the schema at " + error.field), std::string::npos) << error.message;
  }
}

}  // namespace
}  // namespace espalier::grammar
