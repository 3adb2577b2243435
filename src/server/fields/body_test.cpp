// Bodies -> typed requests: every field at the edges of its range, wrong types, lists, what must never be ignored.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "server/fields/constraint_fields.h"
#include "server/llamacpp/completion_body.h"
#include "server/native/generate_body.h"
#include "server/openai/chat.h"
#include "server/openai/completions.h"
#include "server/programs/program_body.h"
#include "server/prompt/chat_messages.h"
#include "server/prompt/sampling_defaults.h"
#include "server/responses/response_body.h"
#include "testing/data.h"

namespace espalier::server {
namespace {

Json json(std::string_view text) {
  auto parsed = parse_json(text);
  EXPECT_TRUE(parsed.ok()) << text;
  return parsed.ok() ? *parsed : Json();
}

const ServerOptions kOptions;

auto completion(std::string_view text) {
  return parse_completion(json(text), kOptions);
}
auto chat_body(std::string_view text) {
  return parse_chat(json(text), kOptions, {});
}
auto native(std::string_view text) {
  return parse_generate(json(text), kOptions);
}

// A field's value that is accepted or refused in the three bodies that share it.
struct Edge {
  const char* field;
  const char* value;
  bool accepted;
};

constexpr Edge kShared[] = {{"temperature", "0", true},
                            {"temperature", "100", true},
                            {"temperature", "-0.001", false},
                            {"temperature", "100.001", false},
                            {"temperature", "\"1\"", false},
                            {"temperature", "true", false},
                            {"temperature", "null", true},
                            {"top_p", "1e-9", true},
                            {"top_p", "0", false},
                            {"top_p", "1", true},
                            {"top_p", "1.0001", false},
                            {"top_k", "-1", true},
                            {"top_k", "0", true},
                            {"top_k", "-2", false},
                            {"top_k", "1.0", false},
                            {"min_p", "0", true},
                            {"min_p", "1", true},
                            {"min_p", "1.1", false},
                            {"min_p", "-0.1", false},
                            {"frequency_penalty", "-2", true},
                            {"frequency_penalty", "2", true},
                            {"frequency_penalty", "2.01", false},
                            {"presence_penalty", "-2.01", false},
                            {"presence_penalty", "2", true},
                            {"repetition_penalty", "0", false},
                            {"repetition_penalty", "10", true},
                            {"repetition_penalty", "10.1", false},
                            {"n", "1", true},
                            {"n", "64", true},
                            {"n", "0", false},
                            {"n", "65", false},
                            {"n", "1.5", false},
                            {"n", "99999999999", false},
                            {"stop", "\"x\"", true},
                            {"stop", "[\"x\",\"y\"]", true},
                            {"stop", "[1]", false},
                            {"stop", "7", false},
                            {"stop", "\"\"", true},
                            {"stop_token_ids", "[1,null,2]", true},
                            {"stop_token_ids", "[-1]", false},
                            {"stop_token_ids", "3", false},
                            {"ignore_eos", "1", false},
                            {"ignore_eos", "true", true},
                            {"logit_bias", "{\"5\":-100}", true},
                            {"logit_bias", "{\"5\":100.1}", false},
                            {"logit_bias", "{\"x\":1}", false},
                            {"logit_bias", "{\"-1\":1}", false},
                            {"logit_bias", "[1]", false},
                            {"skip_special_tokens", "\"no\"", false},
                            {"regex", "\"a+\"", true},
                            {"regex", "7", false},
                            {"regex", "\"\"", true},
                            {"regex", "null", true},
                            {"json_schema", "\"{}\"", true},
                            {"json_schema", "[1]", false},
                            {"ebnf", "\"root ::= x\"", true},
                            {"choices", "[\"a\"]", true},
                            {"choices", "[]", false},
                            {"choices", "\"a\"", false},
                            {"json_whitespace", "\"flexible\"", true},
                            {"json_whitespace", "\"any\"", false},
                            {"json_closing", "1", false},
                            {"beam_width", "1", true},
                            {"beam_width", "2", false},
                            {"structural_tag", "7", false}};

TEST(Bodies, SharedSamplingFieldsHoldTheirRanges) {
  for (const auto& [field, value, accepted] : kShared) {
    const std::string member = fmt::format("\"{}\":{}", field, value);
    const bool openai_only_missing = std::string_view(field) == "beam_width";
    const auto c = completion(fmt::format("{{\"prompt\":\"x\",{}}}", member));
    EXPECT_EQ(c.ok(), accepted) << member << (c.ok() ? "" : c.error().message);
    const auto h = chat_body(fmt::format("{{\"messages\":[{{\"role\":\"user\",\"content\":\"x\"}}],{}}}", member));
    EXPECT_EQ(h.ok(), accepted) << member << (h.ok() ? "" : h.error().message);
    const auto g = native(fmt::format("{{\"text\":\"x\",\"sampling_params\":{{{}}}}}", member));
    EXPECT_EQ(g.ok(), accepted) << member << (g.ok() ? "" : g.error().message);
    if (accepted || openai_only_missing) continue;
    EXPECT_NE(c.error().field.find(field), std::string::npos) << c.error().message;
    EXPECT_NE(g.error().field.find(field), std::string::npos) << g.error().message;
    EXPECT_EQ(c.error().http_status(), 400);
  }
}

// The body of /generate with more members, inside sampling_params or beside it.
auto native_with(std::string_view members, bool inside) {
  return native(inside ? fmt::format(R"({{"text":"x","sampling_params":{{{}}}}})", members)
                       : fmt::format(R"({{"text":"x",{}}})", members));
}

TEST(Bodies, ConstraintsComeInEveryClientsSpelling) {
  using Kind = Constraint::Kind;
  const struct {
    const char* member;
    Kind kind;
    const char* text;
    const char* place;
  } cases[] = {
      {R"("response_format":{"type":"text"})", Kind::none, "", ""},
      {R"("response_format":{"type":"json_object"})", Kind::json_object, "", "response_format"},
      {R"("response_format":{"type":"json_object","schema":{"type":"null"}})", Kind::json_schema, R"({"type":"null"})",
       "response_format.schema"},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"null"}}})",
       Kind::json_schema, R"({"type":"null"})", "response_format.json_schema.schema"},
      {R"("guided_json":"{\"type\":\"null\"}")", Kind::json_schema, R"({"type":"null"})", "guided_json"},
      {R"("guided_regex":"a")", Kind::regex, "a", "guided_regex"},
      {R"("guided_choice":["a","b"])", Kind::choice, R"(["a","b"])", "guided_choice"},
      {R"("guided_grammar":"root ::= x")", Kind::ebnf, "root ::= x", "guided_grammar"},
      {R"("grammar":"start: \"a\"")", Kind::lark, "start: \"a\"", "grammar"},
      {R"("guided_json_object":true)", Kind::json_object, "", "guided_json_object"},
      {R"("structured_outputs":{"regex":"a"})", Kind::regex, "a", "structured_outputs.regex"},
      {R"("structured_outputs":{"json":{"type":"null"},"disable_any_whitespace":true})", Kind::json_schema,
       R"({"type":"null"})", "structured_outputs.json"},
      {R"("json_schema":"$$ANY$$")", Kind::json_object, "", "json_schema"},
      {R"("regex":"","guided_regex":"a")", Kind::regex, "a", "guided_regex"},
  };
  for (const auto& c : cases) {
    const auto body = completion(fmt::format("{{\"prompt\":\"x\",{}}}", c.member));
    ASSERT_TRUE(body.ok()) << c.member << ": " << body.error().message;
    EXPECT_EQ(body->common.constraint.constraint.kind, c.kind) << c.member;
    EXPECT_EQ(body->common.constraint.constraint.text, c.text) << c.member;
    EXPECT_EQ(body->common.constraint.place, c.place) << c.member;
    for (const bool inside : {true, false}) {  // of /generate
      const auto request = native_with(c.member, inside);
      ASSERT_TRUE(request.ok()) << c.member << ": " << request.error().message;
      const ConstraintFields& asked = request->items.front().constraint;
      EXPECT_EQ(asked.constraint, body->common.constraint.constraint) << c.member;
      EXPECT_EQ(asked.place, (inside && c.kind != Kind::none ? "sampling_params." : "") + std::string(c.place));
    }
  }
  const auto open = completion(
      R"({"prompt":"x","response_format":{"type":"json_schema","json_schema":{"strict":false,"schema":{}}}})");
  ASSERT_TRUE(open.ok());
  EXPECT_EQ(open->common.constraint.constraint.closed, Constraint::Closed::as_written);
}

