// A graph for people: as lines of text, and in the language of Graphviz.
#include <fmt/format.h>

#include "lang/compiler/streams.h"
#include "lang/graph/wiring.h"

namespace espalier {
namespace {

constexpr std::size_t kMostCharacters = 48;  // of a text that is shown

std::string label_of(const Graph::Node& one) {
  return lang::label_of(one.content, kMostCharacters);
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
  const auto streams = lang::nodes_by_stream(graph);
  std::string out;
  struct Place {
    int stream;
    std::size_t next;
    int depth;
  };
  std::vector<Place> open{{0, 0, 0}};
  while (!open.empty()) {
    Place& place = open.back();
    const auto& nodes = streams[static_cast<std::size_t>(place.stream)];
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
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Graph::Content& content = graph.nodes[i].content;
    const bool calls = lang::is_call(content);
    out += fmt::format("  n{} [label=\"{}\"{}];\n", i, dot_text(label_of(graph.nodes[i])),
                       calls ? ", style=filled, fillcolor=\"#cfe8cf\"" : "");
  }
  for (const lang::Wire& wire : lang::wires_of(graph)) {
    const bool value = wire.kind == lang::Wire::Kind::variable;
    out += fmt::format("  n{} -> n{}{};\n", wire.from, wire.to, value ? " [style=dashed]" : "");
  }
  return out + "}\n";
}

}  // namespace espalier
