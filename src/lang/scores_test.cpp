// Scores and vectors in programs: what they set, what they wait for, and that graphs of them say the same.
#include "espalier/scores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "espalier/compiler.h"
#include "lang/backends/remote/wire/score_wire.h"
#include "lang/backends/scripted_backend.h"

#pragma GCC diagnostic ignored "-Wshadow"  // a program's state is `s`, inside the function and outside

namespace espalier::scores_test {
namespace {

namespace sgl = espalier;
using espalier::testing::error_of;
using espalier::testing::ScriptedBackend;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Generates "<length of the prompt>"; a text's score is how often the query's first letter is in it, its vector that number and its
// length. A text with "bad" in it is refused.
std::shared_ptr<ScriptedBackend> scoring() {
  auto backend = ScriptedBackend::make(
      [](const std::string& text, const GenCall&) { return Result<std::string>(std::to_string(text.size())); });
  backend->set_scores([](const ScoreCall& call) -> Result<ScoreOutput> {
    ScoreOutput output;
    for (std::size_t i = 0; i < call.texts.size(); ++i) {
      const std::string& text = call.texts[i];
      if (text.find("bad") != std::string::npos)
        return bad_request("texts[" + std::to_string(i) + "] is bad", "texts[" + std::to_string(i) + "]");
      const auto found = std::ranges::count(text, call.embeds ? 'a' : call.query.front());
      output.values.push_back(call.embeds ? Json{found, text.size()} : Json(found));
    }
    output.meta = {{"model", call.options.model}};
    return output;
  });
  return backend;
}

TEST(Scores, SetVariablesAndSayNothing) {
  State s = sgl::run(
      [](State& s) {
        s += "before ";
        s += score("scores", "x", {"xx", "y", "axxx"}) + score("one", "x", "axa");
        s += rerank("best", "x", {"xx", "y", "axxx"}, {.model = "judge", .top_n = 2});
        s += embed("vector", "banana") + embed("vectors", {"a", "bb"});
        s += "after " + gen("g");
      },
      {.backend = scoring()});
  EXPECT_EQ(s.text(), "before after 13");
  EXPECT_THAT(s["scores"].as<std::vector<double>>(), ElementsAre(2, 0, 3));
  EXPECT_EQ(s["one"].as<double>(), 1);
  EXPECT_THAT(s["best"].as<std::vector<std::string>>(), ElementsAre("axxx", "xx"));
  EXPECT_EQ(s.meta("best"), (Json{{"model", "judge"}, {"scores", {3, 2}}, {"indices", {2, 0}}}));
  EXPECT_THAT(s["vector"].as<std::vector<int>>(), ElementsAre(3, 6));
  EXPECT_EQ(s["vectors"].json(), (Json{{1, 1}, {0, 2}}));
}

TEST(Scores, TheBestOneIsAppendedWithoutWaiting) {
  const auto backend = scoring();
  backend->hold();
  State s = sgl::run([](State& s) { s += rerank("best", "x", {"one", "xx"}) + "Fact: " + s["best"] + gen("g"); },
                     {.backend = backend});
  backend->release();
  EXPECT_EQ(s.text(), "Fact: xx8");
}

TEST(Scores, WaitForVariablesOfOtherStatesAndTakeListsEntryByEntry) {
  State s = sgl::run(
      [](State& s) {
        s += "say ";
        auto forks = s.fork(3);
        forks += [](int i) { return std::string(static_cast<std::size_t>(i), 'x') + gen("draft"); };
        s += score("first", "4", {"4" + Expr(forks[0]["draft"]), "44"});
        forks.join();
        s += rerank("best", "6", s["draft"]);
      },
      {.backend = scoring()});
  EXPECT_THAT(s["draft"].as<std::vector<int>>(), ElementsAre(4, 5, 6));
  EXPECT_THAT(s["first"].as<std::vector<double>>(), ElementsAre(2, 2));
  EXPECT_EQ(s["best"].text(), "6");
  EXPECT_EQ(s.meta("best")["indices"], (Json{2, 0, 1}));
}

TEST(Scores, AnotherBackEndIsAskedWhereTheCallNamesOne) {
  const auto silent =
      ScriptedBackend::make([](const std::string&, const GenCall&) { return Result<std::string>("g"); });
  State s =
      sgl::run([](State& s) { s += gen("g") + score("n", "x", "xxx", {.backend = scoring()}); }, {.backend = silent});
  EXPECT_EQ(s["n"].as<int>(), 3);
  State none = sgl::run([](State& s) { s += score("n", "x", "xxx") + "more"; }, {.backend = silent});
  const Error why = error_of([&] { (void)none["n"].text(); });
  EXPECT_EQ(why.kind, Error::Kind::unsupported);
  EXPECT_THAT(why.message, HasSubstr("scripted gives no scores"));
}

TEST(Scores, ARefusedTextIsTheErrorOfWhoReads) {
  State s = sgl::run([](State& s) { s += embed("v", {"fine", "bad"}) + gen("g"); }, {.backend = scoring()});
  EXPECT_EQ(error_of([&] { (void)s["v"].text(); }).field, "texts[1]");
  EXPECT_EQ(error_of([&] { (void)s["g"].text(); }).field, "texts[1]");
}

TEST(Scores, WhatCannotBeScoredIsRefusedAtOnce) {
  EXPECT_EQ(error_of([] { score("n", "x", std::vector<std::string>()); }).field, "documents");
  EXPECT_THAT(error_of([] { score("n", "x", "a" + gen("g")); }).message, HasSubstr("generate first"));
  EXPECT_EQ(error_of([] { score("n", gen("g"), "a"); }).field, "query");
  EXPECT_EQ(error_of([] { rerank("n", "x", "a", {.top_n = 0}); }).field, "top_n");
}

// A program with all kinds of scores, over arguments and branches.
Function whole_program() {
  return Function("whole", {"question", "documents"}, [](State& s, const Arguments& args) {
    s += "Q: " + args["question"];
    s += rerank("facts", args["question"], args["documents"], {.top_n = 2});
    s += " F: " + s["facts"];
    auto forks = s.fork(2);
    forks += [](int i) { return " " + std::to_string(i) + gen("answer", {.max_tokens = 4}); };
    forks.join();
    s += score("fit", args["question"], s["answer"], {.raw_scores = true}) + embed("vector", "a" + args["question"]);
    s += gen("end");
  });
}

TEST(Scores, AGraphSaysWhatItsFunctionSaysWrittenDownAndCompiled) {
  const auto backend = scoring();
  const Arguments arguments{{"question", "x?"}, {"documents", {"ax", "xxx", "", "xx"}}};
  const State plain = whole_program().run(arguments, {.backend = backend});
  EXPECT_THAT(plain["facts"].as<std::vector<std::string>>(), ElementsAre("xxx", "xx"));

  const Graph traced = trace(whole_program());
  EXPECT_EQ(traced.ends_because, "");
  const auto read = Graph::from_json(traced.to_json());
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->to_json(), traced.to_json());
  EXPECT_THAT(as_text(*read), HasSubstr("rerank facts of 1"));
  EXPECT_THAT(as_svg(*read), HasSubstr("embed vector of 1"));
  const auto compiled = compile(*read, {.backend = backend});
  ASSERT_TRUE(compiled.ok()) << compiled.error().message;
  const State again = compiled->run(arguments);
  EXPECT_EQ(again.text(), plain.text());
  for (const char* name : {"facts", "fit", "vector", "end"})
    EXPECT_EQ(again[name].as<Json>(), plain[name].as<Json>()) << name;