// A constraint that would not be there is worse than a refusal.
TEST(Bodies, MembersThatWouldConstrainNothingAreRefused) {
  const std::pair<const char*, const char*> refused[] = {
      {R"("structured_outputs":{"type":"json_schema","json_schema":{"schema":{}}})", "structured_outputs.type"},
      {R"("structured_outputs":{"regex":"a","schema":{"type":"null"}})", "structured_outputs.schema"},
      {R"("structured_outputs":{})", "structured_outputs"},
      {R"("structured_outputs":{"regex":null,"json_object":false,"grammar":""})", "structured_outputs"},
      {R"("structured_outputs":{"disable_any_whitespace":true})", "structured_outputs"},
      {R"("regex":"a","structured_outputs":{"json":null})", "structured_outputs"},
      {R"("structured_outputs":"json")", "structured_outputs"},
      {R"("response_format":{"type":"json"})", "response_format.type"},
      {R"("response_format":{"type":"json_object","schema":""})", "response_format.schema"},
      {R"("response_format":{"type":"json_schema","json_schema":{"schema":""}})", "response_format.json_schema.schema"},
      {R"("response_format":{})", "response_format.type"},
  };
  for (const auto& [member, field] : refused) {
    const auto body = completion(fmt::format("{{\"prompt\":\"x\",{}}}", member));
    ASSERT_FALSE(body.ok()) << member;
    EXPECT_EQ(body.error().http_status(), 400) << member;
    EXPECT_EQ(body.error().field, field) << member;
  }
  const auto unknown = completion(R"({"prompt":"x","structured_outputs":{"schema":{"type":"null"}}})");
  EXPECT_EQ(unknown.error().message,
            "structured_outputs has no member \"schema\"; its members are json, regex, choice, grammar, json_object, "
            "structural_tag, disable_any_whitespace, whitespace_pattern, disable_fallback");
  // What clients write out of their own.
  const auto unset = completion(
      R"({"prompt":"x","guided_json":null,"response_format":null,"structured_outputs":{"json":null,"regex":"a",)"
      R"("disable_fallback":true,"disable_additional_properties":false,"_backend":null}})");
  ASSERT_TRUE(unset.ok()) << unset.error().message;
  EXPECT_EQ(unset->common.constraint.place, "structured_outputs.regex");
}

