// A graph as a picture: a column for each stream, time downwards, what may happen at once side by side.
//
// A node stands below all that it waits for, and streams that are over by then leave their column to later ones. Edges
// of forks and joins run through the gaps between rows, those of variables through the gutters between columns, so that
// none runs across a box.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "base/svg.h"
#include "lang/compiler/streams.h"
#include "lang/graph/options_json.h"
#include "lang/graph/score_json.h"
#include "lang/graph/wiring.h"
#include "text/utf8.h"

namespace espalier {
namespace {

using lang::Wire;

constexpr double kBoxWidth = 236, kBoxHeight = 24, kGap = 16, kGutter = 58, kLeft = 34, kTop = 64;
constexpr double kRow = kBoxHeight + kGap, kColumn = kBoxWidth + kGutter;
constexpr std::size_t kMostShown = 26, kMostTold = 400;  // bytes of a literal: in its box, when it is pointed at
constexpr std::size_t kMostLabel = 37;                   // bytes of all that a box says

struct Place {
  int row = 0, column = 0;
};

// Where the nodes stand.
class Layout {
 public:
  Layout(const Graph& graph, const std::vector<Wire>& wires) : graph_(graph), parents_(lang::parents(graph)) {
    places_.resize(graph.nodes.size());
    for (const Wire& wire : wires)  // by their ends: where they begin is known
      places_[wire.to].row = std::max(places_[wire.to].row, places_[wire.from].row + 1);
    spans_.resize(static_cast<std::size_t>(graph.streams));
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) span_of(graph.nodes[i].stream).take(places_[i].row);
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) reach_to(i);
    place_streams();
    for (std::size_t i = 0; i < graph.nodes.size(); ++i)
      places_[i].column = columns_[static_cast<std::size_t>(graph.nodes[i].stream)];
  }
  const Place& operator[](std::size_t node) const { return places_[node]; }
  int rows() const { return rows_; }
  int columns() const { return width_; }

 private:
  struct Span {
    int first = std::numeric_limits<int>::max(), last = -1;
    bool empty() const { return last < 0; }
    void take(int row) { first = std::min(first, row), last = std::max(last, row); }
  };

  Span& span_of(int stream) { return spans_[static_cast<std::size_t>(stream)]; }

  // A stream keeps its column from the fork to the join.
  void reach_to(std::size_t i) {
    const int row = places_[i].row;
    rows_ = std::max(rows_, row + 1);
    const auto reach = [&](const std::vector<int>& children, int at) {
      for (const int child : children)
        if (Span& span = span_of(child); !span.empty()) span.take(at);
    };
    if (const auto* fork = std::get_if<Graph::Fork>(&graph_.nodes[i].content)) reach(fork->children, row + 1);
    if (const auto* join = std::get_if<Graph::Join>(&graph_.nodes[i].content)) reach(join->children, row - 1);
  }

  // Children stand to the right of their parent, and those of one fork beside each other with what they fork between.
  void place_streams() {
    columns_.assign(spans_.size(), 0);
    std::vector<std::vector<int>> children(spans_.size());
    for (std::size_t i = spans_.size(); i-- > 1;)
      if (parents_[i] >= 0) children[static_cast<std::size_t>(parents_[i])].push_back(static_cast<int>(i));
    std::vector<int> open{0};
    while (!open.empty()) {
      const auto stream = static_cast<std::size_t>(open.back());
      open.pop_back();
      const int least = stream == 0 ? 0 : columns_[static_cast<std::size_t>(parents_[stream])] + 1;
      columns_[stream] = free_column(spans_[stream], least);
      open.insert(open.end(), children[stream].begin(), children[stream].end());
    }
  }
  int free_column(const Span& span, int least) {
    if (span.empty()) return least;
    for (auto column = static_cast<std::size_t>(least);; ++column) {
      if (taken_.size() <= column) taken_.resize(column + 1);
      auto& taken = taken_[column];  // last row by first row
      const auto behind = taken.upper_bound(span.last);
      if (behind != taken.begin() && std::prev(behind)->second >= span.first) continue;
      taken[span.first] = span.last;
      width_ = std::max(width_, static_cast<int>(column) + 1);
      return static_cast<int>(column);
    }
  }

  const Graph& graph_;
  const std::vector<int> parents_;
  std::vector<Place> places_;
  std::vector<Span> spans_;
  std::vector<int> columns_;
  std::vector<std::map<int, int>> taken_;
  int rows_ = 0, width_ = 1;
};

// Colours: what calls a model stands out.
struct BoxClass {
  std::string_view operator()(const node::Gen&) const { return "node b0"; }
  std::string_view operator()(const Graph::Sample&) const { return "node b0"; }
  std::string_view operator()(const node::Select&) const { return "node b2"; }
  std::string_view operator()(const node::Score&) const { return "node b2"; }
  std::string_view operator()(const Graph::Fork&) const { return "node b3"; }
  std::string_view operator()(const Graph::Join&) const { return "node b3"; }
  std::string_view operator()(const node::Argument&) const { return "node b4"; }
  std::string_view operator()(const Graph::Variable&) const { return "node b4"; }
  std::string_view operator()(const Graph::Chain&) const { return "node b1"; }
  template <class Other>
  std::string_view operator()(const Other&) const {
    return "node plain";
  }
};