  const Arguments none{{"question", "x?"}, {"documents", Json::array()}};
  const Error said = error_of([&] { (void)whole_program().run(none, {.backend = backend}); });
  EXPECT_THAT(said.message, HasSubstr("documents is empty"));
  EXPECT_EQ(error_of([&] { (void)compiled->run(none)["facts"].text(); }).message, said.message);
}

TEST(Scores, WhatNobodyReadsIsNotAskedFor) {
  const Function f("f", {}, [](State& s, const Arguments&) {
    s += "said " + score("unread", "x", {"xx", "y"}) + embed("read", "a") + gen("end");
  });
  const auto program = compile(f, {.backend = scoring(), .outputs = std::vector<std::string>{"read"}});
  ASSERT_TRUE(program.ok());
  EXPECT_EQ(program->graph().nodes.size(), 3u) << as_text(program->graph());
  EXPECT_EQ(program->run()["read"].json(), (Json{1, 1}));
}

TEST(Scores, GraphsFromOutsideAreChecked) {
  const auto refused = [](const Json& nodes) {
    const auto graph = Graph::from_json({{"version", 1}, {"streams", 1}, {"nodes", nodes}});
    return graph.ok() ? std::string() : graph.error().field + ": " + graph.error().message;
  };
  const Json begin = {{"stream", 0}, {"kind", "scored_text"}}, text = {{"stream", 0}, {"kind", "text"}, {"text", "t"}};
  const Json gen = {{"stream", 0}, {"kind", "gen"}, {"name", "g"}, {"options", Json::object()}};
  Json end = {{"stream", 0}, {"kind", "score"}, {"of", "embed"}, {"name", "v"}, {"texts", 1}};
  EXPECT_EQ(refused({begin, text, end}), "");
  EXPECT_THAT(refused({begin, gen, end}), HasSubstr("holds no gen"));
  const Json each = {{"stream", 0}, {"kind", "scored_text"}, {"each", true}};
  const Json set = {{"stream", 0}, {"kind", "set"}, {"name", "l"}, {"value", Json::array({"a"})}};
  const Json list = {{"stream", 0}, {"kind", "variable"}, {"name", "l"}, {"of", 0}};
  EXPECT_EQ(refused({set, each, list, end}), "");
  for (const Json& inside : {Json{each, end}, Json{each, text, end}, Json{set, each, list, list, end}})
    EXPECT_THAT(refused(inside), HasSubstr("one argument or one variable"));
  EXPECT_THAT(refused({begin, text}), HasSubstr("ends inside"));
  EXPECT_THAT(refused({text, end}), HasSubstr("it is of 1 texts, 0 stand before it"));
  end["of"] = "score";
  EXPECT_THAT(refused({begin, text, end}), HasSubstr("2 is the least"));
  end["of"] = "joke";
  EXPECT_THAT(refused({begin, text, end}), HasSubstr("nodes[2].of"));
  end["of"] = "embed";
  end["options"] = {{"backend", "native"}};
  EXPECT_THAT(refused({begin, text, end}), HasSubstr("has no form in JSON"));
}

TEST(ScoreWire, AnswersOfAllServersAreRead) {
  const ScoreCall call{false, "q", {"a", "b"}, {}};
  const auto scores = [&](const char* body) { return lang::read_score("s", call, body); };
  EXPECT_EQ(scores(R"({"results":[{"index":1,"relevance_score":2},{"index":0,"relevance_score":1}]})")->values,
            (std::vector<Json>{1, 2}));
  EXPECT_EQ(scores(R"([{"index":0,"score":3},{"index":1,"score":4}])")->values, (std::vector<Json>{3, 4}));
  EXPECT_FALSE(scores(R"({"results":[{"index":1,"relevance_score":2}]})").ok());
  EXPECT_FALSE(scores(R"({"results":[{"index":7,"relevance_score":2}]})").ok());
  EXPECT_FALSE(scores(R"({"results":"none"})").ok());
  const ScoreCall embeds{true, {}, {"a"}, {}};
  EXPECT_EQ(lang::read_score("s", embeds, R"({"data":[{"index":0,"embedding":[1,2]}]})")->values.front(), (Json{1, 2}));
  const auto refused = lang::read_score(
      "s", embeds,
      R"({"data":[{"index":0,"embedding":null,"error":{"message":"input[0] is blank","param":"input[0]"}}]})");
  EXPECT_EQ(refused.error().field, "input[0]");
}

}  // namespace
}  // namespace espalier::scores_test