TEST(Bodies, NumbersOfConstraintsAreTakenAsWrittenAndOthersAsDoubles) {
  const std::string schema =
      R"({"minimum":0.1000000000000000055511151231257827,"enum":[123456789012345678901234567890]})";
  const JsonLimits exact = request_limits();
  for (const std::string& member :
       {R"("json_schema":)" + schema, R"("guided_json":)" + schema, R"("structured_outputs":{"json":)" + schema + "}",
        R"("response_format":{"type":"json_schema","json_schema":{"schema":)" + schema + "}}"}) {
    auto body = *parse_json(R"({"prompt":"x","temperature":0.84442185152504810001,"seed":1e30,)" + member + "}", exact);
    ASSERT_TRUE(round_numbers_outside_constraints(body).ok()) << member;
    EXPECT_EQ(body["temperature"], 0.8444218515250481);
    EXPECT_TRUE(body["seed"].is_number_float());
    body.erase("seed");
    const auto read = parse_completion(body, kOptions);
    ASSERT_TRUE(read.ok()) << member << ": " << read.error().message;
    EXPECT_EQ(read->common.constraint.constraint.text, schema);
  }
  auto native_body =
      *parse_json(R"({"text":"x","sampling_params":{"top_p":0.50000000000000000001,"json_schema":)" + schema +
                      R"(},"segments":["x",{"sampling_params":{"json_schema":)" + schema + "}}]}",
                  exact);
  ASSERT_TRUE(round_numbers_outside_constraints(native_body).ok());
  EXPECT_EQ(native_body["sampling_params"]["top_p"], 0.5);
  EXPECT_EQ(native_body["sampling_params"]["json_schema"], schema);
  EXPECT_EQ(native_body["segments"][1]["sampling_params"]["json_schema"], schema);
  auto too_large = *parse_json(R"({"temperature":1e999})", exact);
  EXPECT_FALSE(round_numbers_outside_constraints(too_large).ok());
}

TEST(Bodies, SchemasSayTheSameAsTheTextThatTheyAreAndAsValues) {
  JsonLimits values;
  values.exact_numbers = true;
  const std::string schema =
      R"({"properties":{"schema":{"json_schema":{"schema":{}}}},"maximum":123456789012345678901})";
  for (const std::string& member :
       {R"("json_schema":)" + schema, R"("guided_json":)" + schema, R"("structured_outputs":{"json":)" + schema + "}",
        R"("response_format":{"type":"json_object","schema":)" + schema + "}",
        R"("response_format":{"type":"json_schema","json_schema":{"strict":false,"schema":)" + schema + "}}"}) {
    const std::string body = R"({"prompt":"x",)" + member + "}";
    const auto as_values = parse_completion(*parse_json(body, values), kOptions);
    const auto as_text = parse_completion(*parse_json(body, request_limits()), kOptions);
    ASSERT_TRUE(as_values.ok() && as_text.ok()) << member;
    EXPECT_EQ(as_text->common.constraint.constraint, as_values->common.constraint.constraint) << member;
    EXPECT_EQ(as_text->common.constraint.constraint.text, schema) << member;
    EXPECT_EQ(as_text->common.constraint.place, as_values->common.constraint.place) << member;
  }
  const auto body =
      *parse_json(R"({"sampling_params":[{"json_schema":)" + schema + R"(},{"json_schema":true}],"schema":{},)" +
                      R"("segments":["x",{"name":"a","sampling_params":{"json_schema":)" + schema + "}}]}",
                  request_limits());
  EXPECT_EQ(body["sampling_params"][0]["json_schema"], schema);
  EXPECT_EQ(body["sampling_params"][1]["json_schema"], true);
  EXPECT_EQ(body["segments"][1]["sampling_params"]["json_schema"], schema);
  EXPECT_TRUE(body["schema"].is_object()) << "nobody's constraint";
}

TEST(Bodies, OneConstraintOfManyPromptsIsKeptOnce) {
  const auto read = parse_generate(
      *parse_json(R"({"text":["a","b","c","d"],"sampling_params":[{"regex":"x"},{"regex":"x"},{"regex":"y"},)"
                  R"({"regex":"x","json_closing":true}]})"),
      kOptions);
  ASSERT_TRUE(read.ok()) << read.error().message;
  const std::size_t of[] = {0, 0, 2, 3};
  const char* texts[] = {"x", "", "y", "x"};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(read->items[i].constraint_of, of[i]);
    EXPECT_EQ(read->items[i].constraint.constraint.text, texts[i]);
  }
}

TEST(Bodies, NumbersOfAProgramsConstraintsAreTakenAsWrittenToo) {
  const JsonLimits exact = request_limits();
  const std::string schema = R"({"minimum":0.1000000000000000055511151231257827})";
  auto body =
      *parse_json(R"({"program":{"version":1,"streams":1,"nodes":[{"stream":0,"kind":"gen","name":"a","options":)"
                  R"({"top_p":0.50000000000000000001,"json_schema":)" +
                      schema + R"(}}]},"arguments":{},"sampling_params":{"json_schema":)" + schema + "}}",
                  exact);
  ASSERT_TRUE(round_numbers_outside_constraints(body).ok());
  const auto read = parse_program(body);
  ASSERT_TRUE(read.ok()) << read.error().message;
  const Json options = read->graph.to_json()["nodes"][0]["options"];
  EXPECT_EQ(options["top_p"], 0.5);
  EXPECT_EQ(options["json_schema"], schema);
  EXPECT_EQ(read->defaults.json_schema, schema);
}

TEST(Bodies, ConstraintsThatMakeNoSenseNameTheirField) {
  const struct {
    const char* member;
    const char* field;
  } cases[] = {
      {R"("regex":"a","ebnf":"root ::= x")", "ebnf"},
      {R"("guided_json":{"type":"null"},"response_format":{"type":"json_object"})", "guided_json"},
      {R"("response_format":{"type":"xml"})", "response_format.type"},
      {R"("response_format":{})", "response_format.type"},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"x"}})", "response_format.json_schema.schema"},
      {R"("structured_outputs":[])", "structured_outputs"},
      {R"("structured_outputs":{"choice":[]})", "structured_outputs.choice"},
      {R"("guided_whitespace_pattern":"[ ]?")", "guided_whitespace_pattern"},
  };
  for (const auto& [member, field] : cases) {
    const auto refused = completion(fmt::format("{{\"prompt\":\"x\",{}}}", member));
    ASSERT_FALSE(refused.ok()) << member;
    EXPECT_EQ(refused.error().field, field) << member;
  }
}

