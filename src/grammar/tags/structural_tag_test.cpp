#include "grammar/tags/structural_tag.h"

#include <gtest/gtest.h>

#include <string>

#include "grammar/grammar_expectations.h"

namespace espalier::grammar {
namespace {

using Kind = Constraint::Kind;

void expect_format(const std::string& format, std::vector<std::string> accepted, std::vector<std::string> refused) {
  expect(Kind::structural_tag,
         {R"({"type":"structural_tag","format":)" + format + "}", std::move(accepted), std::move(refused)});
}

Error refused_format(const std::string& format) {
  return refused(Kind::structural_tag, R"({"type":"structural_tag","format":)" + format + "}");
}

std::string tag(const std::string& content, const std::string& end = R"("</a>")") {
  return R"({"type":"tag","begin":"<a>","content":)" + content + R"(,"end":)" + end + "}";
}

std::string parameters(const std::string& style, const std::string& properties, const std::string& more = "") {
  return R"({"type":"json_schema","style":")" + style + R"(","json_schema":{"type":"object","properties":)" +
         properties + more + "}}";
}

std::string parameter(const std::string& name, const std::string& value) {
  return "<parameter=" + name + ">" + value + "</parameter>";
}

const std::string kQ = R"({"type":"const_string","value":"q"})", kAny = R"({"type":"any_text"})";

TEST(StructuralTags, OpenAFormInFreeText) {
  const std::string time =
      R"({"type":"tag","begin":"<f=time>","content":{"type":"json_schema","json_schema":)"
      R"({"type":"object","properties":{"tz":{"enum":["UTC","CET"]}},"required":["tz"]}},"end":"</f>"})";
  const std::string nap =
      R"({"type":"tag","begin":"<f=nap>","content":{"type":"regex","pattern":"[0-9]+"},"end":"</f>"})";
  const auto triggered = [&](const std::string& more) {
    return R"({"type":"structural_tag","format":{"type":"triggered_tags","triggers":["<f="],"tags":[)" + time + "," +
           nap + "]" + more + "}}";
  };
  expect(Kind::structural_tag,
         {triggered(""),
          {"", "no tag", "a <f a < f=", "<f=nap>12</f>", "x<f=time>{\"tz\":\"UTC\"}</f>, y <f=nap>7</f> z",
           "<<f=nap>1</f>"},
          {"<f=", "<f=rain>1</f>", "<f=nap>x</f>", "a<f=time>{\"tz\":\"EST\"}</f>", "<f=nap>1</f><f="}});
  expect(Kind::structural_tag, {triggered(R"(,"at_least_one":true)"), {"<f=nap>1</f> x"}, {"", "x<f=nap>1</f>"}});
  expect(Kind::structural_tag, {triggered(R"(,"stop_after_first":true)"),
                                {"", "x", "x<f=nap>1</f>"},
                                {"<f=nap>1</f> ", "<f=nap>1</f><f=nap>1</f>"}});
  expect(
      Kind::structural_tag,
      {R"({"type":"structural_tag","structures":[{"begin":"<f=n>","schema":{"type":"null"},"end":"!"}],"triggers":["<f="]})",
       {"x <f=n>null! y", ""},
       {"x <f=n>null y", "<f=n>1!"}});
  expect(
      Kind::structural_tag,
      {R"({"format":{"type":"sequence","elements":[{"type":"tag","begin":"<t>","content":{"type":"any_text"},"end":"</t>"},)"
       R"({"type":"or","elements":[{"type":"const_string","value":"yes"},{"type":"json_schema","json_schema":{"$ref":"#/$defs/a",)"
       R"("$defs":{"a":{"type":"array","items":{"$ref":"#/$defs/a"}}}}}]}]}})",
       {"<t></t>yes", "<t>a < t></t>[[],[[]]]"},
       {"<t></t></t>yes", "yes", "<t></t>", "<t></t>[[1]]"}});
  expect(Kind::structural_tag,
         {R"({"format":{"type":"tags_with_separator","separator":", ","at_least_one":true,"tags":[)" + nap + "]}}",
          {"<f=nap>1</f>", "<f=nap>1</f>, <f=nap>2</f>"},
          {"", "<f=nap>1</f>,", "<f=nap>1</f><f=nap>2</f>"}});
  expect(
      Kind::structural_tag,
      {R"({"format":{"type":"sequence","elements":[{"type":"grammar","grammar":"root ::= \"(\" root \")\" | \"x\""},)"
       R"({"type":"json_schema","json_schema":{"type":"boolean"}}]}})",
       {"((x))true"},
       {"((x)true"}});
  EXPECT_EQ(refused(Kind::structural_tag, R"({"format":{"type":"tag","begin":"a","end":"b"}})").field, "#/format");
  EXPECT_EQ(refused(Kind::structural_tag, R"({"format":{"type":"sequence","elements":[{"type":"xml"}]}})").field,
            "#/format/elements/0");
  EXPECT_EQ(refused(Kind::structural_tag, R"([])").field, "#");
}

