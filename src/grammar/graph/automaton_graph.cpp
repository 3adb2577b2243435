#include "grammar/graph/automaton_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/svg.h"

namespace espalier::grammar {
namespace {

constexpr std::size_t kMostLabel = 30;  // bytes

std::string byte_text(unsigned byte) {
  switch (byte) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case ' ':
      return "␠";
    case '\\':
      return "\\\\";
    default:
      return byte > 0x20 && byte < 0x7f ? std::string(1, static_cast<char>(byte)) : fmt::format("\\x{:02x}", byte);
  }
}

// The raw graph, with what a compressed edge needs: the one byte that each edge stands for, if it is one.
struct Followed {
  AutomatonGraph graph;
  std::vector<State> states;            // by node
  std::vector<std::vector<int>> edges;  // by node: indices of its edges
  std::vector<int> byte;                // by edge; -1: several
  std::vector<ByteSet> on;              // by edge
};

Result<Followed> follow(Grammar& grammar, std::size_t most) {
  Automaton& automaton = grammar.automaton();
  Followed out;
  std::map<State, std::size_t> places;
  const auto add = [&](State state, int depth) {
    const auto [place, fresh] = places.emplace(state, out.states.size());
    if (fresh) {
      out.states.push_back(state);
      out.edges.emplace_back();
      out.graph.nodes.push_back({grammar.complete(state), false, -1, depth});
    }
    return place->second;
  };
  add(grammar.start(), 0);
  for (std::size_t at = 0; at < out.states.size(); ++at) {
    const auto branches = automaton.branches(out.states[at]);
    if (at >= most) {
      out.graph.nodes[at].open = !branches.empty();
      continue;
    }
    for (const auto& branch : branches) {
      const std::size_t to = add(branch.to, out.graph.nodes[at].depth + 1);
      out.edges[at].push_back(static_cast<int>(out.graph.edges.size()));
      out.graph.edges.push_back({at, to, bytes_label(branch.on)});
      out.byte.push_back(branch.on.size() == 1 ? static_cast<int>(branch.on.first()) : -1);
      out.on.push_back(branch.on);
    }
    if (grammar.vocabulary().tokenizer() == nullptr) continue;
    ESP_TRY(const auto mask, grammar.mask(out.states[at]));
    out.graph.nodes[at].tokens = count_tokens(*mask);
  }
  return out;
}

constexpr ByteSet kLead = ByteSet::range(0xc2, 0xf4), kContinuation = ByteSet::range(0x80, 0xbf);
constexpr std::string_view kBeyondAscii = "non-ASCII";

bool is_within(const ByteSet& set, const ByteSet& whole) {
  return (set & ~whole).empty();
}

// Where the characters end that have begun in front of the node. Source: RFC 3629, at most three bytes more.
std::set<std::size_t> ends_of_characters(const Followed& raw, std::size_t node) {
  std::set<std::size_t> ends, inside{node};
  for (int bytes = 0; bytes < 3 && !inside.empty(); ++bytes) {
    std::set<std::size_t> next;
    for (const std::size_t at : inside) {
      const auto goes_on = [&](int edge) { return is_within(raw.on[static_cast<std::size_t>(edge)], kContinuation); };
      const bool within =
          !raw.edges[at].empty() && !raw.graph.nodes[at].complete && std::ranges::all_of(raw.edges[at], goes_on);
      if (!within) ends.insert(at);
      for (const int edge : raw.edges[at])
        if (within) next.insert(raw.graph.edges[static_cast<std::size_t>(edge)].to);
    }
    inside = std::move(next);
  }
  ends.insert(inside.begin(), inside.end());
  return ends;
}

// States with a single way on, by a single byte, where the text may not end, vanish into their edges.
AutomatonGraph compress(const Followed& raw, bool characters) {
  const auto inner = [&](std::size_t node) {
    const auto& own = raw.edges[node];
    return node != 0 && own.size() == 1 && raw.byte[static_cast<std::size_t>(own[0])] >= 0 &&
           !raw.graph.nodes[node].complete && raw.graph.edges[static_cast<std::size_t>(own[0])].to != node;
  };
  AutomatonGraph out;
  std::map<std::size_t, std::size_t> places;
  std::vector<std::size_t> nodes;
  const auto add = [&](std::size_t node, int depth) {
    const auto [place, fresh] = places.emplace(node, nodes.size());
    if (fresh) {
      nodes.push_back(node);
      out.nodes.push_back(raw.graph.nodes[node]);
      out.nodes.back().depth = depth;
    }
    return place->second;
  };
  add(0, 0);
  for (std::size_t at = 0; at < nodes.size(); ++at) {
    std::set<std::size_t> beyond_ascii;
    for (const int first : raw.edges[nodes[at]]) {
      if (characters && is_within(raw.on[static_cast<std::size_t>(first)], kLead)) {
        beyond_ascii.merge(ends_of_characters(raw, raw.graph.edges[static_cast<std::size_t>(first)].to));
        continue;
      }
      const auto& edge = raw.graph.edges[static_cast<std::size_t>(first)];
      std::string label = edge.label;
      std::size_t to = edge.to;
      for (std::size_t steps = 0; inner(to) && steps < raw.states.size(); ++steps) {
        const auto next = static_cast<std::size_t>(raw.edges[to][0]);
        label += byte_text(static_cast<unsigned>(raw.byte[next]));
        to = raw.graph.edges[next].to;
      }
      const std::size_t place = add(to, out.nodes[at].depth + 1);
      out.edges.push_back({at, place, std::move(label)});
    }
    for (const std::size_t end : beyond_ascii) {
      const std::size_t place = add(end, out.nodes[at].depth + 1);
      out.edges.push_back({at, place, std::string(kBeyondAscii)});
    }
  }
  return out;
}

std::string node_text(std::size_t index, const AutomatonGraph::Node& node) {
  std::string text = fmt::format("{}", index);
  if (node.tokens >= 0) text += fmt::format(": {} tokens", node.tokens);
  return text;
}

std::string dot_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

void write_dot(std::string& out, const AutomatonGraph& graph, char prefix, std::string_view name) {
  out += fmt::format("  subgraph cluster_{} {{\n    label=\"{}: {} states, {} edges\";\n", prefix, name,
                     graph.nodes.size(), graph.edges.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto& node = graph.nodes[i];
    out += fmt::format("    {}{} [label=\"{}\" shape={}{}];\n", prefix, i, node_text(i, node),
                       node.complete ? "doublecircle" : "circle", node.open ? " style=dashed" : "");
  }
  for (const auto& edge : graph.edges) {
    out += fmt::format("    {0}{1} -> {0}{2} [label=\"{3}\"];\n", prefix, edge.from, edge.to,
                       dot_escaped(shortened(edge.label, kMostLabel)));
  }
  out += "  }\n";
}

// Columns by depth. Edges leave on the right and arrive on the left; those that go back run below.
class Drawing {
 public:
  Drawing(Svg& svg, const AutomatonGraph& graph, double top) : svg_(svg), graph_(graph), top_(top) {
    std::map<int, int> rows;
    for (const auto& node : graph.nodes) {
      const int row = rows[node.depth]++;
      places_.push_back({60 + kColumn * node.depth, top + 60 + kRow * row});
      width_ = std::max(width_, places_.back().first + kColumn);
      bottom_ = std::max(bottom_, places_.back().second + kRow);
    }
  }
  void draw(std::string_view name) {
    svg_.text(20, top_ + 20, fmt::format("{}: {} states, {} edges", name, graph_.nodes.size(), graph_.edges.size()),
              Svg::Anchor::start, "sub");
    std::map<std::pair<std::size_t, std::size_t>, int> between;
    for (const auto& edge : graph_.edges) draw_edge(edge, between[{edge.from, edge.to}]++);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) draw_node(i);
  }
  double width() const { return width_; }
  double bottom() const { return bottom_; }