TEST(Bodies, TwoConstraintsOfWhateverSpellingAreRefused) {
  const struct {
    const char* members;
    const char* field;
  } cases[] = {
      {R"("regex":"a","sampling_params":{"regex":"a"})", "sampling_params.regex"},
      {R"("sampling_params":{"regex":"a","guided_regex":"b"})", "sampling_params.guided_regex"},
      {R"("sampling_params":{"response_format":{"type":"json_object"},"structured_outputs":{"regex":"a"}})",
       "sampling_params.structured_outputs.regex"},
      {R"("ebnf":"root ::= x","choices":["a"])", "choices"},
  };
  for (const auto& [members, field] : cases) {
    const auto refused = native(fmt::format(R"({{"text":"x",{}}})", members));
    ASSERT_FALSE(refused.ok()) << members;
    EXPECT_EQ(refused.error().field, field);
    EXPECT_EQ(refused.error().http_status(), 400);
    EXPECT_NE(refused.error().message.find("both there"), std::string::npos) << refused.error().message;
  }
}

TEST(Bodies, UnknownFieldsNamedLikeConstraintsAreRefusedUnlessEmpty) {
  const auto refused = [](const std::string& member, const std::string& field) {
    for (const bool inside : {true, false}) {
      const auto body = native_with(member, inside);
      ASSERT_FALSE(body.ok()) << member;
      EXPECT_EQ(body.error().field, (inside ? "sampling_params." : "") + field);
      EXPECT_EQ(body.error().code, "unsupported_parameter");
    }
    const auto openai = completion(fmt::format(R"({{"prompt":"x",{}}})", member));
    const auto chat = chat_body(fmt::format(R"({{"messages":[{{"role":"user","content":"x"}}],{}}})", member));
    ASSERT_FALSE(openai.ok() || chat.ok()) << member;
    EXPECT_EQ(openai.error().field, field);
    EXPECT_EQ(chat.error().field, field);
  };
  refused(R"("guided_decoding":{"regex":"a"})", "guided_decoding");
  refused(R"("response_schema":{"type":"null"})", "response_schema");
  refused(R"("choice":["a"])", "choice");
  refused(R"("format":"json")", "format");
  for (const char* empty : {R"("guided_decoding":null)", R"("response_schema":{})", R"("grammar_lazy":false)",
                            R"("guided_decoding_backend":"xgrammar")"}) {
    EXPECT_TRUE(native(fmt::format(R"({{"text":"x","sampling_params":{{{}}}}})", empty)).ok()) << empty;
    EXPECT_TRUE(native(fmt::format(R"({{"text":"x",{}}})", empty)).ok()) << empty;
    EXPECT_TRUE(completion(fmt::format(R"({{"prompt":"x",{}}})", empty)).ok()) << empty;
  }
}

TEST(CompletionBody, PromptsComeInFourShapes) {
  EXPECT_EQ(completion(R"({"prompt":"a"})")->prompts.prompts.size(), 1u);
  EXPECT_EQ(completion(R"({"prompt":["a","b"]})")->prompts.prompts.size(), 2u);
  EXPECT_EQ(completion(R"({"prompt":[1,2,3]})")->prompts.prompts.size(), 1u);
  EXPECT_EQ(completion(R"({"prompt":[[1],[2,3]]})")->prompts.prompts.size(), 2u);
  for (const char* bad : {R"({})", R"({"prompt":""})", R"({"prompt":[]})", R"({"prompt":[""]})", R"({"prompt":[[]]})",
                          R"({"prompt":[1,"a"]})", R"({"prompt":["a",[1]]})", R"({"prompt":{}})", R"({"prompt":5})",
                          R"({"prompt":[-1]})", R"({"prompt":[1.5]})", R"({"prompt":null})"}) {
    const auto refused = completion(bad);
    ASSERT_FALSE(refused.ok()) << bad;
    EXPECT_TRUE(refused.error().field.starts_with("prompt")) << refused.error().field;
  }
  std::string many = "{\"prompt\":[";
  for (int i = 0; i < kOptions.max_prompts; ++i) many += "\"a\",";
  EXPECT_TRUE(completion(many.substr(0, many.size() - 1) + "]}").ok());
  EXPECT_FALSE(completion(many + "\"a\"]}").ok());
}