TEST(StructuralTags, FreeTextHasNoEndOfTheTagAroundItHoweverDeepItStands) {
  const auto listed = [](const std::string& type, const std::string& elements) {
    return R"({"type":")" + type + R"(","elements":[)" + elements + "]}";
  };
  const auto repeated = [](const std::string& type, const std::string& content, const std::string& more = "") {
    return R"({"type":")" + type + R"(","content":)" + content + more + "}";
  };
  expect_format(tag(listed("sequence", kQ + "," + kAny)), {"<a>q</a>", "<a>qx</a>"}, {"<a>q</a>x</a>", "<a>x</a>"});
  expect_format(tag(listed("sequence", kAny + "," + kQ)), {"<a>xq</a>"}, {"<a></a>q</a>"});
  expect_format(tag(listed("or", kQ + "," + kAny)), {"<a>q</a>", "<a>x</a>"}, {"<a>q</a>x</a>"});
  for (const std::string type : {"optional", "star", "plus"}) {
    expect_format(tag(repeated(type, kAny)), {"<a></a>", "<a>x</a>"}, {"<a>x</a>x</a>"});
    expect_format(tag(repeated(type, listed("sequence", kQ + "," + kAny))), {"<a>qx</a>"}, {"<a>q</a>x</a>"});
  }
  expect_format(tag(repeated("repeat", kAny, R"(,"min":1,"max":-1)")), {"<a></a>", "<a>x</a>"}, {"<a>x</a>x</a>"});
  const std::string inner = R"({"begin":"<b>","content":{"type":"any_text"},"end":"</b>"})";
  const std::string triggered = R"({"type":"triggered_tags","triggers":["<b"],"tags":[)" + inner + "]}";
  expect_format(tag(triggered), {"<a>x</a>", "<a>x<b></a></b>y</a>"}, {"<a>x</a>y</a>", "<a><b></b></a>x</a>"});
  expect_format(tag(R"({"type":"dispatch","rules":[["<b",)" + kQ + "]]}"), {"<a>x<bqx</a>"}, {"<a></a></a>"});
  expect_format(tag(tag(kAny, R"("")")), {"<a><a>x</a>"}, {"<a><a></a>x</a>"});
  expect_format(tag(R"({"type":"regex","pattern":".*"})"), {"<a></a>x</a>"}, {"<a>"});  // it says so itself
}

TEST(StructuralTags, EndWhereAnEndFirstBegins) {
  expect_format(tag(kAny, R"("aa")"), {"<a>aa", "<a>xaa"}, {"<a>aaa", "<a>xaaa"});
  expect_format(tag(kAny, R"(["</a>","</a>>"])"), {"<a>x</a>", "<a>x</a>>"}, {"<a>x</a>>>", "<a></a></a>"});
  expect_format(tag(kAny, R"(["b","ab"])"), {"<a>b", "<a>xab"}, {"<a>bb", "<a>abb"});
  expect_format(tag(kAny, R"(["","."])"), {"<a>x", "<a>x."}, {"<a>.x"});
}

TEST(StructuralTags, FreeTextKeepsToItsExclusionsAndItsLength) {
  expect_format(R"({"type":"any_text","excludes":["ab","c"],"max_chars":null})", {"", "a b"}, {"ab", "xaab", "c"});
  expect_format(R"({"type":"any_text","max_chars":2})", {"", "\u00e9\u65e5"}, {"abc"});
  expect_format(R"({"type":"star","content":{"type":"any_text","max_chars":2}})", {"", "abcde"}, {});
  expect_format(R"({"type":"repeat","min":0,"max":2,"content":{"type":"any_text","max_chars":2}})", {"abcd"},
                {"abcde"});
  expect_format(tag(R"({"type":"any_text","excludes":["x"],"max_chars":2})"), {"<a>ab</a>"},
                {"<a>abc</a>", "<a>x</a>"});
  const std::string triggered =
      R"({"type":"triggered_tags","triggers":["<b"],"tags":[{"begin":"<b>","content":{"type":"any_text"},"end":"!"}],)";
  expect_format(triggered + R"("excludes":["x"]})", {"<b>x!", "y<b>!y"}, {"x", "x<b>!", "<b>!x"});
  expect_format(triggered + R"("excludes":["y<b"]})", {"<b>!", "x<b>!y"}, {"y<b>!"});
  expect_format(triggered + R"("excludes":["x"],"at_least_one":true})", {"<b>!y"}, {"<b>!x", "y<b>!"});
  expect_format(triggered + R"("excludes":["x"],"stop_after_first":true})", {"y<b>!", "y"}, {"x<b>!", "x", "<b>!y"});
}