 private:
  static constexpr double kColumn = 190, kRow = 74, kHalf = 34, kHeight = 13;

  void draw_node(std::size_t i) {
    const auto& node = graph_.nodes[i];
    const auto [x, y] = places_[i];
    svg_.rect(x - kHalf - 2, y - kHeight - 2, 2 * kHalf + 4, 2 * kHeight + 4, node.complete ? "f0" : "f2");
    svg_.rect(x - kHalf, y - kHeight, 2 * kHalf, 2 * kHeight, "paper");
    svg_.text(x, y + 4, fmt::format("{}{}", i, node.complete ? " end" : ""), Svg::Anchor::middle);
    std::string below = node.tokens >= 0 ? fmt::format("{} tokens", node.tokens) : "";
    if (node.open) below += below.empty() ? "more …" : ", more …";
    svg_.text(x, y + kHeight + 14, below, Svg::Anchor::middle, "dim");
  }

  void draw_edge(const AutomatonGraph::Edge& edge, int number) {
    const auto [fx, fy] = places_[edge.from];
    const auto [tx, ty] = places_[edge.to];
    const double x1 = fx + kHalf + 2, x2 = tx - kHalf - 2;
    const bool back = tx <= fx;
    // One that goes back leaves and arrives in a bow: below its row, or between the rows when it goes down.
    const double bow = back ? 34.0 : (x2 - x1) / 3, sag = !back ? -12.0 * number : ty > fy ? 0 : 40.0 + 13 * number;
    const double down = back && ty > fy ? (ty - fy) / 2 : 0;
    const auto at = [&](double t) {
      const double u = 1 - t, first = 3 * u * u * t, second = 3 * u * t * t;
      return std::pair(u * u * u * x1 + first * (x1 + bow) + second * (x2 - bow) + t * t * t * x2,
                       u * u * u * fy + first * (fy + sag + down) + second * (ty + sag - down) + t * t * t * ty);
    };
    Svg::Points points;
    for (int i = 0; i <= 16; ++i) points.push_back(at(i / 16.0));
    svg_.arrow(points, back ? "s4" : "axis");
    // Where the edge is nearly at its end, edges out of one state are apart.
    const auto [x, y] = at(back ? 0.5 : 0.62);
    svg_.text(x, y - 4, shortened(edge.label, kMostLabel), Svg::Anchor::middle, "dim");
  }

