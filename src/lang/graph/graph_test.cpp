// Programs as graphs: what is recorded, how it is written down and read again, and that carrying it out says the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lang/graph/replay.h"
#include "lang/scripted_backend.h"

#pragma GCC diagnostic ignored "-Wshadow"  // a program's state is `s`, inside the function and outside

namespace espalier::lang {
namespace {

namespace sgl = espalier;
using ::testing::HasSubstr;

std::shared_ptr<Backend> counting() {
  return espalier::testing::ScriptedBackend::make([](const std::string& text, const GenCall&) {
    return Result<std::string>("[" + std::to_string(text.size()) + "]");
  });
}

// Every kind of node that a graph in JSON can hold.
Function judge() {
  return Function("judge", {"essay", "question"}, [](State& s, const Arguments& args) {
    s += sgl::system("You judge.");
    s += sgl::user("Essay: " + args["essay"]);
    s += sgl::assistant("It is " + sgl::select("kind", {"good", "bad"}, 0, greedy_token_selection()));
    auto forks = s.fork(2);
    forks += [](int i) { return sgl::user("side " + std::to_string(i)); };
    forks += sgl::assistant(gen("view", {.max_tokens = 7, .stop = {"\n", "."}, .top_k = 3}));
    forks.join();
    {
      const auto scope = s.scope("all");
      s += sgl::user(args["question"] + " " + forks[1]["view"]);
      s += sgl::assistant(gen("end", {.type = ValueType::integer}));
    }
    auto again = s.fork(1);
    again += "more" + gen("", {.regex = "a+"});
    again.join(JoinMode::concate_and_append);
  });
}

Arguments some_arguments() {
  return {{"essay", "short"}, {"question", "why?"}};
}

TEST(Graph, IsReadAsItWasWritten) {
  const Graph graph = trace(judge());
  EXPECT_EQ(graph.streams, 4);
  EXPECT_EQ(graph.parameters, (std::vector<std::string>{"essay", "question"}));
  EXPECT_TRUE(graph.ends_because.empty());
  const Json json = graph.to_json();
  const auto again = Graph::from_json(json);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->to_json(), json);
}

TEST(Graph, SaysWhatTheFunctionSays) {
  State own = judge().run(some_arguments(), {.backend = counting()});
  const Function replayed = function_of(Graph::from_json(trace(judge()).to_json()).value()).value();
  State s = replayed.run(some_arguments(), {.backend = counting()});
  EXPECT_EQ(s.text(), own.text());
  for (const char* name : {"kind", "all", "end"}) EXPECT_EQ(s[name].text(), own[name].text()) << name;
  EXPECT_EQ(s["view"].list()[1].text(), own["view"].list()[1].text());
}

TEST(Graph, KnownArgumentsBecomeConstants) {
  const Graph graph = trace(judge(), {{"essay", "mine"}});
  EXPECT_EQ(graph.parameters, std::vector<std::string>{"question"});
  EXPECT_THAT(as_text(graph), HasSubstr("\"mine\""));
}

TEST(Graph, EndsWhereTheFunctionNeedsAValue) {
  const Function f("f", {"a"}, [](State& s, const Arguments& args) {
    s += "start " + args["a"] + gen("x");
    if (s["x"].text() == "yes") s += "never recorded";
  });
  const Graph graph = trace(f);
  EXPECT_EQ(graph.nodes.size(), 3u);
  EXPECT_THAT(graph.ends_because, HasSubstr("variable x"));
  EXPECT_FALSE(function_of(graph).ok());
  const Function looks("g", {"a"}, [](State& s, const Arguments& args) { s += "size " + args["a"].text(); });
  EXPECT_THAT(trace(looks).ends_because, HasSubstr("argument a"));
}

TEST(Graph, AnErrorOfTheFunctionIsItsOwn) {
  const Function f("f", {}, [](State&, const Arguments&) { throw std::out_of_range("mine"); });
  EXPECT_THROW(trace(f), std::out_of_range);
}

TEST(Graph, ThePrefixIsWhatStandsBeforeThePlaceholders) {
  const auto backend = counting();
  EXPECT_EQ(constant_prefix(trace(judge()), backend->chat_format()), "<s>You judge.</s><u>Essay: ");
  EXPECT_EQ(constant_prefix(trace(judge(), {{"essay", "E"}}), backend->chat_format()),
            "<s>You judge.</s><u>Essay: E</u><a>It is ");
}

TEST(Graph, IsDrawn) {
  const Graph graph = trace(judge());
  const std::string text = as_text(graph), dot = as_dot(graph);
  EXPECT_THAT(text, HasSubstr("%0 = system begins\n"));
  EXPECT_THAT(text, HasSubstr("fork of 2\n  %"));
  EXPECT_THAT(dot, HasSubstr("digraph \"judge\""));
  EXPECT_THAT(dot, HasSubstr("[style=dashed]"));
}

TEST(Graph, WrongOnesAreRefusedWithTheirPlace) {
  const auto refused = [](const char* text) {
    const auto read = Graph::from_json(Json::parse(text));
    return read.ok() ? std::string("accepted") : read.error().message;
  };
  EXPECT_THAT(refused(R"([])"), HasSubstr("object"));
  EXPECT_THAT(refused(R"({"version":2,"streams":1,"nodes":[]})"), HasSubstr("version is 2"));
  EXPECT_THAT(refused(R"({"version":1,"streams":1,"nodes":[{"stream":1,"kind":"text","text":""}]})"),
              HasSubstr("stream"));
  EXPECT_THAT(refused(R"({"version":1,"streams":2,"nodes":[{"stream":1,"kind":"text","text":""}]})"),
              HasSubstr("nodes[0]"));
  EXPECT_THAT(refused(R"({"version":1,"streams":1,"nodes":[{"stream":0,"kind":"jump"}]})"), HasSubstr("jump"));
  EXPECT_THAT(refused(R"({"version":1,"streams":1,"nodes":[{"stream":0,"kind":"argument","name":"x"}]})"),
              HasSubstr("parameters"));
  EXPECT_THAT(refused(R"({"version":1,"streams":1,"nodes":[{"stream":0,"kind":"fork","children":[0]}]})"),
              HasSubstr("begun"));
  EXPECT_THAT(
      refused(R"({"version":1,"streams":1,"nodes":[{"stream":0,"kind":"gen","name":"a","options":{"max_tokns":1}}]})"),
      HasSubstr("max_tokns"));
  EXPECT_THAT(
      refused(R"({"version":1,"streams":1,"nodes":[{"stream":0,"kind":"gen","name":"a","options":{"regex":"("}}]})"),
      HasSubstr("regex"));
}

}  // namespace
}  // namespace espalier::lang
