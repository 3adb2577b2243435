// Generations that nobody can read, and whatever only they needed, are left out.
//
// After a run somebody may read the variables of the program's own stream, and its text; or, when the outputs are
// named, those variables alone. A call is needed when what it sets is read, or when its text stands before a call that
// is. What is needed is found by going backwards until nothing more is.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "lang/compiler/passes.h"
#include "lang/compiler/streams.h"

namespace espalier::lang {
namespace {

class Liveness {
 public:
  Liveness(const Graph& graph, const std::optional<std::vector<std::string>>& outputs)
      : graph_(graph), outputs_(outputs), streams_(nodes_by_stream(graph)), live_(graph.nodes.size()) {
    gathered_by_.resize(streams_.size());
    text_read_.resize(streams_.size());
    text_read_[0] = !outputs;
  }

  std::vector<bool> run() {
    do {
      changed_ = false;
      note_readers();
      for (std::size_t stream = 0; stream < streams_.size(); ++stream) go_back(stream);
    } while (changed_);
    return live_;
  }

 private:
  void note_readers() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Graph::Content& content = graph_.nodes[i].content;
      if (const auto* variable = std::get_if<Graph::Variable>(&content); variable && live_[i])
        read_.insert(variable->name);
      if (const auto* end = std::get_if<Graph::ReasoningEnd>(&content); end && live_[i])
        read_.insert(end->names.begin(), end->names.end());
      const auto* join = std::get_if<Graph::Join>(&content);
      if (join == nullptr) continue;
      for (const int child : join->children) {
        if (join->mode == JoinMode::gather_variable)
          gathered_by_[static_cast<std::size_t>(child)].insert(graph_.nodes[i].stream);
        else if (live_[i])
          text_read_[static_cast<std::size_t>(child)] = true;
      }
    }
  }

  // Names are not told apart by streams: one that is read anywhere is read everywhere.
  bool is_read(std::size_t stream, const std::string& name) const {
    if (name.empty()) return false;
    if (read_.contains(name)) return true;
    if (stream == 0) return !outputs_ || std::ranges::find(*outputs_, name) != outputs_->end();
    return std::ranges::any_of(gathered_by_[stream],
                               [&](int parent) { return is_read(static_cast<std::size_t>(parent), name); });
  }

  bool joins_something_read(std::size_t stream, const Graph::Join& join) const {
    return std::ranges::any_of(join.children, [&](int child) {
      return std::ranges::any_of(streams_[static_cast<std::size_t>(child)], [&](std::size_t i) {
        const std::string name = name_set_by(graph_.nodes[i].content);
        return (!name.empty() && is_read(stream, name)) ||
               std::holds_alternative<Graph::Join>(graph_.nodes[i].content) ||
               std::holds_alternative<Graph::ReasoningEnd>(graph_.nodes[i].content);
      });
    });
  }

  bool has_live(int stream) const {
    return std::ranges::any_of(streams_[static_cast<std::size_t>(stream)], [this](std::size_t i) { return live_[i]; });
  }

  // `text`: what stands before is part of something that is needed.
  void go_back(std::size_t stream) {
    bool text = text_read_[stream];
    for (auto at = streams_[stream].rbegin(); at != streams_[stream].rend(); ++at) {
      const Graph::Content& content = graph_.nodes[*at].content;
      if (const auto* score = std::get_if<node::Score>(&content)) {
        at = go_back_to_texts(at, *score, is_read(stream, score->name));
        continue;
      }
      bool needed = text || is_read(stream, name_set_by(content));
      if (const auto* end = std::get_if<Graph::ReasoningEnd>(&content))
        needed = needed || std::ranges::any_of(end->names, [&](const std::string& name) {
                   return is_read(stream, name) || is_read(stream, name + "_reasoning_content");
                 });
      if (const auto* fork = std::get_if<Graph::Fork>(&content))
        needed = std::ranges::any_of(fork->children, [this](int child) { return has_live(child); });
      if (const auto* join = std::get_if<Graph::Join>(&content))
        needed = join->mode == JoinMode::gather_variable ? joins_something_read(stream, *join) : text;
      if (!needed) continue;
      mark(*at);
      // What adds no text needs none; whatever else is needed stands behind what was said before.
      const auto* join = std::get_if<Graph::Join>(&content);
      const bool gathers = join != nullptr && join->mode == JoinMode::gather_variable;
      text = text || !(gathers || std::holds_alternative<Graph::Set>(content));
    }
  }

  // A score and the texts that are its own go together. It stands behind no text. The first of its nodes.
  std::vector<std::size_t>::const_reverse_iterator go_back_to_texts(
      std::vector<std::size_t>::const_reverse_iterator score_at, const node::Score& score, bool needed) {
    for (int left = score.texts;; ++score_at) {
      if (needed) mark(*score_at);
      left -= std::holds_alternative<node::ScoredText>(graph_.nodes[*score_at].content) ? 1 : 0;
      if (left == 0) return score_at;
    }
  }

  void mark(std::size_t i) {
    changed_ = changed_ || !live_[i];
    live_[i] = true;
  }

  const Graph& graph_;
  const std::optional<std::vector<std::string>>& outputs_;
  const std::vector<std::vector<std::size_t>> streams_;
  std::vector<bool> live_;
  bool changed_ = false;
  std::set<std::string> read_;
  std::vector<std::set<int>> gathered_by_;
  std::vector<bool> text_read_;
};

// A scope that is not closed is not opened either.
void leave_out_open_scopes(const Graph& graph, std::vector<bool>& gone) {
  std::map<std::pair<int, std::string>, int> closed;
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const Graph::Node& one = graph.nodes[i];
    if (const auto* end = std::get_if<node::ScopeEnd>(&one.content); end && !gone[i]) ++closed[{one.stream, end->name}];
    if (const auto* begin = std::get_if<node::ScopeBegin>(&one.content); begin && !gone[i]) {
      int& left = closed[{one.stream, begin->name}];
      gone[i] = left == 0;
      left -= left > 0;
    }
  }
}

// Streams that never begin cannot be joined.
void leave_out_unborn(Graph& graph, std::vector<bool>& gone) {
  std::set<int> born{0};
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    if (auto* fork = std::get_if<Graph::Fork>(&graph.nodes[i].content); fork && !gone[i])
      born.insert(fork->children.begin(), fork->children.end());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    auto* join = std::get_if<Graph::Join>(&graph.nodes[i].content);
    if (join == nullptr || gone[i]) continue;
    std::erase_if(join->children, [&](int child) { return !born.contains(child); });
    gone[i] = join->children.empty();
  }
}

}  // namespace

void drop_dead(Graph& graph, const std::optional<std::vector<std::string>>& outputs, PassReport& report) {
  std::vector<bool> gone = Liveness(graph, outputs).run();
  gone.flip();
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!gone[i]) continue;
    const Graph::Content& content = graph.nodes[i].content;
    if (!is_call(content)) continue;
    ++report.calls;
    report.changes.push_back(fmt::format("nobody can read {} {} (node {})", kind_of(content), name_set_by(content), i));
  }
  leave_out_open_scopes(graph, gone);
  leave_out_unborn(graph, gone);
  remove_nodes(graph, gone);
}

}  // namespace espalier::lang
