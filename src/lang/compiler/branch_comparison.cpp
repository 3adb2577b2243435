#include "lang/compiler/branch_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "lang/choices/choices.h"
#include "lang/graph/options_json.h"
#include "lang/graph/score_json.h"

namespace espalier::lang {
namespace {

bool is_determined(const node::Gen& gen, const GenOptions& defaults) {
  const auto temperature = gen.options.temperature ? gen.options.temperature : defaults.temperature;
  return temperature.value_or(1) < SamplingLimits::greedy_below || gen.options.top_k == 1;
}

}  // namespace

class BranchComparison::Reader {
 public:
  Reader(const BranchComparison& all, int stream) : all_(all) { meet(stream); }
  std::optional<Branch> take() && { return comparable_ ? std::optional(std::move(branch_)) : std::nullopt; }

 private:
  void meet(int stream) {
    places_.emplace(stream, static_cast<int>(branch_.streams.size()));
    branch_.streams.push_back(stream);
    branch_.form += '{';
    for (const std::size_t i : all_.by_stream_[static_cast<std::size_t>(stream)]) {
      const Graph::Content& content = all_.graph_.nodes[i].content;
      branch_.form += fmt::format("{}:", kind_of(content));
      std::visit([this](const auto& one) { write(one); }, content);
      branch_.form += '\n';
    }
    branch_.form += '}';
  }

  void word(std::string_view text) { branch_.form += fmt::format("{}#{}", text.size(), text); }
  std::string place(int stream) const {
    const auto own = places_.find(stream);
    return own != places_.end() ? fmt::format("own {}", own->second) : fmt::format("stream {}", stream);
  }

  void write(const node::Text& text) { word(text.text); }
  void write(const node::Argument& argument) { word(argument.name); }
  void write(const node::RoleBegin& role) { word(role.role); }
  void write(const node::RoleEnd& role) { word(role.role); }
  void write(const node::ScopeBegin& scope) { word(scope.name); }
  void write(const node::ScopeEnd& scope) { word(scope.name); }
  void write(const node::MovableBegin&) {}
  void write(const node::MovableEnd&) {}
  void write(const Graph::Set& set) {
    word(set.name);
    word(set.list ? "list" : "one");
    for (const std::string& value : set.values) word(value);
  }
  void write(const Graph::Chain& chain) { word(std::to_string(chain.nodes)); }
  void write(const node::Media& media) { word(fmt::format("{}", static_cast<const void*>(media.picture.get()))); }
  void write(const node::Gen& gen) {
    word(gen.name);
    word(options_to_json(gen.options).dump());
    branch_.determined = branch_.determined && is_determined(gen, all_.defaults_);
  }
  void write(const Graph::Sample&) { comparable_ = false; }
  void write(const node::Select& select) {
    word(select.name);
    for (const std::string& choice : select.choices) word(choice);
    word(fmt::format("{} {}", select.temperature, static_cast<const void*>(select.method.get())));
    word(select.method ? select.method->name() : "");
    word(name_of(select.way));
  }
  void write(const node::ScoredText& text) { word(text.each ? "each" : "one"); }
  void write(const node::Score& score) {
    word(score.name);
    word(fmt::format("{} {} {}", name_of(score.kind), score.list,
                     static_cast<const void*>(score.options.backend.get())));
    word(score_options_to_json(score.options).dump());
  }
  void write(const Graph::Variable& variable) {
    word(variable.name);
    word(place(variable.stream));
    // A name that is set again is not the same everywhere.
    const auto times = all_.times_set_.find({variable.stream, variable.name});
    if (!places_.contains(variable.stream) && times != all_.times_set_.end() && times->second > 1) comparable_ = false;
  }
  void write(const Graph::ReasoningEnd& end) {
    word(end.model_type);
    for (const std::string& name : end.names) word(name);
  }
  void write(const Graph::Fork& fork) {
    for (const int child : fork.children) meet(child);
  }
  void write(const Graph::Join& join) {
    word(join.mode == JoinMode::gather_variable ? "gather" : "append");
    for (const int child : join.children) word(place(child));
  }

  const BranchComparison& all_;
  std::map<int, int> places_;
  Branch branch_;
  bool comparable_ = true;
};

BranchComparison::BranchComparison(const Graph& graph, const GenOptions& defaults)
    : graph_(graph), defaults_(defaults), by_stream_(nodes_by_stream(graph)) {
  for (const Graph::Node& one : graph.nodes)
    if (std::string name = name_set_by(one.content); !name.empty()) ++times_set_[{one.stream, std::move(name)}];
}

std::optional<Branch> BranchComparison::branch_of(int stream) const {
  return Reader(*this, stream).take();
}

std::optional<Beginning> beginning_of(const Graph& graph, const std::vector<std::size_t>& nodes) {
  Beginning beginning;
  for (const std::size_t i : nodes) {
    const Graph::Content& content = graph.nodes[i].content;
    beginning.form += kind_of(content);
    const auto word = [&](std::string_view text) { beginning.form += fmt::format(" {}#{}", text.size(), text); };
    if (const auto* gen = std::get_if<node::Gen>(&content)) {
      word(options_to_json(gen->options).dump());
      beginning.generation = i;
      return beginning;
    }
    if (const auto* text = std::get_if<node::Text>(&content))
      word(text->text);
    else if (const auto* argument = std::get_if<node::Argument>(&content))
      word(argument->name);
    else if (const auto* begin = std::get_if<node::RoleBegin>(&content))
      word(begin->role);
    else if (const auto* end = std::get_if<node::RoleEnd>(&content))
      word(end->role);
    else if (!is_literal(content))
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace espalier::lang
