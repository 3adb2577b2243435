#include "lang/compiler/streams.h"

namespace espalier::lang {

std::vector<std::vector<std::size_t>> nodes_by_stream(const Graph& graph) {
  std::vector<std::vector<std::size_t>> all(static_cast<std::size_t>(graph.streams));
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    all[static_cast<std::size_t>(graph.nodes[i].stream)].push_back(i);
  return all;
}

std::vector<int> parents(const Graph& graph) {
  std::vector<int> all(static_cast<std::size_t>(graph.streams), -1);
  for (const Graph::Node& one : graph.nodes)
    if (const auto* fork = std::get_if<Graph::Fork>(&one.content))
      for (const int child : fork->children) all[static_cast<std::size_t>(child)] = one.stream;
  return all;
}

void remove_nodes(Graph& graph, const std::vector<bool>& gone) {
  std::size_t i = 0;
  std::erase_if(graph.nodes, [&](const Graph::Node&) { return gone[i++]; });
}

const node::Gen* gen_of(const Graph::Content& content) {
  if (const auto* gen = std::get_if<node::Gen>(&content)) return gen;
  const auto* sample = std::get_if<Graph::Sample>(&content);
  return sample != nullptr ? &sample->gen : nullptr;
}

std::string name_set_by(const Graph::Content& content) {
  if (const node::Gen* gen = gen_of(content)) return gen->name;
  if (const auto* select = std::get_if<node::Select>(&content)) return select->name;
  if (const auto* score = std::get_if<node::Score>(&content)) return score->name;
  if (const auto* scope = std::get_if<node::ScopeEnd>(&content)) return scope->name;
  if (const auto* set = std::get_if<Graph::Set>(&content)) return set->name;
  return {};
}

std::set<std::string> names_of_program(const Graph& graph) {
  std::vector<std::set<std::string>> by_stream(static_cast<std::size_t>(graph.streams));
  for (const Graph::Node& one : graph.nodes) {
    auto& names = by_stream[static_cast<std::size_t>(one.stream)];
    if (const std::string name = name_set_by(one.content); !name.empty()) names.insert(name);
    if (const auto* end = std::get_if<Graph::ReasoningEnd>(&one.content))
      for (const std::string& name : end->names) names.insert({name, name + "_reasoning_content"});
    const auto* join = std::get_if<Graph::Join>(&one.content);
    if (join == nullptr || join->mode != JoinMode::gather_variable) continue;
    for (const int child : std::set<int>(join->children.begin(), join->children.end()))
      names.merge(by_stream[static_cast<std::size_t>(child)]);
  }
  return by_stream.front();
}

bool is_call(const Graph::Content& content) {
  return gen_of(content) != nullptr || std::holds_alternative<node::Select>(content) ||
         std::holds_alternative<node::Score>(content);
}

bool is_literal(const Graph::Content& content) {
  return std::holds_alternative<node::Text>(content) || std::holds_alternative<node::MovableBegin>(content) ||
         std::holds_alternative<node::MovableEnd>(content);
}

}  // namespace espalier::lang
