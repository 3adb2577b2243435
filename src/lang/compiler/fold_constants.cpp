// Literals that follow each other in a stream become one, empty ones go, and a branch that only says something literal
// before it is appended to its parent is that text there.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "lang/compiler/passes.h"
#include "lang/compiler/streams.h"

namespace espalier::lang {
namespace {

// The text of a stream that says nothing else.
std::optional<std::string> literal_of(const Graph& graph, const std::vector<std::size_t>& nodes) {
  std::string all;
  for (const std::size_t i : nodes) {
    const auto* text = std::get_if<node::Text>(&graph.nodes[i].content);
    if (text == nullptr) return std::nullopt;
    all += text->text;
  }
  return all;
}

// Which fork began each stream, by the first of its children; and which streams are read.
struct Uses {
  std::map<int, std::size_t> forks;
  std::set<int> read;
};
Uses uses_of(const Graph& graph) {
  Uses uses;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Graph::Content& content = graph.nodes[i].content;
    if (const auto* fork = std::get_if<Graph::Fork>(&content)) uses.forks.emplace(fork->children.front(), i);
    if (const auto* variable = std::get_if<Graph::Variable>(&content)) uses.read.insert(variable->stream);
  }
  return uses;
}

void fold_literal_branches(Graph& graph, std::vector<bool>& gone, PassReport& report) {
  const auto streams = nodes_by_stream(graph);
  const Uses uses = uses_of(graph);
  for (Graph::Node& one : graph.nodes) {
    const auto* join = std::get_if<Graph::Join>(&one.content);
    if (join == nullptr || join->mode != JoinMode::concate_and_append) continue;
    const std::vector<int> children = join->children;
    const auto fork = uses.forks.find(children.front());
    const bool whole =
        fork != uses.forks.end() && std::get<Graph::Fork>(graph.nodes[fork->second].content).children == children;
    if (!whole || std::ranges::any_of(children, [&](int child) { return uses.read.contains(child); })) continue;
    std::optional<std::string> all = std::string();
    for (const int child : children) {
      const auto text = literal_of(graph, streams[static_cast<std::size_t>(child)]);
      all = all && text ? std::optional(*all + *text) : std::nullopt;
    }
    if (!all) continue;
    report.changes.push_back(
        fmt::format("{} branches of literals alone became text of stream {}", children.size(), one.stream));
    one.content = node::Text{std::move(*all)};
    gone[fork->second] = true;
    for (const int child : children)
      for (const std::size_t i : streams[static_cast<std::size_t>(child)]) gone[i] = true;
  }
}

void join_literals(Graph& graph, std::vector<bool>& gone, PassReport& report) {
  int joined = 0;
  for (const auto& stream : nodes_by_stream(graph)) {
    node::Text* before = nullptr;
    for (const std::size_t i : stream) {
      if (gone[i]) continue;
      auto* text = std::get_if<node::Text>(&graph.nodes[i].content);
      if (text != nullptr && (before != nullptr || text->text.empty())) {
        if (before != nullptr) before->text += text->text;
        gone[i] = true;
        ++joined;
      } else {
        before = text;
      }
    }
  }
  if (joined > 0) report.changes.push_back(fmt::format("{} literals joined the one before them", joined));
}

}  // namespace

void fold_constants(Graph& graph, PassReport& report) {
  std::vector<bool> gone(graph.nodes.size());
  fold_literal_branches(graph, gone, report);
  join_literals(graph, gone, report);
  remove_nodes(graph, gone);
}

}  // namespace espalier::lang