TEST(StructuralTags, RepeatAndDispatch) {
  const auto repeat = [](const std::string& bounds) { return R"({"content":)" + kQ + "," + bounds + "}"; };
  expect_format(repeat(R"("min":1,"max":2)"), {"q", "qq"}, {"", "qqq"});
  expect_format(repeat(R"("min":2,"max":-1)"), {"qq", "qqqq"}, {"q"});
  EXPECT_EQ(refused_format(repeat(R"("min":2,"max":1)")).field, "#/format/max");
  EXPECT_EQ(refused_format(repeat(R"("min":2)")).field, "#/format/min");  // told to be an optional
  const auto dispatch = [](const std::string& more) {
    return R"({"rules":[["ab",)" + kQ + R"(],["b",{"value":"y"}],["c",{"value":"1"}],["cc",{"value":"2"}]])" + more +
           "}";
  };
  expect_format(dispatch(""), {"", "x", "xabqby", "c1x", "cc2"}, {"aby", "bq", "cc1", "x c"});
  expect_format(dispatch(R"(,"loop":false)"), {"x", "xabq"}, {"abqx", "abqby"});
  expect_format(dispatch(R"(,"excludes":["x"])"), {"abqz"}, {"xabq", "abqx"});
  EXPECT_EQ(refused_format(R"({"type":"dispatch","rules":[["",{"value":"y"}]]})").field, "#/format/rules/0");
}

TEST(StructuralTags, ATypeMayBeLeftOutWhereTheMembersTellIt) {
  expect_format(R"({"elements":[{"value":"x"},{"json_schema":{"type":"null"}},{"pattern":"[0-9]"}]})", {"xnull1"},
                {"x"});
  expect_format(R"({"begin":"<","content":{"excludes":["x"]},"end":">"})", {"<y>"}, {"<x>", "<>>"});
  expect_format(R"({"content":{"grammar":"root ::= \"x\""}})", {"", "x"}, {"xx"});
  EXPECT_EQ(refused_format("{}").field, "#/format");
}

TEST(StructuralTags, NoMemberIsPassedOver) {
  struct Case {
    std::string format, field;
    Error::Kind kind;
  };
  constexpr auto kBad = Error::Kind::bad_request, kUnsupported = Error::Kind::unsupported;
  const std::string schema = R"({"type":"json_schema","json_schema":{"type":"object"},)";
  const Case cases[] = {
      {R"({"type":"any_text","exclude":["a"]})", "exclude", kBad},
      {R"({"type":"any_text","excludes":"a"})", "excludes", kBad},
      {R"({"type":"any_text","excludes":[""]})", "excludes", kBad},
      {R"({"type":"any_text","max_chars":-1})", "max_chars", kBad},
      {R"({"type":"any_text","max_tokens":3})", "max_tokens", kUnsupported},
      {R"({"type":"const_string","value":"x","a/b":1})", "a~1b", kBad},
      {schema + R"("style":"nope"})", "style", kUnsupported},
      {schema + R"("style":"cohere_xml"})", "style", kUnsupported},
      {schema + R"("any_order":1})", "any_order", kBad},
      {schema + R"("max_whitespace_cnt":0})", "max_whitespace_cnt", kBad},
      {schema + R"("excludes":["a"]})", "excludes", kUnsupported},
      {R"({"type":"tag","begin":{"type":"token","token":1},"content":{"value":"x"},"end":"e"})", "begin", kUnsupported},
      {R"({"type":"triggered_tags","triggers":["a"],"tags":[{"begin":"a","content":{"value":"x"},"end":"b"}],)"
       R"("at_least_one":"yes"})",
       "at_least_one", kBad},
      {R"({"type":"triggered_tags","triggers":["a"],"tags":[{"begin":"a","content":{"value":"x"},"end":"b","id":1}]})",
       "tags/0/id", kBad},
  };
  for (const Case& one : cases) {
    const Error error = refused_format(one.format);
    EXPECT_EQ(error.field, "#/format/" + one.field) << one.format << ": " << error.message;
    EXPECT_EQ(error.kind, one.kind) << one.format;
  }
  EXPECT_EQ(refused_format(R"({"type":"any_tokens"})").kind, kUnsupported);
  EXPECT_EQ(refused(Kind::structural_tag, R"({"type":"structural","format":{"value":"x"}})").field, "#/type");
  EXPECT_EQ(refused(Kind::structural_tag, R"({"format":{"value":"x"},"triggers":["x"]})").field, "#/triggers");
  expect_format(schema + R"("style":"json","any_order":false,"max_whitespace_cnt":null,"excludes":[]})", {"{}"}, {"1"});
}

