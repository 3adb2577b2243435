// Programs as graphs: what is recorded, how it is written down and read again, and that carrying it out says the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <mutex>
#include <regex>
#include <set>

#include "lang/backends/scripted_backend.h"
#include "lang/graph/prefix.h"
#include "lang/graph/replay.h"

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

TEST(Graph, OptionsMayHaveTheNamesThatGenerateHasForThem) {
  const auto graph = Graph::from_json(Json::parse(R"({"version": 1, "streams": 1, "nodes": [{"stream": 0, "kind": "gen",
    "name": "a", "options": {"max_new_tokens": 3, "min_new_tokens": 2, "sampling_seed": 5}}]})"));
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  const Json again = graph->to_json();
  EXPECT_EQ(again["nodes"][0]["options"], Json::parse(R"({"max_tokens": 3, "min_tokens": 2, "seed": 5})"));
}

TEST(Graph, SaysWhatTheFunctionSays) {
  State own = judge().run(some_arguments(), {.backend = counting()});
  const Function replayed = function_of(Graph::from_json(trace(judge()).to_json()).value()).value();
  State s = replayed.run(some_arguments(), {.backend = counting()});
  EXPECT_EQ(s.text(), own.text());
  for (const char* name : {"kind", "all", "end"}) EXPECT_EQ(s[name].text(), own[name].text()) << name;
  EXPECT_EQ(s["view"].list()[1].text(), own["view"].list()[1].text());
}

Function describes(const RunOptions& options) {
  return Function("describes", {"topic"}, [options](State& s, const Arguments& args) {
    const Function part("part", {"what"}, [](State& own, const Arguments& given) {
      own += "A " + given["what"] + ":" + gen("said");
      auto forks = own.fork(2);
      forks += gen("more", {.max_tokens = 5});
      forks.join();
    });
    s += "About " + args["topic"] + ". ";
    State leaf = part.run({{"what", "leaf"}}, options);
    State root = part.run({{"what", "root"}}, options);
    s += leaf["said"] + leaf["more"] + " and " + root["said"] + root["more"] + gen("end");
  });
}

TEST(Graph, AProgramThatIsRunWhileAnotherIsTracedIsRecordedBesideIt) {
  std::mutex mutex;
  std::multiset<std::string> asked;
  const auto backend = espalier::testing::ScriptedBackend::make(
      [&](const std::string& text, const GenCall& call) -> Result<std::string> {
        const std::lock_guard lock(mutex);
        asked.insert(fmt::format("{} {} {}", text, *call.sampling.max_new_tokens, call.sampling.stop.size()));
        return "[" + std::to_string(text.size()) + "]";
      });
  set_default_backend(backend);
  const RunOptions inner{.defaults = {.max_tokens = 3}}, outer{.defaults = {.max_tokens = 9, .stop = "!"}};
  const Graph graph = trace(describes(inner));
  EXPECT_TRUE(graph.ends_because.empty()) << graph.ends_because;
  EXPECT_TRUE(asked.empty());
  EXPECT_EQ(graph.streams, 7);
  const auto own = describes(inner).run({{"topic", "trees"}}, outer).text();
  const auto calls = std::exchange(asked, {});
  const auto again = function_of(Graph::from_json(graph.to_json()).value());
  ASSERT_TRUE(again.ok()) << again.error().message;
  State s = again->run({{"topic", "trees"}}, outer);
  EXPECT_EQ(s.text(), own);
  EXPECT_EQ(asked, calls);
  EXPECT_EQ(constant_prefix(graph, backend->chat_format()), "About ");
  set_default_backend(nullptr);
}