TEST(CompletionBody, LengthsAndLogprobsHaveTheirEdges) {
  EXPECT_EQ(completion(R"({"prompt":"a"})")->sampling.max_new_tokens, 16);
  EXPECT_FALSE(completion(R"({"prompt":"a","max_tokens":0})").ok());
  EXPECT_TRUE(completion(R"({"prompt":"a","max_tokens":0,"echo":true})").ok());
  EXPECT_FALSE(completion(R"({"prompt":"a","max_tokens":-1})").ok());
  EXPECT_EQ(completion(R"({"prompt":"a","logprobs":20})")->logprobs, 20);
  EXPECT_FALSE(completion(R"({"prompt":"a","logprobs":21})").ok());
  EXPECT_FALSE(completion(R"({"prompt":"a","logprobs":-1})").ok());
  EXPECT_TRUE(completion(R"({"prompt":"a","best_of":1,"n":3})").ok());
  EXPECT_TRUE(completion(R"({"prompt":"a","best_of":3,"n":3})").ok());
  EXPECT_EQ(completion(R"({"prompt":"a","best_of":2,"n":3})").error().field, "best_of");
  EXPECT_EQ(completion(R"({"prompt":"a","best_of":3,"n":2})")->common.best_of, 3);
  EXPECT_EQ(completion(R"({"prompt":"a","best_of":3,"n":2,"stream":true})").error().field, "best_of");
  EXPECT_EQ(completion(R"({"prompt":"a","best_of":65})").error().field, "best_of");
  EXPECT_EQ(completion(R"({"prompt":"a","suffix":"z"})")->common.suffix, "z");  // the model may know how
  EXPECT_EQ(chat_body(R"({"messages":[{"role":"user","content":"x"}],"suffix":"z"})").error().code,
            "unsupported_parameter");
  EXPECT_TRUE(completion(R"({"prompt":"a","suffix":null})").ok());
  EXPECT_FALSE(completion(R"({"prompt":"a","stream_options":true})").ok());
  EXPECT_TRUE(
      completion(R"({"prompt":"a","stream":true,"stream_options":{"include_usage":true}})")->common.include_usage);
}

TEST(CompletionBody, SeedsAreAllOf64Bits) {
  EXPECT_EQ(completion(R"({"prompt":"a","seed":-1})")->sampling.seed, ~std::uint64_t{0});
  EXPECT_EQ(completion(R"({"prompt":"a","seed":18446744073709551615})")->sampling.seed, ~std::uint64_t{0});
  EXPECT_FALSE(completion(R"({"prompt":"a","seed":1.5})").ok());
}

TEST(Bodies, IntegersBeyondSixtyFourBitsAreWrongValuesOfTheirField) {
  for (const char* number : {"100000000000000000000", "18446744073709551616", "-9223372036854775809"}) {
    for (const char* field : {"n", "seed", "max_tokens", "top_k", "min_tokens", "priority"}) {
      const auto refused = completion(fmt::format("{{\"prompt\":\"a\",\"{}\":{}}}", field, number));
      ASSERT_FALSE(refused.ok()) << field;
      EXPECT_EQ(refused.error().field, field);
      EXPECT_NE(refused.error().message.find(std::string_view(number).substr(0, 18)), std::string::npos)
          << refused.error().message;
    }
  }
  EXPECT_NE(completion(R"({"prompt":"a","n":100000000000000000000})").error().message.find("is 100000000000000000000"),
            std::string::npos);
}

TEST(Bodies, WrongTypesBlameTheFieldThatWasSent) {
  const auto field_of = [](const auto& result) { return result.ok() ? std::string("accepted") : result.error().field; };
  EXPECT_EQ(field_of(chat_body(R"({"input_ids":"abc"})")), "input_ids");
  EXPECT_EQ(field_of(chat_body(R"({"input_ids":[1,"a"]})")), "input_ids");
  EXPECT_EQ(field_of(native(R"({"text":5})")), "text");
  EXPECT_EQ(field_of(native(R"({"text":["a",5]})")), "text");
  EXPECT_EQ(field_of(native(R"({"text":[["a"]]})")), "text");
  EXPECT_EQ(native(R"({"text":[1,2]})").error().message, "text must be a string or a list of strings");
  EXPECT_EQ(native(R"({"input_ids":"a"})").error().message,
            "input_ids must be a list of token ids, or a list of such lists");
  EXPECT_EQ(field_of(native(R"({"text":"a","sampling_params":{"stop":5}})")), "sampling_params.stop");
  EXPECT_EQ(field_of(native(R"({"text":"a","user":5})")), "user");
  EXPECT_EQ(field_of(completion(R"({"prompt":"a","user":5})")), "user");
  EXPECT_NE(completion(R"({"prompt":[1,null,"x"]})").error().message.find("prompt[2]"), std::string::npos);
}

TEST(Bodies, WhatCannotBeHonouredIsRefusedNotIgnored) {
  const struct {
    const char* member;
    const char* field;
  } refused[] = {{R"("modalities":["text","audio"])", "modalities"},
                 {R"("modalities":7)", "modalities"},
                 {R"("web_search_options":{})", "web_search_options"},
                 {R"("truncation":"auto")", "truncation"},
                 {R"("truncation":5)", "truncation"},
                 {R"("truncate_prompt_tokens":5)", "truncate_prompt_tokens"},
                 {R"("reasoning_effort":"enormous")", "reasoning_effort"},
                 {R"("reasoning_effort":3)", "reasoning_effort"},
                 {R"("stop_regex":7)", "stop_regex"}};
  const std::string start = R"({"messages":[{"role":"user","content":"x"}],)";
  for (const auto& [member, field] : refused) {
    const auto body = chat_body(start + member + "}");
    ASSERT_FALSE(body.ok()) << member;
    EXPECT_EQ(body.error().field, field);
    EXPECT_EQ(body.error().http_status(), 400) << member;
  }
  for (const char* member : {R"("modalities":["text"])", R"("web_search_options":null)",
                             R"("web_search_options":false)", R"("truncation":"disabled")",
                             R"("reasoning_effort":"low")", R"("stop_regex":[])", R"("stop_regex":["a+", ""])"}) {
    const auto body = chat_body(start + member + "}");
    EXPECT_TRUE(body.ok()) << member << body.error().message;
  }
}