TEST(StructuralTags, ASchemaMayAskForOrderAndSpace) {
  const auto schema = [](const std::string& more) {
    return R"({"type":"json_schema","json_schema":{"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"}},)"
           R"("required":["a","b"],"additionalProperties":false},)" +
           more + "}";
  };
  const std::string in_order = R"({"a":null,"b":null})", other = R"({"b":null,"a":null})";
  expect_format(schema(R"("any_order":true)"), {in_order, other}, {R"({"b":null})", R"({"b":null,"b":null})"});
  expect_format(schema(R"("any_order":false)"), {in_order}, {other});
  const auto reads = [&](const std::string& more, const std::string& text) {
    Constraint constraint{Kind::structural_tag, R"({"format":)" + schema(more) + "}"};
    constraint.flexible_whitespace = true;
    const auto grammar = *Grammar::compile(constraint, bytes_only(), patient());
    const auto state = *grammar->read(grammar->start(), text);
    return state != Automaton::dead && grammar->complete(state);
  };
  EXPECT_TRUE(reads(R"("max_whitespace_cnt":2)", "{\n \"a\": null,  \"b\":null}"));
  EXPECT_FALSE(reads(R"("max_whitespace_cnt":2)", "{\n  \"a\": null,  \"b\":null}"));
  EXPECT_TRUE(reads(R"("max_whitespace_cnt":null)", "{\n  \"a\": null,  \"b\":null}"));
}

