// A graph for people: as lines of text, and in the language of Graphviz.
#include <fmt/format.h>

#include <map>

#include "base/json.h"
#include "espalier/graph.h"

namespace espalier {
namespace {

constexpr std::size_t kMostCharacters = 48;  // of a text that is shown

struct Label {
  std::string operator()(const node::Text& text) const { return in_quotes(text.text, kMostCharacters); }
  std::string operator()(const node::Argument& argument) const { return fmt::format("argument {}", argument.name); }
  std::string operator()(const node::Gen& gen) const { return fmt::format("gen {}", gen.name); }
  std::string operator()(const node::Select& select) const {
    return fmt::format("select {} of {}", select.name, select.choices.size());
  }
  std::string operator()(const node::RoleBegin& role) const { return role.role + " begins"; }
  std::string operator()(const node::RoleEnd& role) const { return role.role + " ends"; }
  std::string operator()(const node::Media& media) const { return media.picture->media_type; }
  std::string operator()(const Graph::Variable& variable) const {
    return fmt::format("variable {} of stream {}", variable.name, variable.stream);
  }
  std::string operator()(const node::ScopeBegin& scope) const { return fmt::format("scope {} begins", scope.name); }
  std::string operator()(const node::ScopeEnd& scope) const { return fmt::format("scope {} ends", scope.name); }
  std::string operator()(const node::MovableBegin&) const { return "movable piece begins"; }
  std::string operator()(const node::MovableEnd&) const { return "movable piece ends"; }
  std::string operator()(const Graph::Set& set) const { return fmt::format("{} is set", set.name); }
  std::string operator()(const Graph::Prefix&) const { return "prefix is computed"; }
  std::string operator()(const Graph::Sample& sample) const {
    return fmt::format("gen {}: sample {} of {}", sample.gen.name, sample.index + 1, sample.of);
  }
  std::string operator()(const Graph::Chain& chain) const { return fmt::format("{} nodes as one call", chain.nodes); }
  std::string operator()(const Graph::ReasoningEnd& end) const {
    return fmt::format("reasoning of {}", end.model_type);
  }
  std::string operator()(const Graph::Fork& fork) const { return fmt::format("fork of {}", fork.children.size()); }
  std::string operator()(const Graph::Join& join) const { return fmt::format("join of {}", join.children.size()); }
};

std::string label_of(const Graph::Node& one) {
  return std::visit(Label(), one.content);
}

// The numbers of each stream's nodes.
std::map<int, std::vector<std::size_t>> by_stream(const Graph& graph) {
  std::map<int, std::vector<std::size_t>> all;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) all[graph.nodes[i].stream].push_back(i);
  return all;
}

std::string dot_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

}  // namespace

std::string as_text(const Graph& graph) {
  auto streams = by_stream(graph);
  std::string out;
  struct Place {
    int stream;
    std::size_t next;
    int depth;
  };
  std::vector<Place> open{{0, 0, 0}};
  while (!open.empty()) {
    Place& place = open.back();
    const auto& nodes = streams[place.stream];
    if (place.next == nodes.size()) {
      open.pop_back();
      continue;
    }
    const std::size_t i = nodes[place.next++];
    const int depth = place.depth;
    out += fmt::format("{:{}}%{} = {}\n", "", 2 * depth, i, label_of(graph.nodes[i]));
    const auto* fork = std::get_if<Graph::Fork>(&graph.nodes[i].content);
    if (fork == nullptr) continue;
    for (auto child = fork->children.rbegin(); child != fork->children.rend(); ++child)
      open.push_back({*child, 0, depth + 1});
  }
  if (!graph.ends_because.empty()) out += "ends here: " + graph.ends_because + "\n";
  return out;
}

std::string as_dot(const Graph& graph) {
  std::string out =
      fmt::format("digraph \"{}\" {{\n  node [shape=box, fontname=\"sans-serif\"];\n", dot_text(graph.name));
  const auto streams = by_stream(graph);
  std::map<std::pair<int, std::string>, std::size_t> sets;  // which node sets a stream's variable
  const auto first_of = [&](int stream) { return streams.contains(stream) ? streams.at(stream).front() : SIZE_MAX; };
  const auto edge = [&](std::size_t from, std::size_t to, const char* how) {
    if (from != SIZE_MAX && to != SIZE_MAX) out += fmt::format("  n{} -> n{}{};\n", from, to, how);
  };
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Graph::Node& one = graph.nodes[i];
    const auto* sample = std::get_if<Graph::Sample>(&one.content);
    const bool calls = sample != nullptr || std::holds_alternative<node::Gen>(one.content) ||
                       std::holds_alternative<node::Select>(one.content);
    out += fmt::format("  n{} [label=\"{}\"{}];\n", i, dot_text(label_of(one)),
                       calls ? ", style=filled, fillcolor=\"#cfe8cf\"" : "");
    if (const auto* gen = std::get_if<node::Gen>(&one.content)) sets[{one.stream, gen->name}] = i;
    if (sample != nullptr) sets[{one.stream, sample->gen.name}] = i;
    if (const auto* select = std::get_if<node::Select>(&one.content)) sets[{one.stream, select->name}] = i;
    if (const auto* variable = std::get_if<Graph::Variable>(&one.content))
      if (const auto from = sets.find({variable->stream, variable->name}); from != sets.end())
        edge(from->second, i, " [style=dashed]");
    if (const auto* fork = std::get_if<Graph::Fork>(&one.content))
      for (const int child : fork->children) edge(i, first_of(child), "");
    if (const auto* join = std::get_if<Graph::Join>(&one.content))
      for (const int child : join->children)
        edge(streams.contains(child) ? streams.at(child).back() : SIZE_MAX, i, " [style=dashed]");
  }
  for (const auto& [stream, nodes] : streams)
    for (std::size_t k = 1; k < nodes.size(); ++k) edge(nodes[k - 1], nodes[k], "");
  return out + "}\n";
}

}  // namespace espalier