TEST(CompletionBody, UnknownFieldsAreFound) {
  EXPECT_TRUE(unknown_completion_fields(json(R"({"prompt":"a","user":"me","temperature":1,"regex":""})")).empty());
  EXPECT_EQ(unknown_completion_fields(json(R"({"prompt":"a","tempreature":1})")),
            std::vector<std::string>{"tempreature"});
  EXPECT_TRUE(unknown_chat_fields(json(R"({"messages":[],"tools":[],"top_logprobs":1,"user":"x"})")).empty());
  EXPECT_EQ(unknown_generate_fields(json(R"({"text":"a","foo":1,"sampling_params":{"bar":2}})")),
            (std::vector<std::string>{"foo", "sampling_params.bar"}));
}

TEST(ChatBody, MessagesAreCheckedOneByOne) {
  const auto with = [](const char* messages) { return chat_body(fmt::format("{{\"messages\":{}}}", messages)); };
  EXPECT_TRUE(with(R"([{"role":"USER","content":"x"}])").ok());
  EXPECT_TRUE(with(R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}])").ok());
  const Json parts =
      Json::parse(R"([{"type":"text","text":"a"},{"type":"text","text":"b"}])");  // a template may want them
  EXPECT_EQ(with(R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}])")
                ->turn.prompt.messages[0]["content"],
            parts);
  EXPECT_TRUE(
      with(R"([{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f","arguments":"{\"a\":1}"}}]}])")
          .ok());
  const struct {
    const char* messages;
    const char* field;
  } bad[] = {{"[]", "messages"},
             {"{}", "messages"},
             {"[1]", "messages[0]"},
             {R"([{"content":"x"}])", "messages[0].role"},
             {R"([{"role":"king","content":"x"}])", "messages[0].role"},
             {R"([{"role":"user"}])", "messages[0].content"},
             {R"([{"role":"user","content":5}])", "messages[0].content"},
             {R"([{"role":"user","content":"x"},{"role":"user","content":[{"type":"image_url"}]}])",
              "messages[1].content[0].image_url"},
             {R"([{"role":"user","content":[{"type":"input_audio"}]}])", "messages[0].content[0].type"},
             {R"([{"role":"assistant","content":"","tool_calls":[{}]}])", "messages[0].tool_calls[0].function"}};
  for (const auto& [messages, field] : bad) {
    const auto refused = with(messages);
    ASSERT_FALSE(refused.ok()) << messages;
    EXPECT_EQ(refused.error().field, field) << messages;
  }
}

TEST(ChatBody, ArgumentsOfOldToolCallsStayAsTheyCame) {
  const auto body = chat_body(R"({"messages":[{"role":"assistant","content":"","tool_calls":[
      {"function":{"name":"f","arguments":"{\"a\":1}"}},{"function":{"name":"f","arguments":"{broken"}}]}]})");
  ASSERT_TRUE(body.ok()) << body.error().message;
  const Json& calls = body->turn.prompt.messages[0]["tool_calls"];
  EXPECT_EQ(calls[0]["function"]["arguments"], "{\"a\":1}");
  EXPECT_EQ(calls[1]["function"]["arguments"], "{broken");
  const auto list = chat_body(R"({"messages":[{"role":"assistant","tool_calls":[
      {"function":{"name":"f","arguments":[1]}}]}]})");
  ASSERT_FALSE(list.ok());
  EXPECT_EQ(list.error().field, "messages[0].tool_calls[0].function.arguments");
}

TEST(ChatBody, NoContentBesideToolCallsStaysNull) {
  const auto body =
      chat_body(R"({"messages":[{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f"}}]},
      {"role":"assistant","content":null}]})");
  ASSERT_TRUE(body.ok()) << body.error().message;
  EXPECT_TRUE(body->turn.prompt.messages[0]["content"].is_null());
  EXPECT_EQ(body->turn.prompt.messages[1]["content"], "");
}

constexpr const char* kTwoTools =
    R"({"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f","strict":true,
        "parameters":{"type":"object"}}},{"type":"function","function":{"name":"g"}}])";

TEST(ChatBody, SomeToolsAreAllowed) {
  const auto tools = [](const std::string& choice) {
    return chat_body(kTwoTools + (",\"tool_choice\":" + choice + "}"));
  };
  using Choice = ToolFields::Choice;
  for (
      const char* choice :
      {R"({"type":"allowed_tools","allowed_tools":{"mode":"M","tools":[{"type":"function","function":{"name":"g"}}]}})",
       R"({"type":"allowed_tools","mode":"M","tools":[{"type":"function","name":"g"},{"name":"g"}]})"})
    for (const bool must : {false, true}) {
      std::string text = choice;
      text.replace(text.find("\"M\"") + 1, 1, must ? "required" : "auto");
      const auto body = tools(text);
      ASSERT_TRUE(body.ok()) << body.error().message;
      const ToolFields& read = body->turn.prompt.tools;
      EXPECT_EQ(read.choice, must ? Choice::required : Choice::automatic);
      ASSERT_EQ(read.tools.size(), 1u);
      EXPECT_EQ(read.tools[0].name, "g");
      EXPECT_EQ(read.shown.size(), must ? 2u : 1u);  // who must call is held to them
    }
  for (const auto& [choice, field] :
       {std::pair(R"({"type":"allowed_tools","mode":"auto","tools":[]})", "tool_choice.tools"),
        std::pair(R"({"type":"allowed_tools","mode":"auto","tools":["g"]})", "tool_choice.tools"),
        std::pair(R"({"type":"allowed_tools","allowed_tools":{"mode":"any","tools":[]}})",
                  "tool_choice.allowed_tools.mode"),
        std::pair(R"({"type":"allowed_tools","mode":"auto"})", "tool_choice.tools")}) {
    const auto refused = tools(choice);
    ASSERT_FALSE(refused.ok()) << choice;
    EXPECT_EQ(refused.error().field, field);
  }
}

