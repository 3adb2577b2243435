// Branches that begin with the same text and generate the same way are samples of one prompt: one call asks for all.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>

#include "lang/compiler/branch_comparison.h"
#include "lang/compiler/passes.h"

namespace espalier::lang {
namespace {

// One sample, of a seed of its own: with a seed all would be the same, and probabilities are told of one.
bool can_share(const node::Gen& gen, const GenOptions& defaults) {
  const GenOptions& own = gen.options;
  const bool one = own.n.value_or(defaults.n.value_or(1)) == 1;
  const bool seeded = own.seed || defaults.seed;
  const bool told = own.return_logprob.value_or(defaults.return_logprob.value_or(false));
  return one && !seeded && !told;
}

// Whether another generation will come with the same call: as a sample of its own the first would break that row.
bool begins_a_row(const Graph& graph, std::span<const std::size_t> behind, const ServedRows& rows) {
  for (const std::size_t i : behind) {
    const Graph::Content& content = graph.nodes[i].content;
    if (std::holds_alternative<node::Gen>(content)) return rows.speculated || rows.chained;
    const bool argument = std::holds_alternative<node::Argument>(content);
    const bool mark =
        std::holds_alternative<node::RoleBegin>(content) || std::holds_alternative<node::RoleEnd>(content) ||
        std::holds_alternative<node::ScopeBegin>(content) || std::holds_alternative<node::ScopeEnd>(content);
    if (!(is_literal(content) || (mark && rows.chained) || (argument && rows.speculated))) return false;
  }
  return false;
}

}  // namespace

void share_samples(Graph& graph, const GenOptions& defaults, const ServedRows& rows, PassReport& report) {
  const auto streams = nodes_by_stream(graph);
  int groups = 0;  // those that are there already keep their numbers
  for (const Graph::Node& one : graph.nodes)
    if (const auto* sample = std::get_if<Graph::Sample>(&one.content)) groups = std::max(groups, sample->group + 1);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto* fork = std::get_if<Graph::Fork>(&graph.nodes[i].content);
    if (fork == nullptr) continue;
    std::map<std::string, std::vector<std::size_t>> alike;
    for (const int child : fork->children) {
      const auto& nodes = streams[static_cast<std::size_t>(child)];
      const auto beginning = beginning_of(graph, nodes);
      if (!beginning || !can_share(*gen_of(graph.nodes[beginning->generation].content), defaults)) continue;
      const auto at = std::ranges::find(nodes, beginning->generation);
      if (!begins_a_row(graph, {at + 1, nodes.end()}, rows)) alike[beginning->form].push_back(beginning->generation);
    }
    for (const auto& [form, generations] : alike) {
      const int of = static_cast<int>(generations.size());
      if (of < 2 || of > SamplingLimits::n) continue;
      for (int index = 0; index < of; ++index) {
        Graph::Content& content = graph.nodes[generations[static_cast<std::size_t>(index)]].content;
        content = Graph::Sample{groups, index, of, std::get<node::Gen>(content)};
      }
      ++groups;
      report.calls += of - 1;
      report.changes.push_back(fmt::format("{} branches of node {} share one call for {} samples", of, i, of));
    }
  }
}

}  // namespace espalier::lang