TEST(Graph, ARunThatAGraphCannotSayEndsTheTrace) {
  const auto why = [](const RunOptions& options) { return trace(describes(options)).ends_because; };
  EXPECT_THAT(why({.backend = counting()}), HasSubstr("back end of its own"));
  EXPECT_THAT(why({.stream = true}), HasSubstr("streamed"));
  const Function batch("batch", {}, [](State& s, const Arguments&) {
    (void)judge().run_batch(std::vector<Arguments>{some_arguments()});
    s += "end";
  });
  EXPECT_THAT(trace(batch).ends_because, HasSubstr("a batch"));
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

// Empty where every tag is closed by its own and no text has a bare sign; else the place of the first that is not.
std::string flaw_in_xml(const std::string& xml) {
  std::vector<std::string> open;
  for (std::size_t at = 0; at < xml.size(); ++at) {
    const auto rest = [&] { return xml.substr(at, 40); };
    const auto c = static_cast<unsigned char>(xml[at]);
    if (c < 0x20 && c != '\n') return rest();
    if (c == '&' && !std::regex_search(xml.substr(at, 7), std::regex("^&(amp|lt|gt|quot);"))) return rest();
    if (c == '>') return rest();
    if (c != '<') continue;
    std::smatch tag;
    const std::string head = xml.substr(at, xml.find('>', at) + 1 - at);
    if (!std::regex_match(head, tag, std::regex(R"(<(/?)(\w+)((?: [\w:-]+="[^"<>]*")*)(/?)>)"))) return rest();
    if (tag[1] == "/" && (open.empty() || open.back() != tag[2])) return rest();
    if (tag[1] == "/") open.pop_back();
    if (tag[1] != "/" && tag[4] != "/") open.push_back(tag[2]);
    at += head.size() - 1;
  }
  return open.empty() ? "" : "the end";
}

struct Box {
  double x, y, width, height;
};

std::vector<Box> boxes_of(const std::string& svg) {
  const std::regex box(R"re(<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)" class="node )re");
  std::vector<Box> boxes;
  for (std::sregex_iterator i(svg.begin(), svg.end(), box), end; i != end; ++i)
    boxes.push_back({std::stod((*i)[1]), std::stod((*i)[2]), std::stod((*i)[3]), std::stod((*i)[4])});
  return boxes;
}

TEST(Graph, HoldsThePicturesOfAProgram) {
  const std::string gif = "GIF89a....";
  const Graph graph = trace(Function("look", {}, [&](State& s, const Arguments&) {
    s += sgl::user(sgl::image_bytes(gif) + "what?");
    s += sgl::assistant(gen("seen"));
  }));
  const Json json = graph.to_json();
  const auto again = Graph::from_json(json);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->to_json(), json);
  int pictures = 0;
  for (const auto& node : again->nodes) {
    const auto* media = std::get_if<node::Media>(&node.content);
    if (media == nullptr) continue;
    ++pictures;
    EXPECT_EQ(media->picture->bytes, gif);
    EXPECT_EQ(media->picture->media_type, "image/gif");
  }
  EXPECT_EQ(pictures, 1);
}

TEST(Graph, IsAPictureWithABoxForEachNode) {
  for (const Graph& graph : {trace(judge()), trace(judge(), some_arguments()), Graph{}}) {
    const std::string svg = as_svg(graph);
    EXPECT_EQ(flaw_in_xml(svg), "");
    EXPECT_EQ(boxes_of(svg).size(), graph.nodes.size());
  }
  EXPECT_THAT(as_svg(trace(judge())), HasSubstr("class=\"s4 thin dashed\""));
}

TEST(Graph, BoxesOfALargePictureStandApartAndStreamsThatAreOverMakeRoom) {
  const Function f("large", {}, [](State& s, const Arguments&) {
    for (int round = 0; round < 8; ++round) {
      auto forks = s.fork(3);
      for (State& child : forks) {
        auto inner = child.fork(2);
        inner += "in" + gen("i");
        child += inner[0]["i"] + "and" + inner[1]["i"];
        inner.join();
      }
      forks += "out" + gen("o");
      s += forks[2]["o"] + "next";
      forks.join(JoinMode::concate_and_append);
    }
  });
  const Graph graph = trace(f);
  ASSERT_GT(graph.nodes.size(), 200u);
  const std::string svg = as_svg(graph);
  EXPECT_EQ(flaw_in_xml(svg), "");
  const auto boxes = boxes_of(svg);
  ASSERT_EQ(boxes.size(), graph.nodes.size());
  double right = 0;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    right = std::max(right, boxes[i].x + boxes[i].width);
    for (std::size_t k = 0; k < i; ++k)
      ASSERT_TRUE(std::abs(boxes[i].x - boxes[k].x) >= boxes[i].width ||
                  std::abs(boxes[i].y - boxes[k].y) >= boxes[i].height)
          << i << " and " << k;
  }
  EXPECT_LE(right, 10 * 300) << "a round needs ten columns, and all rounds the same ten";
}

TEST(Graph, APictureHoldsAnyText) {
  const Function f("<&\">", {}, [](State& s, const Arguments&) {
    s += std::string("<a href=\"x\">&amp;\x01\xff\n") + "日本語日本語日本語日本語日本語";
    s += gen("日本語日本語日本語日本語日本語日本語日本語\xff\xc3", {.stop = "</text>"});
  });
  const std::string svg = as_svg(trace(f));
  EXPECT_EQ(flaw_in_xml(svg), "");
  EXPECT_NO_THROW((void)Json(svg).dump()) << "it is no UTF-8";
}