TEST(ChatBody, ToolsAreReadWithWhatMayBeDoneWithThem) {
  const std::string start = kTwoTools;
  const auto with = [&](const std::string& more) { return chat_body(start + more + "}"); };
  using Choice = ToolFields::Choice;
  for (const auto& [more, choice, count, parallel] :
       {std::tuple("", Choice::automatic, 2u, true),
        std::tuple(R"(,"tool_choice":"auto")", Choice::automatic, 2u, true),
        std::tuple(R"(,"tool_choice":"required","parallel_tool_calls":false)", Choice::required, 2u, false),
        std::tuple(R"(,"tool_choice":{"type":"function","function":{"name":"g"}})", Choice::required, 1u, false)}) {
    const auto body = with(more);
    ASSERT_TRUE(body.ok()) << body.error().message;
    const ToolFields& tools = body->turn.prompt.tools;
    EXPECT_EQ(tools.choice, choice) << more;
    EXPECT_EQ(tools.tools.size(), count) << more;
    EXPECT_EQ(tools.parallel, parallel) << more;
    EXPECT_EQ(tools.shown.size(), 2u) << more;
    EXPECT_TRUE(tools.offers());
  }
  EXPECT_TRUE(with("")->turn.prompt.tools.tools[0].strict);
  EXPECT_EQ(with("")->turn.prompt.tools.tools[0].parameters, R"({"type":"object"})");
  EXPECT_FALSE(with(R"(,"tool_choice":"none")")->turn.prompt.tools.offers());
  EXPECT_TRUE(with(R"(,"tool_choice":"none")")->turn.prompt.tools.shown.is_null());
  for (const char* choice : {R"("must")", "7", R"({"type":"function","function":{"name":"h"}})",
                             R"({"type":"allowed_tools","mode":"auto","tools":[{"name":"h"}]})"}) {
    const auto refused = with(std::string(",\"tool_choice\":") + choice);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().field, "tool_choice");
  }
  EXPECT_FALSE(chat_body(R"({"messages":[{"role":"user","content":"x"}],"tools":[{"type":"web"}]})").ok());
}

TEST(ChatBody, TemplateArgumentsCannotReplaceTheTemplatesOwn) {
  const auto with = [](const char* arguments) {
    return chat_body(fmt::format(
        "{{\"messages\":[{{\"role\":\"user\",\"content\":\"x\"}}],\"chat_template_kwargs\":{}}}", arguments));
  };
  EXPECT_TRUE(with(R"({"enable_thinking":false})").ok());
  for (const char* name :
       {"messages", "chat_template", "tools", "bos_token", "raise_exception", "add_generation_prompt"}) {
    EXPECT_FALSE(with(fmt::format("{{\"{}\":1}}", name).c_str()).ok()) << name;
  }
  const auto own = chat_body(R"({"messages":[{"role":"user","content":"x"}],"chat_template":"{{ 1 }}"})");
  ASSERT_FALSE(own.ok());
  EXPECT_EQ(own.error().field, "chat_template");
}

TEST(ChatBody, DefaultsOfTheModelStandUntilTheBodySaysOtherwise) {
  ModelInfo model;
  model.limits.vocabulary = 100;
  model.temperature = 0.6;
  model.top_k = 20;
  const SamplingParams defaults = chat_defaults(model, kOptions);
  const std::string start = R"({"messages":[{"role":"user","content":"x"}])";
  EXPECT_EQ(parse_chat(json(start + "}"), kOptions, defaults)->sampling.temperature, 0.6);
  EXPECT_EQ(parse_chat(json(start + R"(,"temperature":null})"), kOptions, defaults)->sampling.temperature, 0.6);
  EXPECT_EQ(parse_chat(json(start + R"(,"temperature":0})"), kOptions, defaults)->sampling.temperature, 0);
  model.temperature = -3;
  EXPECT_EQ(chat_defaults(model, kOptions).temperature, 1) << "a broken file is not the client's fault";
}

TEST(GenerateBody, ABatchTakesOneValueForAllOrOnePerPrompt) {
  const auto body = native(R"({"text":["a","b"],"sampling_params":[{"temperature":0},{"temperature":1}],
                              "return_logprob":[true,false],"rid":["x","y"],"top_logprobs_num":3,
                              "token_ids_logprob":[[1,2],null]})");
  ASSERT_TRUE(body.ok()) << body.error().message;
  EXPECT_EQ(body->items[0].sampling.temperature, 0);
  EXPECT_EQ(body->items[1].sampling.temperature, 1);
  EXPECT_TRUE(body->items[0].return_logprob);
  EXPECT_FALSE(body->items[1].return_logprob);
  EXPECT_EQ(body->items[1].rid, "y");
  EXPECT_EQ(body->items[1].top_logprobs_num, 3);
  EXPECT_EQ(body->items[0].token_ids_logprob.size(), 2u);
  EXPECT_TRUE(body->items[1].token_ids_logprob.empty());
  EXPECT_EQ(native(R"({"text":["a","b"],"rid":"r"})")->items[1].rid, "r_1");
  EXPECT_EQ(native(R"({"text":["a","b"],"token_ids_logprob":[4,5]})")->items[1].token_ids_logprob.size(), 2u);
  EXPECT_FALSE(native(R"({"text":["a","b"],"rid":["x"]})").ok());
  EXPECT_FALSE(native(R"({"text":["a","b"],"sampling_params":[{"n":1},{"n":2}]})").ok());
  EXPECT_FALSE(native(R"({"text":["a","b"],"sampling_params":[{},5]})").ok());
}

