#include "espalier/constraint_graph.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace espalier::constraint_graph_test {
namespace {

using Kind = Constraint::Kind;

TEST(ConstraintGraph, ChainsOfBytesAreOneEdgeAndEndsAreMarked) {
  const auto drawn = draw_constraint({Kind::regex, "(yes|no)!?"}, "");
  ASSERT_TRUE(drawn.ok()) << drawn.error().message;
  const AutomatonGraph& graph = drawn->graph;
  std::vector<std::string> labels;
  for (const auto& edge : graph.edges) labels.push_back(edge.label);
  EXPECT_NE(std::ranges::find(labels, "yes"), labels.end());
  EXPECT_NE(std::ranges::find(labels, "no"), labels.end());
  EXPECT_NE(std::ranges::find(labels, "!"), labels.end());
  EXPECT_GT(drawn->followed, graph.nodes.size());
  EXPECT_FALSE(graph.nodes.front().complete);
  EXPECT_TRUE(std::ranges::any_of(graph.nodes, [](const auto& node) { return node.complete; }));
  for (const auto& edge : graph.edges) EXPECT_LT(std::max(edge.from, edge.to), graph.nodes.size());
}

TEST(ConstraintGraph, TheBytesOfACharacterAreOneEdge) {
  const auto drawn = draw_constraint({Kind::regex, "<[^<>]*>"}, "<a\xc3\xa9\xe2\x82\xac>");
  ASSERT_TRUE(drawn.ok()) << drawn.error().message;
  EXPECT_EQ(drawn->graph.nodes.size(), 3u) << "before, within and behind the marks";
  std::size_t beyond = 0;
  for (const auto& edge : drawn->graph.edges) beyond += edge.label == "non-ASCII" && edge.from == edge.to;
  EXPECT_EQ(beyond, 1u);
  EXPECT_EQ(drawn->accepted, 8u);
  EXPECT_TRUE(drawn->complete);
}

TEST(ConstraintGraph, TellsHowFarATextMayGoAndWhetherItMayEndThere) {
  const Constraint regex{Kind::regex, "[a-c]{2,3}"};
  const auto tried = [&](std::string_view text) {
    const auto drawn = draw_constraint(regex, text);
    EXPECT_TRUE(drawn.ok());
    return std::pair(drawn->accepted, drawn->complete);
  };
  EXPECT_EQ(tried(""), std::pair(std::size_t{0}, false));
  EXPECT_EQ(tried("a"), std::pair(std::size_t{1}, false));
  EXPECT_EQ(tried("ab"), std::pair(std::size_t{2}, true));
  EXPECT_EQ(tried("abz"), std::pair(std::size_t{2}, true));
  EXPECT_EQ(tried("abcc"), std::pair(std::size_t{3}, true));
}

TEST(ConstraintGraph, AnEndlessAutomatonIsDrawnInPart) {
  Constraint schema{Kind::json_schema, R"({"type": "array", "items": {"$ref": "#"}})"};
  const auto drawn = draw_constraint(schema, "[[],[[", {.states = 40});
  ASSERT_TRUE(drawn.ok()) << drawn.error().message;
  EXPECT_LE(drawn->graph.nodes.size(), 200u);
  EXPECT_TRUE(std::ranges::any_of(drawn->graph.nodes, [](const auto& node) { return node.open; }));
  EXPECT_EQ(drawn->accepted, 6u);
  EXPECT_FALSE(drawn->complete);
}

TEST(ConstraintGraph, WhatCannotBeReadIsRefusedAsARequestWouldBe) {
  const auto broken = draw_constraint({Kind::regex, "(a"}, "");
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.error().code, "grammar_invalid");
  const auto huge = draw_constraint({Kind::regex, std::string((1 << 20) + 1, 'a')}, "");
  ASSERT_FALSE(huge.ok());
  EXPECT_EQ(huge.error().kind, Error::Kind::too_large);
}

}  // namespace
}  // namespace espalier::constraint_graph_test
