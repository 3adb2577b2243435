#include "lang/graph/wiring.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "base/json/json.h"
#include "lang/choices/choices.h"
#include "lang/compiler/streams.h"
#include "lang/graph/score_json.h"

namespace espalier::lang {
namespace {

struct Label {
  std::size_t most;  // bytes of a text

  std::string operator()(const node::Text& text) const { return in_quotes(text.text, most); }
  std::string operator()(const node::Argument& argument) const { return fmt::format("argument {}", argument.name); }
  std::string operator()(const node::Gen& gen) const { return fmt::format("gen {}", gen.name); }
  std::string operator()(const node::Select& select) const {
    const bool scored = select.way == SelectWay::scoring;
    return fmt::format("select {} of {}{}{}", select.name, select.choices.size(), scored ? "" : " by ",
                       scored ? "" : name_of(select.way));
  }
  std::string operator()(const node::ScoredText& text) const { return text.each ? "texts to score" : "text to score"; }
  std::string operator()(const node::Score& score) const {
    return fmt::format("{} {} of {}", name_of(score.kind), score.name,
                       score.texts - (score.kind == node::Score::Kind::embed ? 0 : 1));
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

class Wiring {
 public:
  explicit Wiring(const Graph& graph) : graph_(graph) {}

  std::vector<Wire> draw() {
    for (at_ = 0; at_ < graph_.nodes.size(); ++at_) {
      const auto& [stream, content] = graph_.nodes[at_];
      if (const auto last = last_.find(stream); last != last_.end()) lead(last->second, Wire::Kind::next);
      if (const auto fork = forked_.find(stream); fork != forked_.end()) {
        lead(fork->second, Wire::Kind::fork);
        forked_.erase(fork);
      }
      if (const auto* fork = std::get_if<Graph::Fork>(&content))
        for (const int child : fork->children) forked_[child] = at_;
      if (const auto* join = std::get_if<Graph::Join>(&content)) take(stream, *join);
      if (const auto* variable = std::get_if<Graph::Variable>(&content))
        if (const auto from = set_.find({variable->stream, variable->name}); from != set_.end())
          lead(from->second, Wire::Kind::variable);
      if (std::string name = name_set_by(content); !name.empty()) set(stream, std::move(name));
      last_[stream] = at_;
    }
    return std::move(wires_);
  }

 private:
  void lead(std::size_t from, Wire::Kind kind) { wires_.push_back({from, at_, kind}); }
  void set(int stream, std::string name) {
    names_[stream].insert(name);
    set_[{stream, std::move(name)}] = at_;
  }
  void take(int stream, const Graph::Join& join) {
    std::set<std::string> brought;
    for (const int child : join.children) {
      if (const auto last = last_.find(child); last != last_.end()) lead(last->second, Wire::Kind::join);
      if (join.mode == JoinMode::gather_variable) brought.insert(names_[child].begin(), names_[child].end());
    }
    for (const std::string& name : brought)
      if (!set_.contains({stream, name})) set(stream, name);
  }

  const Graph& graph_;
  std::size_t at_ = 0;
  std::vector<Wire> wires_;
  std::map<int, std::size_t> last_, forked_;                // by stream: its last node so far; who forked it
  std::map<int, std::set<std::string>> names_;              // that a stream has set
  std::map<std::pair<int, std::string>, std::size_t> set_;  // by which node
};

}  // namespace

std::string label_of(const Graph::Content& content, std::size_t most) {
  return std::visit(Label{most}, content);
}

std::vector<Wire> wires_of(const Graph& graph) {
  return Wiring(graph).draw();
}

}  // namespace espalier::lang