TEST(StructuralTags, AnOlderStructuresSchemaMayBeAString) {
  const auto older = [](const std::string& schema) {
    return R"({"type":"structural_tag","structures":[{"begin":"<","schema":)" + schema +
           R"(,"end":">"}],"triggers":["<"]})";
  };
  expect(Kind::structural_tag, {older(R"("{\"type\":\"null\"}")"), {"x<null>"}, {"<1>"}});
  EXPECT_EQ(refused(Kind::structural_tag, older(R"("{")")).field, "#/structures/0/schema");
}

TEST(StructuralTags, WhatIsRefusedInsideATagNamesTheTagsPlace) {
  const auto refusal = [](const std::string& content) {
    return refused_format(R"({"type":"triggered_tags","triggers":["<"],"tags":[{"begin":"<","end":">","content":)" +
                          content + "}]}");
  };
  const std::string place = "#/format/tags/0/content";
  const Error pattern = refusal(R"x({"type":"regex","pattern":"a(?<=x)"})x");
  EXPECT_EQ(pattern.kind, Error::Kind::unsupported);
  EXPECT_EQ(pattern.field, place + "/pattern");
  EXPECT_TRUE(pattern.message.ends_with(" (the pattern at " + place + "/pattern)")) << pattern.message;
  const Error schema = refusal(R"({"type":"json_schema","json_schema":{"properties":{"a":{"type":"x"}}}})");
  EXPECT_TRUE(schema.message.ends_with(" (the schema at " + place + ")")) << schema.message;
  for (const char* rules : {R"(root ::= missing)", R"(root ::= \"a\" root)"}) {
    const Error grammar = refusal(R"({"type":"grammar","grammar":")" + std::string(rules) + "\"}");
    EXPECT_EQ(grammar.field, place + "/grammar");
    EXPECT_TRUE(grammar.message.ends_with(" (the grammar at " + place + "/grammar)")) << grammar.message;
  }
}

TEST(StructuralTags, ParametersAreWrittenBetweenMarks) {
  const std::string both = R"({"a":{"type":"string","title":"A"},"n":{"type":"integer"}})", a = R"(,"required":["a"])";
  expect_format(parameters("qwen_xml", both, a),
                {parameter("a", "x"), "\n" + parameter("a", "\nx <b>\n") + "\n" + parameter("n", "\n12\n") + "\n",
                 parameter("a", ""), parameter("a", "\"x\"")},
                {"", parameter("n", "1"), parameter("n", "1") + parameter("a", "x"), parameter("a", "</parameter>"),
                 parameter("a", "x") + parameter("n", "\"1\""), parameter("a", "x") + parameter("b", "y"),
                 parameter("a", "x") + parameter("a", "x")});
  expect_format(R"({"type":"qwen_xml_parameter","json_schema":{"properties":)" + both + "}}",
                {"", parameter("a", "x"), parameter("n", "1")}, {parameter("b", "x")});
  expect_format(parameters("minimax_xml", both), {R"(<parameter name="a">x</parameter>)"}, {parameter("a", "x")});
  expect_format(parameters("glm_xml", both),
                {"<arg_key>a</arg_key>\n<arg_value>x</arg_value>", "<arg_key>n</arg_key><arg_value>1</arg_value>"},
                {"<arg_key>n</arg_key><arg_value>x</arg_value>"});
  const auto deepseek = [](const std::string& name, const std::string& text, const std::string& value) {
    return "<\uff5cDSML\uff5cparameter name=\"" + name + "\" string=\"" + text + "\">" + value +
           "</\uff5cDSML\uff5cparameter>";
  };
  expect_format(parameters("deepseek_xml", both), {deepseek("a", "true", "x") + "\n" + deepseek("n", "false", "1")},
                {deepseek("a", "false", "x"), deepseek("n", "true", "1")});
}

TEST(StructuralTags, ParametersFollowTheirSchemas) {
  const auto expect_values = [](const std::string& schema, std::vector<std::string> right,
                                std::vector<std::string> wrong) {
    for (auto* values : {&right, &wrong})
      for (std::string& value : *values) value = parameter("a", value);
    expect_format(parameters("qwen_xml", R"({"a":)" + schema + "}",
                             R"(,"required":["a"],"$defs":{"s":{"type":"string","enum":["s"]},"o":{"type":"object",)"
                             R"("properties":{"o":{"$ref":"#/$defs/o"}},"additionalProperties":false}})"),
                  right, wrong);
  };
  expect_values(R"({"enum":["x","y z",1]})", {"x", "\ny z\n", "1"}, {"\"x\"", "z", "2"});
  expect_values(R"({"type":"string","const":"x"})", {"x"}, {"\"x\"", "y"});
  expect_values(R"({"type":"string","pattern":"^[a-c]+$"})", {"abc", "\nabc\n"}, {"d", ""});
  expect_values(R"({"type":"string","minLength":2,"maxLength":3})", {"ab", "abc", "\nabc\n"}, {"a", "abcd"});
  expect_values(R"({"type":"string","format":"date"})", {"2020-01-01"}, {"x"});
  expect_values(R"({"anyOf":[{"type":"string","maxLength":1},{"type":"integer"}]})", {"x", "12"}, {"xy"});
  expect_values(R"({"oneOf":[{"type":"integer"},{"type":"boolean"}]})", {"1", "true"}, {"x"});
  expect_values(R"({"type":["integer","null"]})", {"1", "null"}, {"x"});
  expect_values(R"({"$ref":"#/$defs/s"})", {"s"}, {"\"s\"", "x"});
  expect_values(R"({"allOf":[{"$ref":"#/$defs/o"}],"description":"d"})", {R"({"o":{"o":{}}})"}, {"s", R"({"o":1})"});
  expect_values(R"({"type":"array","items":{"$ref":"#/$defs/o"}})", {R"([{},{"o":{}}])"}, {"[1]"});
  expect_values("{}", {"x", "{}"}, {"</parameter>"});
  const auto place_refused = [](const std::string& schema) {
    const Error error = refused_format(parameters("qwen_xml", R"({"a":)" + schema + "}"));
    EXPECT_EQ(error.kind, Error::Kind::unsupported) << error.message;
    return error.field;
  };
  EXPECT_EQ(place_refused(R"({"type":"string","not":{"const":"x"}})"), "#/properties/a/not");
  EXPECT_EQ(place_refused(R"({"minimum":1})"), "#/properties/a");
  EXPECT_EQ(place_refused(R"({"oneOf":[{"type":"string"},{"const":"x"}]})"), "#/properties/a/oneOf");
  EXPECT_EQ(place_refused(R"({"$ref":"#/properties/a"})"), "#");
  EXPECT_EQ(refused_format(parameters("qwen_xml", "{}", R"(,"additionalProperties":true)")).field,
            "#/additionalProperties");
  EXPECT_EQ(refused_format(parameters("qwen_xml", "{}", R"(,"required":["a"])")).field, "#/required");
}

}  // namespace
}  // namespace espalier::grammar
