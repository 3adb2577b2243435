// Generations of a stream with literals between them are one call, where nobody needs the first before the last.
#include <fmt/format.h>

#include <map>
#include <set>

#include "lang/compiler/passes.h"
#include "lang/compiler/streams.h"

namespace espalier::lang {
namespace {

constexpr int kMostParts = 100;  // of one call

bool stands_between(const Graph::Content& content) {
  return std::holds_alternative<node::Text>(content) || std::holds_alternative<node::RoleBegin>(content) ||
         std::holds_alternative<node::RoleEnd>(content) || std::holds_alternative<node::ScopeBegin>(content) ||
         std::holds_alternative<node::ScopeEnd>(content);
}

bool can_stand_in_a_chain(const Graph::Content& content, const GenOptions& defaults) {
  const auto* gen = std::get_if<node::Gen>(&content);
  if (gen == nullptr) return false;
  const GenOptions& own = gen->options;
  return own.n.value_or(defaults.n.value_or(1)) == 1 &&
         !own.return_logprob.value_or(defaults.return_logprob.value_or(false));
}

// Names that other streams read while this one goes on.
std::set<std::string> read_elsewhere(const Graph& graph) {
  std::set<std::string> names;
  for (const Graph::Node& one : graph.nodes)
    if (const auto* variable = std::get_if<Graph::Variable>(&one.content); variable && variable->stream != one.stream)
      names.insert(variable->name);
  return names;
}

struct Span {  // of a stream: places in its list of nodes
  std::size_t begin = 0, end = 0;
  int parts = 0;
};

}  // namespace

void chain_calls(Graph& graph, const GenOptions& defaults, PassReport& report) {
  std::erase_if(graph.nodes, [](const auto& one) { return std::holds_alternative<Graph::Chain>(one.content); });
  const auto needed_early = read_elsewhere(graph);
  std::vector<std::size_t> before;  // numbers of nodes that a chain begins with
  std::vector<int> lengths;
  for (const auto& stream : nodes_by_stream(graph)) {
    Span now;
    const auto close = [&] {
      if (now.parts > 1) {
        before.push_back(stream[now.begin]);
        lengths.push_back(static_cast<int>(now.end - now.begin));
        report.calls += now.parts - 1;
        report.changes.push_back(fmt::format("{} generations from node {} on are one call", now.parts, before.back()));
      }
      now = {};
    };
    for (std::size_t at = 0; at < stream.size(); ++at) {
      const Graph::Content& content = graph.nodes[stream[at]].content;
      if (can_stand_in_a_chain(content, defaults)) {
        if (now.parts == 0) now.begin = at;
        now.end = at + 1;
        if (++now.parts == kMostParts || needed_early.contains(name_set_by(content))) close();
      } else if (!stands_between(content)) {
        close();
      }
    }
    close();
  }
  std::vector<Graph::Node> nodes;
  std::map<std::size_t, int> chains;
  for (std::size_t i = 0; i < before.size(); ++i) chains.emplace(before[i], lengths[i]);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (const auto chain = chains.find(i); chain != chains.end())
      nodes.push_back({graph.nodes[i].stream, Graph::Chain{chain->second}});
    nodes.push_back(std::move(graph.nodes[i]));
  }
  graph.nodes = std::move(nodes);
}

}  // namespace espalier::lang