std::string shortened(std::string text) {
  if (text.size() <= kMostLabel) return text;
  std::size_t end = kMostLabel - 1;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

std::string told_of(const Graph::Content& content) {
  std::string all = lang::label_of(content, kMostTold);
  if (const auto* gen = lang::gen_of(content)) all += " " + lang::options_to_json(gen->options).dump();
  if (const auto* score = std::get_if<node::Score>(&content))
    all += " " + lang::score_options_to_json(score->options).dump();
  if (const auto* select = std::get_if<node::Select>(&content))
    all += ": " + fmt::format("{}", fmt::join(select->choices, " | "));
  return all;
}

class Drawing {
 public:
  explicit Drawing(const Graph& graph) : graph_(graph), wires_(lang::wires_of(graph)), layout_(graph, wires_) {}

  std::string draw() {
    const std::string title = graph_.name.empty() ? "a program" : graph_.name;
    svg_.text(kLeft, 26, title, Svg::Anchor::start, "head");
    svg_.text(kLeft, 44,
              fmt::format(
                  "{} nodes in {} streams; green: generations, blue: choices and scores; dashed: where a variable goes",
                  graph_.nodes.size(), graph_.streams),
              Svg::Anchor::start, "dim");
    draw_turns();
    for (const Wire& wire : wires_) draw_wire(wire);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) draw_node(i);
    double bottom = top(layout_.rows()) + 6;
    if (!graph_.ends_because.empty()) {
      svg_.text(kLeft, bottom + 12, "ends here: " + graph_.ends_because, Svg::Anchor::start, "dim");
      bottom += 24;
    }
    return svg_.document(std::max(kLeft + kColumn * layout_.columns(), 640.0), bottom, title);
  }

 private:
  static double top(int row) { return kTop + kRow * row; }
  static double left(int column) { return kLeft + kColumn * column; }
  static double middle(int column) { return left(column) + kBoxWidth / 2; }

  void draw_node(std::size_t i) {
    const Graph::Content& content = graph_.nodes[i].content;
    const double x = left(layout_[i].column), y = top(layout_[i].row);
    svg_.rect(x, y, kBoxWidth, kBoxHeight, std::visit(BoxClass(), content), told_of(content));
    svg_.text(x + 7, y + 16, shortened(lang::label_of(content, kMostShown)));
    svg_.text(x + kBoxWidth - 4, y + 11, fmt::format("{}", i), Svg::Anchor::end, "dim small");
  }

  // Behind the nodes of a turn.
  void draw_turns() {
    std::map<int, std::size_t> open;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto& [stream, content] = graph_.nodes[i];
      if (std::holds_alternative<node::RoleBegin>(content)) open[stream] = i;
      const auto begin = open.find(stream);
      if (!std::holds_alternative<node::RoleEnd>(content) || begin == open.end()) continue;
      const double y = top(layout_[begin->second].row) - 5;
      svg_.rect(left(layout_[i].column) - 7, y, kBoxWidth + 14, top(layout_[i].row) + kBoxHeight + 5 - y, "band");
      open.erase(begin);
    }
  }

  void draw_wire(const Wire& wire) {
    if (wire.kind == Wire::Kind::variable) return draw_variable(layout_[wire.from], layout_[wire.to]);
    const Place from = layout_[wire.from], to = layout_[wire.to];
    const double x = middle(from.column), y = top(from.row) + kBoxHeight;
    const double to_x = middle(to.column), to_y = top(to.row);
    // A fork leaves in the gap below it, a join arrives in the gap above it; their columns are free in between.
    const double turn = wire.kind == Wire::Kind::fork ? y + kGap / 2 : to_y - kGap / 2;
    if (from.column == to.column)
      svg_.arrow({{x, y}, {to_x, to_y}}, "axis thin");
    else
      svg_.arrow({{x, y}, {x, turn}, {to_x, turn}, {to_x, to_y}},
                 wire.kind == Wire::Kind::next ? "axis thin" : "s3 thin");
  }

  // Out at the side that faces the target, down the gutter, through the gap above the target, and in at its side.
  void draw_variable(const Place& from, const Place& to) {
    const bool right = to.column > from.column, left_side = to.column < from.column;
    const double y = top(from.row) + kBoxHeight / 2, to_y = top(to.row) + kBoxHeight / 2 + 5;
    const double x = left_side ? left(from.column) : left(from.column) + kBoxWidth;
    const double to_x = right ? left(to.column) : left(to.column) + kBoxWidth;
    const int out = left_side ? from.column : from.column + 1, in = right ? to.column : to.column + 1;
    const double lane = lane_in(out);
    Svg::Points points{{x, y}, {lane, y}};
    if (out != in) {
      const double gap = top(to.row) - 5, other = lane_in(in);
      points.insert(points.end(), {{lane, gap}, {other, gap}, {other, to_y}});
    } else {
      points.emplace_back(lane, to_y);
    }
    points.emplace_back(to_x, to_y);
    svg_.arrow(points, "s4 thin dashed");
  }
  // The gutter left of a column has a few lanes; they are taken in turns.
  double lane_in(int gutter) {
    constexpr int kLanes = 6;
    const int lane = lanes_[gutter]++ % kLanes;
    return left(gutter) - kGutter + 14 + lane * (kGutter - 28) / (kLanes - 1);
  }

  const Graph& graph_;
  const std::vector<Wire> wires_;
  const Layout layout_;
  Svg svg_;
  std::map<int, int> lanes_;
};

}  // namespace

std::string as_svg(const Graph& graph) {
  std::string svg;
  append_valid_utf8(svg, Drawing(graph).draw(), true);  // names may be any bytes
  return svg;
}

}  // namespace espalier