  Svg& svg_;
  const AutomatonGraph& graph_;
  const double top_;
  std::vector<std::pair<double, double>> places_;
  double width_ = 0, bottom_ = 0;
};

}  // namespace

std::string shortened(std::string text, std::size_t most) {
  constexpr std::string_view more = "…";
  if (text.size() <= most) return text;
  std::size_t end = most - more.size();
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  text.resize(end);
  return text.append(more);
}

std::string bytes_label(const ByteSet& set) {
  if (set.size() == 1) return byte_text(set.first());
  const bool rather_not = set.size() > 128;
  const ByteSet shown = rather_not ? ~set : set;
  if (shown.empty()) return "any";
  std::string out = rather_not ? "[^" : "[";
  for (unsigned low = 0; low < 256; ++low) {
    if (!shown.contains(low)) continue;
    unsigned high = low;
    while (high < 255 && shown.contains(high + 1)) ++high;
    out += byte_text(low);
    if (high > low + 1) out += "-";
    if (high > low) out += byte_text(high);
    low = high;
  }
  return out + "]";
}

Result<ExplainedGrammar> explain(Grammar& grammar, std::size_t states, bool characters) {
  ESP_TRY(Followed raw, follow(grammar, states));
  ExplainedGrammar out;
  out.compressed = compress(raw, characters);
  out.raw = std::move(raw.graph);
  return out;
}

std::string to_dot(const ExplainedGrammar& explained, std::string_view title) {
  std::string out = fmt::format("digraph grammar {{\n  rankdir=LR;\n  label=\"{}\";\n", dot_escaped(title));
  write_dot(out, explained.compressed, 'c', "compressed");
  write_dot(out, explained.raw, 'r', "raw");
  return out + "}\n";
}

std::string to_svg(const ExplainedGrammar& explained, std::string_view title) {
  Svg svg;
  svg.text(20, 26, title, Svg::Anchor::start, "head");
  Drawing compressed(svg, explained.compressed, 40);
  compressed.draw("compressed");
  Drawing raw(svg, explained.raw, compressed.bottom() + 20);
  raw.draw("raw");
  return svg.document(std::max({compressed.width(), raw.width(), 400.0}), raw.bottom() + 20, title);
}

}  // namespace espalier::grammar