TEST(GenerateBody, ExactlyOnePromptOfTheRightKind) {
  for (const char* bad :
       {R"({})", R"({"text":"a","input_ids":[1]})", R"({"text":[1,2]})", R"({"input_ids":"a"})",
        R"({"input_ids":["a"]})", R"({"text":["a",5]})", R"({"text":"a","input_embeds":[[1.0]]})",
        R"({"text":"a","image_data":5})", R"({"text":["a","b"],"image_data":["x"]})", R"({"text":"a","lora_path":5})",
        R"({"text":"a","audio_data":"x"})", R"({"text":"a","sampling_params":[]})", R"({"text":"a","stream":"yes"})"}) {
    EXPECT_FALSE(native(bad).ok()) << bad;
  }
  EXPECT_FALSE(native(R"({"text":"a"})")->is_batch);
  EXPECT_TRUE(native(R"({"text":["a"]})")->is_batch);
  EXPECT_EQ(native(R"({"text":"a"})")->items[0].sampling.max_new_tokens, 128);
  EXPECT_EQ(native(R"({"text":"a","sampling_params":{"max_new_tokens":0}})")->items[0].sampling.max_new_tokens, 0);
  EXPECT_FALSE(native(R"({"text":"a","sampling_params":{"max_new_tokens":null}})")->items[0].sampling.max_new_tokens);
  EXPECT_FALSE(native(R"({"text":"a","sampling_params":{"max_new_tokens":-1}})").ok());
}

TEST(GenerateBody, PicturesBelongToThePromptsThatSGLangGivesThem) {
  const auto counts = [](const char* text) {
    const auto body = native(text);
    std::vector<std::size_t> each;
    if (!body.ok()) return each;
    for (const GenerateItem& item : body->items) each.push_back(item.media.size());
    return each;
  };
  using Counts = std::vector<std::size_t>;
  EXPECT_EQ(counts(R"({"text":"a","image_data":"x"})"), (Counts{1}));
  EXPECT_EQ(counts(R"({"text":"a","image_data":["x",{"url":"y"}]})"), (Counts{2}));
  EXPECT_EQ(counts(R"({"text":"a","image_data":[["x","y"]]})"), (Counts{2}));
  EXPECT_EQ(counts(R"({"text":"a","image_data":null})"), (Counts{0}));
  EXPECT_EQ(counts(R"({"text":["a","b"],"image_data":"x"})"), (Counts{1, 1}));
  EXPECT_EQ(counts(R"({"text":["a","b"],"image_data":["x","y"]})"), (Counts{1, 1}));
  EXPECT_EQ(counts(R"({"text":["a","b"],"image_data":[["x","y"],[]]})"), (Counts{2, 0}));
  EXPECT_EQ(counts(R"({"text":["a","b"],"image_data":[null,"y"],"video_data":["z",null]})"), (Counts{1, 1}));
  const auto film = native(R"({"text":"a","image_data":["video:QQ=="]})");
  ASSERT_TRUE(film.ok());
  EXPECT_EQ(film->items[0].media[0].kind, MediaSource::Kind::film);
  EXPECT_EQ(film->items[0].media[0].addresses[0], "QQ==");
}

// sglang-language.md section 3, rules (a), (b) and (c).
TEST(GenerateBody, TheFirstPromptLogprobMeansWhatEachFrontEndExpects) {
  GenerateItem item;
  item.return_logprob = true;
  const auto layout = [&](std::optional<int> start, int tokens, bool text, int top = 0) {
    item.logprob_start_len = start;
    item.sampling.max_new_tokens = tokens;
    item.return_text = text;
    item.top_logprobs_num = top;
    const auto found = prompt_logprob_layout(prompt_logprobs_asked(item, 100));
    return std::pair(found.start, found.null_first);
  };
  EXPECT_EQ(layout(std::nullopt, 8, false), std::pair(-1, false));
  EXPECT_EQ(layout(-1, 8, false), std::pair(-1, false));
  EXPECT_EQ(layout(0, 8, false), std::pair(0, true));
  EXPECT_EQ(layout(5, 8, false), std::pair(5, true)) << "as servers of 0.4 and later";
  EXPECT_EQ(layout(std::nullopt, 0, false), std::pair(0, true)) << "(a)";
  EXPECT_EQ(layout(5, 0, false), std::pair(5, false)) << "(b)";
  EXPECT_EQ(layout(5, 0, true), std::pair(6, false)) << "(c)";
  EXPECT_EQ(layout(0, 0, true), std::pair(0, true));
  EXPECT_EQ(layout(std::nullopt, 8, false, 100), std::pair(0, true)) << "whole distributions are of every position";
}

template <class Row>
void expect_documented(const std::string& page, std::span<const Row> rows) {
  for (const auto& row : rows) {
    EXPECT_NE(page.find("`" + std::string(row.name) + "`"), std::string::npos) << row.name << " is not in docs/http.md";
  }
}

TEST(Bodies, EveryFieldIsDocumented) {
  const std::string page = testing::read_file(testing::source_dir() / "docs" / "http.md");
  ASSERT_FALSE(page.empty());
  expect_documented(page, native_sampling_rows());
  expect_documented(page, openai_sampling_rows());
  expect_documented(page, openai_rows());
  expect_documented(page, native_constraint_rows());
  expect_documented(page, openai_constraint_rows());
  expect_documented(page, completion_rows());
  expect_documented(page, chat_rows());
  expect_documented(page, chat_prompt_rows());
  expect_documented(page, generate_item_rows());
  for (const std::string_view name : response_field_names())
    EXPECT_NE(page.find("`" + std::string(name) + "`"), std::string::npos) << name << " is not in docs/http.md";
  expect_documented(page, llamacpp_rows());
  expect_documented(page, llama_sampling_rows());
}

}  // namespace
}  // namespace espalier::server