TEST(Graph, ASchemaComesAsTextOrAsItself) {
  const auto with = [](const Json& schema) {
    const Json node{{"stream", 0}, {"kind", "gen"}, {"name", "a"}, {"options", {{"json_schema", schema}}}};
    return Graph::from_json({{"version", 1}, {"streams", 1}, {"nodes", Json::array({node})}});
  };
  for (const Json& schema : {Json(R"({"minimum":2})"), Json{{"minimum", 2}}}) {
    const auto graph = with(schema);
    ASSERT_TRUE(graph.ok()) << graph.error().message;
    EXPECT_EQ(graph->to_json()["nodes"][0]["options"]["json_schema"], R"({"minimum":2})");
  }
  EXPECT_EQ(with(true)->to_json()["nodes"][0]["options"]["json_schema"], "true");
  EXPECT_FALSE(with(3).ok());
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

// ---- What streams read of each other --------------------------------------------------------------------------------

Graph::Node text_node(int stream) {
  return {stream, node::Text{"x"}};
}
Graph::Node gen_node(int stream, const char* name) {
  return {stream, node::Gen{name, {}}};
}
Graph::Node reads(int stream, const char* name, int of) {
  return {stream, Graph::Variable{name, of}};
}
Graph::Node begins(int stream, const char* name) {
  return {stream, node::ScopeBegin{name}};
}
Graph::Node ends(int stream, const char* name) {
  return {stream, node::ScopeEnd{name}};
}

Graph graph_of(int streams, std::vector<Graph::Node> nodes) {
  Graph graph;
  graph.streams = streams;
  graph.nodes = std::move(nodes);
  return graph;
}

Error refusal(int streams, std::vector<Graph::Node> nodes) {
  const auto checked = graph_of(streams, std::move(nodes)).check();
  return checked.ok() ? internal_error("accepted") : checked.error();
}

TEST(Graph, StreamsThatWouldWaitForEachOtherForEverAreRefusedByTheirNodes) {
  const Graph::Node fork{0, Graph::Fork{{1, 2}}};
  const Error ring = refusal(
      3, {fork, begins(1, "x"), begins(2, "y"), reads(1, "y", 2), ends(1, "x"), reads(2, "x", 1), ends(2, "y")});
  EXPECT_EQ(ring.field, "nodes[3]");
  EXPECT_THAT(ring.message, HasSubstr("wait for each other"));
  EXPECT_THAT(ring.message, HasSubstr("nodes[3] reads \"y\" of stream 2"));
  EXPECT_THAT(ring.message, HasSubstr("nodes[5] reads \"x\" of stream 1"));
  // A parent that joins, inside the scope, a child that waits for the scope.
  EXPECT_THAT(refusal(2, {begins(0, "all"),
                          {0, Graph::Fork{{1}}},
                          text_node(0),
                          reads(1, "all", 0),
                          {0, Graph::Join{{1}, JoinMode::concate_and_append}},
                          ends(0, "all")})
                  .message,
              HasSubstr("wait for each other"));
}

TEST(Graph, AReadThatNothingBeforeAnswersIsRefused) {
  const Graph::Node fork{0, Graph::Fork{{1, 2}}};
  EXPECT_EQ(refusal(3, {fork, gen_node(1, "g"), reads(1, "y", 2), gen_node(2, "y")}).field, "nodes[2]");
  EXPECT_THAT(refusal(3, {fork, begins(1, "x"), reads(2, "x", 1)}).message, HasSubstr("a scope that never ends"));
}

TEST(Graph, ReadsOfWhatIsThereOrComesAreAccepted) {
  const Graph::Node fork{0, Graph::Fork{{1, 2}}};
  const Graph::Node join{0, Graph::Join{{1, 2}}};
  EXPECT_EQ(refusal(3, {gen_node(0, "before"), fork, reads(2, "before", 1), gen_node(1, "a"), reads(2, "a", 1),
                        gen_node(2, "b"), join, reads(0, "b", 2)})
                .message,
            "accepted");
  // Of a scope that is open, by one that the scope does not wait for.
  EXPECT_EQ(refusal(3, {fork, begins(1, "x"), reads(2, "x", 1), text_node(1), ends(1, "x"), join}).message, "accepted");
  // Of what a join has brought.
  EXPECT_EQ(
      refusal(4, {fork, gen_node(1, "a"), gen_node(2, "a"), join, {0, Graph::Fork{{3}}}, reads(3, "a", 0)}).message,
      "accepted");
}

TEST(Graph, ATalkOfTwoStreamsSaysWhatItsFunctionSays) {
  const Function talk("talk", {}, [](State& s, const Arguments&) {
    auto two = s.fork(2);
    two[0] += "Hello" + gen("said");
    for (int turn = 0; turn < 3; ++turn) {
      two[1] += two[0]["said"] + gen("said");
      two[0] += two[1]["said"] + gen("said");
    }
    two.join(JoinMode::concate_and_append);
  });
  const std::string own = talk.run({}, {.backend = counting()}).text();
  EXPECT_EQ(function_of(trace(talk)).value().run({}, {.backend = counting()}).text(), own);
}

}  // namespace
}  // namespace espalier::lang
