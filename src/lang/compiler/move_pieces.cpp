// Code motion: among movable pieces that stand side by side, those without arguments come first. It changes prompts, so
// it is off unless asked for, and tells each change.
#include <fmt/format.h>

#include <algorithm>

#include "lang/compiler/passes.h"
#include "lang/compiler/streams.h"

namespace espalier::lang {
namespace {

struct MovablePiece {  // of a stream: places in its list of nodes
  std::size_t begin = 0, end = 0;
  bool constant = true;
  std::size_t bytes = 0;
};

class Mover {
 public:
  Mover(Graph& graph, std::vector<std::size_t> stream, PassReport& report)
      : graph_(graph), stream_(std::move(stream)), report_(report) {}

  void run() {
    for (std::size_t at = 0; at < stream_.size();) {
      const std::vector<MovablePiece> side_by_side = pieces_from(at);
      if (side_by_side.size() > 1) sort(side_by_side);
      at = side_by_side.empty() ? at + 1 : side_by_side.back().end;
    }
  }

 private:
  const Graph::Content& content(std::size_t place) const { return graph_.nodes[stream_[place]].content; }

  std::optional<MovablePiece> piece_at(std::size_t at) const {
    if (at >= stream_.size() || !std::holds_alternative<node::MovableBegin>(content(at))) return std::nullopt;
    MovablePiece piece{at, at + 1, true, 0};
    for (; piece.end < stream_.size() && !std::holds_alternative<node::MovableEnd>(content(piece.end)); ++piece.end) {
      const auto* text = std::get_if<node::Text>(&content(piece.end));
      if (text == nullptr) piece.constant = false;
      if (text != nullptr) piece.bytes += text->text.size();
    }
    ++piece.end;
    return piece.end <= stream_.size() ? std::optional(piece) : std::nullopt;
  }
  std::vector<MovablePiece> pieces_from(std::size_t at) const {
    std::vector<MovablePiece> pieces;
    while (const auto piece = piece_at(at)) {
      pieces.push_back(*piece);
      at = piece->end;
    }
    return pieces;
  }

  void sort(std::vector<MovablePiece> pieces) {
    const std::size_t begin = pieces.front().begin;
    const auto sorted = std::ranges::stable_partition(pieces, &MovablePiece::constant);
    if (std::ranges::is_sorted(pieces, {}, &MovablePiece::begin)) return;
    std::vector<Graph::Content> in_order;
    std::size_t bytes = 0;
    for (const MovablePiece& piece : pieces) {
      if (piece.constant) bytes += piece.bytes;
      for (std::size_t i = piece.begin; i < piece.end; ++i) in_order.push_back(content(i));
    }
    for (std::size_t i = 0; i < in_order.size(); ++i) graph_.nodes[stream_[begin + i]].content = std::move(in_order[i]);
    report_.changes.push_back(fmt::format("{} pieces changed places at node {}: {} with arguments come behind {} bytes",
                                          pieces.size(), stream_[begin], sorted.size(), bytes));
    report_.prompt_bytes += static_cast<std::int64_t>(bytes);
  }

  Graph& graph_;
  const std::vector<std::size_t> stream_;
  PassReport& report_;
};

}  // namespace

void move_pieces(Graph& graph, PassReport& report) {
  for (auto& stream : nodes_by_stream(graph)) Mover(graph, std::move(stream), report).run();
}

}  // namespace espalier::lang
