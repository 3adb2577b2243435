#include "grammar/grammar.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "base/incremental_free.h"
#include "base/json/json.h"
#include "base/threads/yield_to_model.h"
#include "grammar/grammar_expectations.h"
#include "testing/data.h"

namespace espalier::grammar {
namespace {

using ::testing::HasSubstr;
using Kind = Constraint::Kind;

// A rule that hangs on every later one, and a sequence that may be empty up to any part: both in linear time.
TEST(Grammars, LongChainsOfRulesAndOfOptionalPartsAreNoBurden) {
  std::string chain = "root ::= \"<\" r0?\n", parts = "root ::= \"<\"";
  for (int i = 0; i < 20000; ++i) chain += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + "\n";
  expect(Kind::ebnf, {chain + "r20000 ::= \"x\"\n", {"<"}, {"", ">"}});
  for (int i = 0; i < 3000; ++i) parts += " [a-z]?";
  expect(Kind::ebnf, {parts + " \">\"", {"<>", "<ab>"}, {"<", "<A>"}});
}

TEST(Grammars, AllOfIsAnIntersection) {
  expect(
      Kind::json_schema,
      {R"({"allOf":[{"properties":{"a":{"minimum":3}}},{"properties":{"a":{"maximum":5}}},{"required":["a"]}],"type":"object"})",
       {R"({"a":3})", R"({"a":4.5})", R"({"a":"x"})"},
       {R"({"a":2})", R"({"a":6})", R"({})"}});
}

TEST(Grammars, OneOfMeansExactlyOne) {
  expect(Kind::json_schema,
         {R"({"oneOf":[{"type":"integer"},{"minimum":2,"type":"number"}]})", {"1", "2.5"}, {"3", "1.5"}});
  expect(Kind::json_schema, {R"({"oneOf":[{"required":["a"]},{"required":["b"]}],"type":"object"})",
                             {R"({"a":1})", R"({"b":1})", R"({"c":0,"a":1})"},
                             {R"({})", R"({"a":1,"b":1})", R"({"b":1,"a":1})"}});
}

TEST(Grammars, NotIsAComplement) {
  expect(Kind::json_schema,
         {R"({"type":"string","not":{"pattern":"^a"}})", {R"("ba")", R"("")"}, {R"("a")", R"("ab")"}});
  expect(Kind::json_schema, {R"({"not":{"type":["integer","string"]}})", {"1.5", "null", "[]", "{}"}, {"1", R"("a")"}});
  expect(Kind::json_schema, {R"({"type":"object","not":{"properties":{"a":{"const":1}},"required":["a"]}})",
                             {R"({})", R"({"a":2})", R"({"b":1})"},
                             {R"({"a":1})", R"({"b":2,"a":1})"}});
}

TEST(Grammars, IfDecidesBetweenThenAndElse) {
  expect(
      Kind::json_schema,
      {R"({"type":"object","if":{"properties":{"k":{"const":"x"}},"required":["k"]},"then":{"required":["y"]},"else":{"required":["z"]}})",
       {R"({"k":"x","y":1})", R"({"z":1})", R"({"k":"w","z":1})", R"({"y":1,"k":"x"})"},
       {R"({"k":"x"})", R"({"k":"x","z":1})", R"({"y":1})"}});
}

TEST(Grammars, DependenciesHold) {
  expect(Kind::json_schema, {R"({"type":"object","dependentRequired":{"a":["b"]}})",
                             {R"({})", R"({"b":1})", R"({"a":1,"b":2})", R"({"b":2,"a":1})"},
                             {R"({"a":1})", R"({"a":1,"c":2})"}});
}

TEST(Grammars, ANameInAnyOrderComesOnlyWhereItsObjectCanBeCompleted) {
  const std::string tagged =
      R"({"type":"object","required":["t"],"additionalProperties":false,"properties":{"t":{"enum":[1,2]},"a":{},"b":{}},)"
      R"("oneOf":[{"properties":{"t":{"enum":[1]}},"required":["a"]},{"properties":{"t":{"enum":[2]}},"required":["b"]}],)"
      R"("dependencies":{"a":{"properties":{"t":{"enum":[1]}}},"b":{"properties":{"t":{"enum":[2]}}}}})";
  expect(Kind::json_schema, {tagged, {R"({"t":1,"a":0})", R"({"b":0,"t":2})"}, {R"({"t":1,"b":0})", R"({"a":0})"}});
  const auto grammar = *Grammar::compile({Kind::json_schema, tagged}, bytes_only(), patient());
  for (const char* text : {R"({"t":2,"a)", R"({"t":1,"b)", R"({"a":0,"b)", R"({"a":0,"t":2)"})
    EXPECT_EQ(*grammar->read(grammar->start(), text), Automaton::dead) << text;
  expect(
      Kind::json_schema,
      {R"({"type":"object","properties":{"a":{},"b":{},"c":{}},"not":{"maxProperties":1},"additionalProperties":false})",
       {R"({"a":0,"b":0})", R"({"c":0,"a":0})", R"({"c":0,"b":0,"a":0})"},
       {"{}", R"({"b":0})"}});
}

TEST(Grammars, NamesThatASchemaListsCannotComeAsAdditionalOnes) {
  expect(Kind::json_schema,
         {R"({"type":"object","properties":{"ab":{"type":"integer"}},"additionalProperties":{"type":"null"}})",
          {R"({"ab":1})", R"({"a":null})", R"({"ab":1,"abc":null})"},
          {R"({"ab":null})", R"({"a":null,"ab":null})", "{\"\\u0061b\":null}"}});
}

TEST(Grammars, ContainsCountsItems) {
  expect(Kind::json_schema,
         {R"({"type":"array","contains":{"minimum":5},"minContains":2,"maxContains":3,"items":{"type":"integer"}})",
          {"[5,6]", "[1,5,2,7,9]"},
          {"[]", "[5]", "[5,6,7,8]", "[1,2,3]"}});
}

TEST(Grammars, NumbersKeepTheirBoundsAndFactors) {
  expect(Kind::json_schema, {R"({"type":"integer","minimum":-12,"exclusiveMaximum":105})",
                             {"-12", "-1", "0", "99", "100", "104"},
                             {"-13", "105", "1000", "00", "1.0"}});
  expect(Kind::json_schema, {R"({"type":"number","exclusiveMinimum":0.25,"maximum":0.501})",
                             {"0.2501", "0.3", "0.501", "0.5010"},
                             {"0.25", "0.250", "0.5011", "1", "0.2"}});
  expect(
      Kind::json_schema,
      {R"({"type":"number","multipleOf":0.25,"minimum":0})", {"0", "0.75", "10.50", "3"}, {"0.3", "0.755", "-0.25"}});
  expect(Kind::json_schema, {R"({"type":"integer","multipleOf":7})", {"0", "49", "-14"}, {"1", "50"}});
  expect(Kind::json_schema, {R"({"type":"integer","multipleOf":1000000,"minimum":0})",
                             {"0", "7000000", "1234567000000"},
                             {"1000001", "-1000000", "100000"}});
}

TEST(Grammars, StringsCountCharactersHoweverTheyAreWritten) {
  expect(Kind::json_schema, {R"({"type":"string","minLength":2,"maxLength":3})",
                             {R"("ab")", R"("日本語")", R"("\u0041\n")", "\"\\ud83d\\ude00a\""},
                             {R"("a")", R"("abcd")", R"("\ud83d")", "\"\\ud83da\""}});
}

TEST(Grammars, RecursionGoesOn) {
  expect(
      Kind::json_schema,
      {R"({"$defs":{"n":{"type":"object","properties":{"v":{"type":"integer"},"c":{"type":"array","items":{"$ref":"#/$defs/n"}}},"required":["v"],"additionalProperties":false}},"$ref":"#/$defs/n"})",
       {R"({"v":1})", R"({"v":1,"c":[{"v":2,"c":[]},{"v":3}]})"},
       {R"({"c":[]})", R"({"v":1,"c":[{}]})"}});
}

TEST(Grammars, MembersThatMustComeDoSoInDeclaredOrderAndOthersBehindThemInAnyOrder) {
  expect(Kind::json_schema, {R"({"type":"object","properties":{"a":{},"b":{},"c":{}},"required":["a","b"]})",
                             {R"({"a":1,"b":2,"c":3})", R"({"a":1,"b":2,"x":3,"c":4})"},
                             {R"({"b":2,"a":1})", R"({"a":1,"c":3,"b":2})", R"({"x":1,"a":1,"b":2})",
                              R"({"a":1,"b":2,"a":3})", R"({"a":1})"}});
  expect(Kind::json_schema, {R"({"type":"object","properties":{"a":{},"b":{},"c":{}},"required":["b"]})",
                             {R"({"a":1,"b":2})", R"({"b":2,"c":3,"a":1})"},
                             {R"({"c":3,"b":2})"}});
  expect(Kind::json_schema, {R"({"properties":{"a":{}},"type":"object"})",
                             {R"({"$schema":"x","a":1})", R"({"a":1,"$schema":"x"})"},
                             {R"({"a":1,"a":1})"}});
}

TEST(Grammars, MembersKeepTheDeclaredOrderWhereTheSchemaListsAllOfThem) {
  const auto with = [](const std::string& a) {
    return R"({"type":"object","properties":{"a":)" + a +
           R"(,"b":{},"c":{}},"required":["b"],"additionalProperties":false})";
  };
  expect(Kind::json_schema,
         {with("{}"),
          {R"({"a":1,"b":2,"c":3})", R"({"b":2,"c":3})", R"({"a":1,"b":2})"},
          {R"({"b":1,"a":2})", R"({"b":1,"c":2,"a":3})", R"({"b":1,"c":2,"c":3})", R"({"b":1,"x":2})"}});
  const char* choice = R"({"oneOf":[{"type":"string"},{"type":"integer"}]})";
  expect(Kind::json_schema, {with(choice), {R"({"b":2,"c":3,"a":1})"}, {R"({"c":3,"b":2})", R"({"b":1,"x":2})"}});
}

TEST(Grammars, MembersOfSchemasThatDescribeDocumentsComeInAnyOrder) {
  const auto with = [](const std::string& keyword) {
    return R"({"type":"object","properties":{"a":{},"b":{}},"required":["a"],)" + keyword + "}";
  };
  for (const char* keyword : {R"("not":{"required":["c"]})", R"("oneOf":[{"required":["a"]},{"required":["c"]}])",
                              R"("propertyNames":{"maxLength":1})", R"("dependencies":{"c":["a"]})"}) {
    expect(Kind::json_schema, {with(keyword), {R"({"a":1,"b":2})", R"({"b":2,"a":1})"}, {R"({"a":1,"a":2})"}});
  }
  expect(Kind::json_schema, {with(R"("not":{"required":["c"]})"), {}, {R"({"a":1,"b":2,"c":1})"}});
}

// It is written down twice.
TEST(Grammars, MembersThatMustAllComeKeepTheirOrderInDocumentsToo) {
  const auto with = [](const std::string& required) {
    return R"({"type":"object","not":{"required":["c"]},"properties":{"a":{},"b":{}},"required":)" + required + "}";
  };
  expect(Kind::json_schema, {with(R"(["a","b"])"), {R"({"a":1,"b":2,"x":3})"}, {R"({"b":2,"a":1})"}});
  expect(Kind::json_schema, {with(R"(["b","a"])"), {R"({"a":1,"b":2})", R"({"b":2,"a":1})"}, {}});
}

TEST(Grammars, MembersThatMustComeKeepTheirOrderInDocumentsWhoseSchemaListsAllOfThem) {
  const auto with = [](const std::string& more) {
    return R"({"type":"object","not":{"required":["x"]},"properties":{"a":{},"b":{},"c":{}},)" + more + "}";
  };
  expect(Kind::json_schema, {with(R"("required":["a","c"],"additionalProperties":false)"),
                             {R"({"a":1,"b":2,"c":3})", R"({"a":1,"c":3,"b":2})"},
                             {R"({"c":3,"a":1})", R"({"b":2,"a":1,"c":3})", R"({"a":1,"c":3,"d":4})"}});
  expect(Kind::json_schema, {with(R"("required":["a","c"])"), {R"({"c":3,"a":1})", R"({"d":4,"a":1,"c":3})"}, {}});
}

// Each schema of the oneOf has its own.
TEST(Grammars, AlternativesOfADocumentKeepTheirOrdersWhereAllHaveOne) {
  const auto way = [](const std::string& kind, const std::string& names, const std::string& required) {
    return R"({"properties":{"kind":{"const":")" + kind + R"("},)" + names + R"(},"additionalProperties":false,)" +
           R"("required":[)" + required + "]}";
  };
  const std::string one = way("one", R"("a":{},"b":{})", R"("kind","b")");
  const std::string two = way("two", R"("b":{},"z":{},"y":{})", R"("kind","b","y")");
  const std::string three = way("three", R"("c":{})", R"("kind","c")");
  expect(Kind::json_schema,
         {R"({"type":"object","oneOf":[)" + one + "," + two + "," + three + "]}",
          {R"({"kind":"one","b":1,"a":1})", R"({"kind":"two","b":1,"z":1,"y":1})", R"({"kind":"three","c":1})"},
          {R"({"b":1,"kind":"one"})", R"({"b":1,"kind":"two","y":1})", R"({"c":1,"kind":"three"})",
           R"({"kind":"two","z":1,"b":1,"y":1})", R"({"kind":"three","b":1})"}});
}

TEST(Grammars, WhereRequiredContradictsThePropertiesDocumentsFollowOneOfThem) {
  const char* choice = R"("properties":{"a":{"oneOf":[{"type":"string"},{"type":"integer"}]},"b":{},"c":{}})";
  expect(Kind::json_schema,
         {std::string(R"({"type":"object",)") + choice + R"(,"required":["c","a"]})",
          {R"({"a":1,"c":1})", R"({"a":1,"b":1,"c":1})", R"({"c":1,"a":1})", R"({"c":1,"a":1,"d":1,"b":1})"},
          {R"({"c":1,"b":1,"a":1})", R"({"b":1,"a":1,"c":1})", R"({"c":1})"}});
}

// Written once: in a condition, or in a value.
TEST(Grammars, MembersThatOnlyConditionsOrValuesNameComeInAnyOrderInDocuments) {
  expect(Kind::json_schema, {R"({"type":"object","dependentRequired":{"a":["b"]}})",
                             {R"({"c":1,"a":1,"b":1})", R"({"c":1})"},
                             {R"({"c":1,"a":1})"}});
  expect(Kind::json_schema, {R"({"type":"object","dependentRequired":{"a":["b"]},"properties":{"b":{}}})",
                             {R"({"c":1,"a":1,"b":1})", R"({"a":1,"b":1,"c":1})"},
                             {R"({"c":1,"a":1})"}});
  expect(Kind::json_schema, {R"({"prefixItems":[{"oneOf":[{},{"dependentRequired":{"a":["b"]}}]}]})",
                             {R"([{"c":1,"a":1}])", R"([{"a":1,"c":1}])"},
                             {R"([{"c":1,"a":1,"b":1}])", R"([{"c":1}])"}});
  expect(Kind::json_schema, {R"({"contains":{"dependentSchemas":{"a":{"type":"null"}}}})",
                             {R"([{"c":1,"a":1},[]])", R"([{"c":1}])"},
                             {R"([{"c":1,"a":1}])"}});
  expect(
      Kind::json_schema,
      {R"({"not":{"type":"string"},"const":{"a":1,"b":2}})", {R"({"a":1,"b":2})", R"({"b":2,"a":1})"}, {R"({"a":1})"}});
}

// One that tells kinds of values apart relates no members.
TEST(Grammars, AOneOfWithoutObjectsLeavesMembersInTheirOrder) {
  const auto with = [](const std::string& ways) {
    return R"({"type":"object","$defs":{"s":{"type":"string"}},"required":["a","b"],"properties":{"a":{"oneOf":[)" +
           ways + R"(]},"b":{},"c":{}}})";
  };
  for (const char* ways : {R"({"type":"string"},{"type":"integer"})", R"({"$ref":"#/$defs/s"},{"enum":[1]})",
                           R"({"const":"x"},{"type":["object","null"]})"})
    expect(Kind::json_schema, {with(ways), {R"({"a":"x","b":1})"}, {R"({"b":1,"a":"x"})"}});
  for (const char* ways : {R"({"type":"object","required":["x"]},{"type":"object","required":["y"]},{"const":"x"})",
                           R"({"minLength":2},{"maxLength":1})"})
    expect(Kind::json_schema, {with(ways), {R"({"a":"x","b":1})", R"({"b":1,"a":"x"})"}, {}});
}

TEST(Grammars, AnOrderThatTheSchemaItselfContradictsIsNone) {
  expect(Kind::json_schema,
         {R"({"anyOf":[{"type":"object","properties":{"a":{"type":"string"},"b":{}},"required":["a","b"]},)"
          R"({"type":"object","properties":{"b":{},"a":{"type":"integer"}},"required":["a","b"]}]})",
          {R"({"a":"x","b":1})", R"({"b":1,"a":"x"})", R"({"a":1,"b":1})", R"({"b":1,"a":1})"},
          {R"({"a":1})", R"({"a":null,"b":1})"}});
  expect(Kind::json_schema,
         {R"({"anyOf":[{"type":"object","properties":{"a":{"type":"string"},"b":{}},"required":["a","b"]},)"
          R"({"type":"object","properties":{"a":{"type":"integer"},"b":{}},"required":["a","b"]}]})",
          {R"({"a":"x","b":1})", R"({"a":1,"b":1})"},
          {R"({"b":1,"a":1})"}});
}

TEST(Grammars, LeftRecursionAndEmptyRulesAreRead) {
  expect(Kind::ebnf, {"root ::= root \"+\" t | root \"-\" t | t\nt ::= t \"*\" f | f\nf ::= [0-9]+ | \"(\" root \")\"",
                      {"1", "1+2*3", "(1-2)*3", "((1))"},
                      {"", "+1", "1+", "(1", "1**2"}});
  expect(Kind::ebnf, {"root ::= a\na ::= b \"x\" | \"1\"\nb ::= a \"y\" | root \"z\" | \"2\"",
                      {"1", "2x", "1yx", "1zxyx", "2xzx"},
                      {"x", "1x", "1y"}});
  expect(Kind::ebnf, {"root ::= \"a\" root \"b\" | \"ab\"", {"ab", "aaabbb"}, {"aab", "abb", ""}});
  expect(Kind::ebnf, {"root ::= root | \"a\" | e root \"b\"\ne ::= \"\" | e", {"a", "ab", "abb"}, {"b", ""}});
}

TEST(Grammars, WhatCannotBeHonouredHasOneCode) {
  const std::pair<Kind, const char*> cases[] = {
      {Kind::regex, "(?=a)b"},
      {Kind::lark, "start: a{b}"},
      {Kind::json_schema, R"({"multipleOf":0.1234567891})"},
      {Kind::json_schema, R"({"$ref":"other.json"})"},
      {Kind::json_schema, R"({"pattern":"(a*^b){1,99}"})"},
      {Kind::json_schema, R"({"pattern":"a*^b"})"},
      {Kind::json_schema, R"({"$schema":"http://json-schema.org/draft-03/schema#","disallow":"string"})"},
      {Kind::structural_tag, R"({"type":"structural_tag","format":{"type":"token","token":"x"}})"}};
  for (const auto& [kind, text] : cases) {
    const Error error = refused(kind, text);
    EXPECT_EQ(error.kind, Error::Kind::unsupported) << text << ": " << error.message;
    EXPECT_EQ(error.code, "") << text << ": the kind's own, unsupported";
  }
}

TEST(Grammars, WhatCannotBeHonouredIsNamedWithItsPlace) {
  const Error factor = refused(Kind::json_schema, R"({"properties":{"a/b":{"multipleOf":0.1234567891}}})");
  EXPECT_EQ(factor.kind, Error::Kind::unsupported);
  EXPECT_EQ(factor.field, "#/properties/a~1b/multipleOf");
  EXPECT_EQ(refused(Kind::json_schema, R"({"$ref":"other.json"})").kind, Error::Kind::unsupported);
  EXPECT_EQ(refused(Kind::json_schema, R"({"type":"strin"})").kind, Error::Kind::bad_request);
  EXPECT_EQ(refused(Kind::json_schema, R"({"allOf":[{"$ref":"#"}]})").kind, Error::Kind::bad_request);
  EXPECT_EQ(refused(Kind::json_schema, R"({"type":"string","enum":[1]})").kind, Error::Kind::bad_request);
  EXPECT_EQ(refused(Kind::regex, "(?=a)b").kind, Error::Kind::unsupported);
  EXPECT_EQ(refused(Kind::choice, "[]").kind, Error::Kind::bad_request);
}

TEST(Grammars, WhatMeetsALimitIsToldWhatWouldNot) {
  GrammarLimits limits;
  limits.nodes = 100;
  const auto advice = [&](Kind kind, const std::string& text) {
    const auto grammar = Grammar::compile({kind, text}, bytes_only(), limits);
    EXPECT_FALSE(grammar.ok()) << text;
    return grammar.ok() ? std::string() : grammar.error().message;
  };
  std::string choices, ways, letters;
  for (int i = 0; i < 300; ++i) {
    choices += fmt::format("{}\"{} times\"", i > 0 ? "," : "", i * 7919);
    ways += fmt::format("{}\"{} times\"", i > 0 ? " | " : "", i * 7919);
    letters += fmt::format("{}{}[a-f]", i > 0 ? "|" : "", i * 7919);
  }
  EXPECT_THAT(advice(Kind::choice, "[" + choices + "]"), HasSubstr("; fewer or shorter choices would work"));
  EXPECT_THAT(advice(Kind::regex, letters), HasSubstr("; shorter or less nested repetitions, or fewer alternatives"));
  EXPECT_THAT(advice(Kind::ebnf, "root ::= " + ways), HasSubstr("; shorter repetitions, or fewer alternatives and"));
  EXPECT_THAT(advice(Kind::lark, "start: " + ways), HasSubstr("; shorter repetitions, or fewer alternatives and"));
}

TEST(Grammars, AHostileConstraintEndsWithinItsLimits) {
  GrammarLimits limits;
  limits.compile_time = std::chrono::milliseconds(300);
  limits.step_time = std::chrono::milliseconds(300);
  std::string oneof = R"({"type":"integer"})";
  for (int depth = 0; depth < 8; ++depth) {
    std::string next = "{\"oneOf\":[";
    for (int i = 0; i < 6; ++i) {
      next += (i > 0 ? "," : "") + std::string("{\"type\":\"object\",\"properties\":{\"a\":") + oneof + ",\"b" +
              std::to_string(i) + "\":{}}}";
    }
    oneof = next + "]}";
    if (oneof.size() > 100'000) break;
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto grammar = Grammar::compile({Kind::json_schema, oneof}, bytes_only(), limits);
  if (grammar.ok()) {
    (void)(*grammar)->read((*grammar)->start(), "{\"a\":{\"a\":{\"a\":1}}}");
  } else {
    EXPECT_EQ(grammar.error().code, "grammar_too_complex");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

// What a thread that yields to the model leaves to be freed, and frees in pieces, is what others free at once.
TEST(Grammars, AThreadThatStepsAsideCompilesTheSameAndFreesIt) {
  std::string names, ways;
  for (int i = 0; i < 300; ++i) {
    const std::string separator = i > 0 ? "," : "";
    names += fmt::format("{}\"n{}\":{{\"enum\":[{},\"{}\"]}}", separator, i, i, i);
    ways += fmt::format("{}\"a way with number {}\"", separator, i);
  }
  const Constraint constraints[] = {
      {Kind::json_schema, "{\"type\":\"object\",\"properties\":{" + names + "}}"},
      {Kind::choice, "[" + ways + "]"},
      {Kind::json_schema, R"({"type":"array","items":{"type":"string","pattern":"^a+$"},"uniqueItems":true})"},
      {Kind::json_schema, "{\"type\":\"object\",\"properties\":{" + names + ",\"x\":{\"type\":1}}}"},
      {Kind::json_schema, "{\"properties\":{" + names + ",}}"},
      {Kind::regex, "(a|b)*a(a|b){8}"},
  };
  std::thread([&] {
    for (const Constraint& constraint : constraints) {
      thread_yields_to_model = false;
      const auto usual = Grammar::compile(constraint, bytes_only(), {});
      thread_yields_to_model = true;
      auto aside = Grammar::compile(constraint, bytes_only(), {});
      ASSERT_EQ(aside.ok(), usual.ok()) << constraint.text;
      if (!aside.ok()) {
        EXPECT_EQ(aside.error().message, usual.error().message);
      } else {
        const auto mask = (*aside)->mask((*aside)->start()), same = (*usual)->mask((*usual)->start());
        ASSERT_TRUE(mask.ok() && same.ok());
        EXPECT_EQ(**mask, **same) << constraint.text;
      }
      if (aside.ok()) free_after_task(std::move(aside).value());
      free_what_is_left();
    }
  }).join();
}

// Many pieces of work, so that the time is looked at.
std::string many_names() {
  std::string names;
  for (int i = 0; i < 2000; ++i)
    names += (i > 0 ? "," : "") + fmt::format("\"name {}\":{{\"maxLength\":{}}}", i, i + 1);
  return "{\"type\":\"object\",\"properties\":{" + names + "}}";
}

TEST(Grammars, FirstMasksAreWorkedOutByCompilingOrLaterAndAreTheSame) {
  const Constraint constraint{Kind::json_schema, many_names()};
  GrammarLimits no_time, any_time;
  no_time.foresight_time = std::chrono::milliseconds(0);
  any_time.foresight_time = any_time.compile_time = std::chrono::minutes(10);  // however slow the machine is
  const auto foreseen = Grammar::compile(constraint, bytes_only(), any_time),
             later = Grammar::compile(constraint, bytes_only(), no_time);
  ASSERT_TRUE(foreseen.ok());
  ASSERT_TRUE(later.ok());
  EXPECT_TRUE((*foreseen)->known((*foreseen)->start()));
  EXPECT_FALSE((*later)->known((*later)->start()));  // what was begun in no time was dropped
  State a = (*foreseen)->start(), b = (*later)->start();
  for (const char byte : std::string(R"({"name 7":"seven","name 12":)")) {
    const auto one = (*foreseen)->mask(a), other = (*later)->mask(b);
    ASSERT_TRUE(one.ok() && other.ok());
    EXPECT_EQ(**one, **other) << "before " << byte;
    const auto next = (*foreseen)->read(a, std::string_view(&byte, 1)),
               same = (*later)->read(b, std::string_view(&byte, 1));
    ASSERT_TRUE(next.ok() && same.ok());
    a = *next;
    b = *same;
  }
}

TEST(Grammars, DeclaredObjectsAreClosedUnlessSeveralSchemasSpeakOfOne) {
  const auto reads = [](const std::string& schema, const std::string& text) {
    const auto grammar =
        *Grammar::compile({Kind::json_schema, schema, false, Constraint::Closed::declared}, bytes_only(), patient());
    const auto state = *grammar->read(grammar->start(), text);
    return state != Automaton::dead && grammar->complete(state);
  };
  const std::string plain = R"({"type":"object","properties":{"a":{"type":"integer"}}})";
  EXPECT_TRUE(reads(plain, R"({"a":1})"));
  EXPECT_FALSE(reads(plain, R"({"a":1,"b":2})"));
  EXPECT_TRUE(reads(R"({"type":"object"})", R"({"b":2})"));
  EXPECT_TRUE(reads(R"({"type":"array"})", R"([2])"));
  const std::string both = R"({"allOf":[{"properties":{"a":{}},"type":"object"},{"properties":{"b":{}}}]})";
  EXPECT_TRUE(reads(both, R"({"a":1,"b":2})"));
}

// What a schema allows where objects and arrays are closed is allowed as it is written, too.
TEST(Grammars, ClosingOnlyEverLeavesOut) {
  const auto check = [](Constraint::Closed closed, const Verdicts& of) {
    const auto grammar = Grammar::compile({Kind::json_schema, of.constraint, false, closed}, bytes_only(), patient());
    ASSERT_TRUE(grammar.ok()) << of.constraint << ": " << grammar.error().message;
    const auto reads = [&](const std::string& text) {
      const auto state = *(*grammar)->read((*grammar)->start(), text);
      return state != Automaton::dead && (*grammar)->complete(state);
    };
    for (const std::string& text : of.accepted) EXPECT_TRUE(reads(text)) << of.constraint << " <- " << text;
    for (const std::string& text : of.refused) EXPECT_FALSE(reads(text)) << of.constraint << " <- " << text;
  };
  const auto closed = [](const std::string& name, const std::string& value) {
    return R"({"type":"object","properties":{")" + name + "\":" + value + R"(},"required":[")" + name + "\"]}";
  };
  check(Constraint::Closed::all, {R"({"not":{"type":"array"}})", {"1", "{}"}, {"[1]", "[]"}});
  check(Constraint::Closed::all, {R"({"not":{"type":"object"}})", {"1", "[1]"}, {R"({"a":1})", "{}"}});
  check(Constraint::Closed::all, {R"({"not":{"$ref":"#/$defs/a"},"$defs":{"a":{"type":"array"}}})", {"1"}, {"[1]"}});
  check(Constraint::Closed::all, {R"({"not":{"prefixItems":[true],"minItems":1}})", {"[]"}, {"[1]", "[1,2]"}});
  check(Constraint::Closed::all, {R"({"if":{"type":"object"},"then":false})", {"1"}, {"{}", R"({"a":1})"}});
  check(Constraint::Closed::all,
        {R"({"if":{"type":"array"},"else":{"type":"object"}})", {"[]", "[1]", "{}"}, {"1", R"({"a":1})"}});
  check(Constraint::Closed::all,
        {R"({"not":{"not":)" + closed("a", "{}") + "}}", {R"({"a":1})", R"({"a":1,"b":2})"}, {"{}"}});
  check(Constraint::Closed::all,
        {R"({"type":"array","items":{"type":["array","null"]},"maxContains":1,"contains":{"type":"array"}})",
         {"[[],null]", "[null,[]]"},
         {"[[],[1]]", "[[1]]", "[[],[]]", "[null]"}});
  check(Constraint::Closed::all, {R"({"anyOf":[{"properties":{"a":{}}},{"properties":{"b":{"type":"null"}}}],)"
                                  R"("unevaluatedProperties":false})",
                                  {R"({"a":1})", R"({"b":null})"},
                                  {R"({"c":1})"}});
  for (const Constraint::Closed how : {Constraint::Closed::all, Constraint::Closed::declared}) {
    const std::string two = R"({"oneOf":[)" + closed("a", "{}") + ",";
    check(how, {two + closed("b", "{}") + "]}", {R"({"a":1})", R"({"b":1})"}, {R"({"a":1,"b":1})", "{}"}});
    check(how, {two + R"({"type":"object","properties":{"b":{},"a":{"type":"null"}},"required":["b"]}]})",
                {R"({"a":1})", R"({"b":1})"},
                {R"({"b":1,"a":null})", R"({"b":1,"a":1})", R"({"a":1,"c":1})"}});
    const auto tagged = [&](const char* kind, const char* more) {
      return fmt::format(
          R"({{"properties":{{"kind":{{"const":"{}"}},"{}":{{}}}},"required":["kind"],"type":"object"}})", kind, more);
    };
    check(how, {R"({"oneOf":[)" + tagged("x", "a") + "," + tagged("y", "b") + "]}",
                {R"({"kind":"x","a":1})", R"({"kind":"y","b":1})", R"({"kind":"y"})"},
                {R"({"kind":"x","b":1})", R"({"kind":"z"})"}});
  }
  // Nothing would be left.
  const std::string loose =
      R"({"type":"object","oneOf":[{"properties":{"a":{}}},{"properties":{"b":{"type":"null"}}}]})";
  const auto none =
      Grammar::compile({Kind::json_schema, loose, false, Constraint::Closed::all}, bytes_only(), patient());
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("strict: false"), std::string::npos) << none.error().message;
  check(Constraint::Closed::declared,
        {loose, {R"({"b":1})", R"({"a":1,"b":1})"}, {"{}", R"({"a":1})", R"({"b":null})"}});
}

TEST(Grammars, AClosingIsAShortestTextThatCompletesTheWhole) {
  const auto closing = [](const std::string& schema, const std::string& begun) {
    const auto grammar = *Grammar::compile({Kind::json_schema, schema}, bytes_only(), patient());
    return *grammar->closing(*grammar->read(grammar->start(), begun));
  };
  const std::string schema = R"({"type":"object","properties":{"a":{"type":"array","items":{"type":"string"}},)"
                             R"("b":{"type":"boolean"}},"required":["a","b"],"additionalProperties":false})";
  EXPECT_EQ(closing(schema, R"({"a":["x)"), R"("],"b":true})");
  EXPECT_EQ(closing(schema, R"({"a":[],"b":true})"), "");
  EXPECT_EQ(closing(R"({"type":"string","minLength":3})", R"("x)"), R"(!!")");
}

TEST(Grammars, ForcedBytesAreWhatEveryTextGoesOnWith) {
  const auto grammar = *Grammar::compile(
      {
          Kind::json_schema,
          R"({"type":"object","properties":{"name":{"type":"integer"}},"required":["name"],"additionalProperties":false})",
      },
      bytes_only());
  EXPECT_EQ(grammar->forced(grammar->start(), {})->bytes, "{\"name\":");
  EXPECT_EQ(grammar->forced(*grammar->read(grammar->start(), "{\"na"), {})->bytes, "me\":");
  EXPECT_EQ(grammar->forced(*grammar->read(grammar->start(), "{\"name\":1"), {})->bytes, "")
      << "more digits, or the end";
  EXPECT_EQ(grammar->forced(*grammar->read(grammar->start(), "{\"name\":0"), {})->bytes, "}");
}

TEST(Grammars, CountTheTablesOfTheirSchemas) {
  const auto memory_of = [](int members) {
    std::string properties;
    for (int i = 0; i < members; ++i) {
      properties += (i > 0 ? ",\"" : "\"") + std::string(100, 'm') + std::to_string(i) + "\":{\"type\":\"null\"}";
    }
    const auto grammar = *Grammar::compile(
        {Kind::json_schema, R"({"type":"object","properties":{)" + properties + "}}"}, bytes_only(), patient());
    return grammar->memory();
  };
  EXPECT_GT(memory_of(2000), memory_of(1) + 2000 * 300);  // its name twice, and what is said of it
}

// What its reader is told only when the text gets there.
TEST(Grammars, ASchemaThatIsItselfBehindAMemberAllowsNothingThere) {
  const auto grammar = Grammar::compile(
      {Kind::json_schema,
       R"({"type":"object","properties":{"a":{"$ref":"#/$defs/x"},"b":{"type":"null"}},"$defs":{"x":{"$ref":"#/$defs/x"}}})"},
      bytes_only());
  ASSERT_TRUE(grammar.ok()) << grammar.error().message;
  EXPECT_TRUE((*grammar)->read((*grammar)->start(), R"({"b":null})").ok());
  const auto inside = (*grammar)->read((*grammar)->start(), R"({"a":1)");
  EXPECT_TRUE(!inside.ok() || *inside == Automaton::dead);
}

TEST(Grammars, OneThatTakesMoreMemoryThanItMayIsTooComplex) {
  std::string ways;
  for (int i = 0; i < 2000; ++i) ways += (i > 0 ? "|x{300}" : "x{300}") + std::to_string(i);
  GrammarLimits limits;
  limits.memory = 4u << 20;
  const auto grammar = Grammar::compile({Kind::regex, ways}, bytes_only(), limits);
  ASSERT_TRUE(grammar.ok());
  const auto forced = (*grammar)->forced((*grammar)->start(), {});
  ASSERT_FALSE(forced.ok());
  EXPECT_EQ(forced.error().code, "grammar_too_complex");
  EXPECT_LT((*grammar)->memory(), 2 * limits.memory);
}

Result<std::shared_ptr<Grammar>> with_nesting(const std::string& rules, std::uint32_t nesting) {
  GrammarLimits limits;
  limits.nesting = nesting;
  return Grammar::compile({Kind::ebnf, rules}, bytes_only(), limits);
}

// Each rule but the last is called within another one; the small ones at the end are part of their callers.
std::string chain(int rules, const std::string& before, const std::string& behind) {
  std::string text = "root ::= r0\n";
  for (int i = 0; i < rules; ++i) text += fmt::format("r{} ::= {} r{} {}\n", i, before, i + 1, behind);
  return text + fmt::format("r{} ::= \"b\" (\"{}\" | \"x\")\n", rules, std::string(60, 'c'));
}

TEST(Grammars, OneOfWhichNoTextMayHaveItsRulesOpenIsRefused) {
  for (const char* before : {"", "\"(\""}) {
    const auto grammar = with_nesting(chain(1100, before, "\"a\""), 1000);
    ASSERT_FALSE(grammar.ok());
    EXPECT_EQ(grammar.error().kind, Error::Kind::bad_request);
    EXPECT_EQ(grammar.error().code, "grammar_too_complex");
    EXPECT_NE(grammar.error().message.find("1000"), std::string::npos) << grammar.error().message;
    EXPECT_NE(grammar.error().message.find("--grammar-max-nesting"), std::string::npos);
  }
  // Calls that nothing follows leave nothing open, nor do parts that may be left out.
  for (const char* way : {"\"a\" r | \"z\"", "r \"a\" | \"z\"", "(\"(\" r \")\")* \"z\"", "\"a\" s | \"z\"\ns ::= r r"})
    EXPECT_TRUE(with_nesting("root ::= r\nr ::= " + std::string(way), 2).ok()) << way;
  EXPECT_TRUE(with_nesting(chain(1100, "\"a\"", ""), 3).ok());
}

TEST(Grammars, ALimitThatIsJustEnoughLetsTheTextEnd) {
  for (const char* before : {"", "\"(\""}) {
    const std::string rules = chain(30, before, "\"a\"");
    std::uint32_t least = 1;
    while (!with_nesting(rules, least).ok()) ++least;
    EXPECT_GT(least, 12u);
    EXPECT_LE(least, 32u);
    const auto grammar = *with_nesting(rules, least);
    EXPECT_TRUE(grammar->closing(grammar->start()).ok());
  }
}

// A reading that would open too many rules does not end another one of the same text.
TEST(Grammars, ATextMayGoOnWhenOneOfItsReadingsMayNot) {
  const auto grammar = *with_nesting("root ::= x | y\nx ::= \"a\" x \"b\" | \"c\"\ny ::= \"a\" y | \"d\"", 4);
  const auto reads = [&](const std::string& text) { return *grammar->read(grammar->start(), text) != Automaton::dead; };
  EXPECT_TRUE(reads("aaacbbb"));
  EXPECT_TRUE(reads(std::string(500, 'a') + "d"));
  EXPECT_FALSE(reads(std::string(500, 'a') + "c"));
}

TEST(Grammars, ATextThatCannotGoOnSaysWhichLimitEndsIt) {
  const auto grammar = *with_nesting("root ::= \"(\" root \")\" | \"b\"", 5);
  const State end = *grammar->read(grammar->start(), "(((((");
  ASSERT_NE(end, Automaton::dead);
  const auto allowed = grammar->allowed(end);
  ASSERT_FALSE(allowed.ok());
  EXPECT_EQ(allowed.error().kind, Error::Kind::bad_request);
  EXPECT_EQ(allowed.error().code, "grammar_too_complex");
  EXPECT_NE(allowed.error().message.find("--grammar-max-nesting"), std::string::npos);
  EXPECT_FALSE(grammar->known(end));
  EXPECT_TRUE(grammar->allowed(*grammar->read(grammar->start(), "((((")).ok()) << "the grammar stays usable";
}

}  // namespace
}  // namespace espalier::grammar
