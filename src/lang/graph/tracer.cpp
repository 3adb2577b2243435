#include "lang/graph/tracer.h"

#include <fmt/format.h>

#include <mutex>
#include <set>

#include "lang/state_core.h"
#include "lang/turns.h"

namespace espalier::lang {
namespace {

constexpr std::string_view kTracedValue = "traced_value", kTracedArgument = "traced_argument";

struct Recording {
  Graph graph;
};

Error unknown_value(std::string_view what) {
  return bad_request(fmt::format("{} has no value while the program is traced", what), {}, std::string(kTracedValue));
}

// A state of a program that is being traced.
class TracedState final : public StateCore, public std::enable_shared_from_this<TracedState> {
 public:
  TracedState(std::shared_ptr<Recording> recording, int stream) : recording_(std::move(recording)), stream_(stream) {}

  void append(Expr what) override {
    for (Node& one : std::move(what).take()) std::visit([this](auto&& it) { record(std::move(it)); }, std::move(one));
  }
  void set(std::string name, Value value) override { values_.insert_or_assign(std::move(name), std::move(value)); }
  bool contains(std::string_view name) const override { return values_.contains(name); }

  Result<Value> read(std::string_view name) override {
    if (const auto at = values_.find(name); at != values_.end()) return at->second;
    return unknown_value(fmt::format("the variable {}", name));
  }
  std::optional<Result<Value>> try_read(std::string_view name) const override {
    const auto at = values_.find(name);
    return at != values_.end() ? Result<Value>(at->second) : Result<Value>(unknown_value(name));
  }
  void when_readable(std::string, std::function<void()> then) override { then(); }
  Result<Json> meta(std::string_view name, std::optional<Clock::time_point>) override { return unknown_value(name); }
  void sync() override {}
  std::string text() override { throw ProgramError(unknown_value("the text")); }
  std::vector<Message> messages() override { throw ProgramError(unknown_value("the list of messages")); }
  std::optional<Error> error() override { return std::nullopt; }

  std::vector<std::shared_ptr<StateCore>> fork(int n) override {
    Graph::Fork fork;
    std::vector<std::shared_ptr<StateCore>> children;
    for (int i = 0; i < n; ++i) {
      const int stream = recording_->graph.streams++;
      fork.children.push_back(stream);
      auto child = std::make_shared<TracedState>(recording_, stream);
      child->values_ = values_;
      children.push_back(std::move(child));
    }
    add(std::move(fork));
    return children;
  }
  Result<> join(const std::vector<std::shared_ptr<StateCore>>& children, JoinMode mode) override {
    Graph::Join join{{}, mode};
    for (const auto& child : children) join.children.push_back(dynamic_cast<const TracedState&>(*child).stream_);
    add(std::move(join));
    return success();
  }
  void when_piece(std::string, std::size_t, std::function<void()> then) override { then(); }
  Result<std::optional<Piece>> piece(std::string_view variable, std::size_t) override {
    return unknown_value(variable.empty() ? "the text" : variable);
  }
  void end() override {}
  void cancel(Error) override {}

 private:
  void add(Graph::Content content) { recording_->graph.nodes.push_back({stream_, std::move(content)}); }

  template <class T>
  void record(T one) {
    add(std::move(one));
  }
  void record(node::Variable variable) {
    const auto* source = dynamic_cast<const TracedState*>(variable.source.get());
    add(Graph::Variable{std::move(variable.name), source != nullptr ? source->stream_ : stream_});
  }
  void record(const node::Reasoning& reasoning) {
    const std::size_t from = recording_->graph.nodes.size();
    append(*reasoning.inside);
    Graph::ReasoningEnd end{reasoning.model_type, {}};
    for (std::size_t i = from; i < recording_->graph.nodes.size(); ++i) {
      const auto* gen = std::get_if<node::Gen>(&recording_->graph.nodes[i].content);
      if (gen != nullptr && !gen->name.empty()) end.names.push_back(gen->name);
    }
    add(std::move(end));
  }

  std::shared_ptr<Recording> recording_;
  const int stream_;
  std::map<std::string, Value, std::less<>> values_;  // that the function set itself
};

}  // namespace

Graph trace(const Function& function, const Arguments& known) {
  auto recording = std::make_shared<Recording>();
  recording->graph.name = function.name();
  Arguments arguments = function.fixed();
  for (const auto& [name, value] : known.values())
    if (!arguments.values().contains(name)) arguments.set(name, value);
  for (const std::string& name : function.parameters()) arguments.leave_open(name);
  recording->graph.parameters = arguments.open();
  State s(std::make_shared<TracedState>(recording, 0));
  try {
    function.call(s, arguments);
  } catch (const ProgramError& stopped) {
    const std::string& code = stopped.error().code;
    if (code != kTracedValue && code != kTracedArgument) throw;
    recording->graph.ends_because = stopped.error().message;
  }
  return recording->graph;
}

std::string constant_prefix(const Graph& graph, const ChatFormat& format) {
  Document document;
  for (const Graph::Node& one : graph.nodes) {
    if (const auto* text = std::get_if<node::Text>(&one.content))
      document.text += text->text;
    else if (const auto* begin = std::get_if<node::RoleBegin>(&one.content))
      (void)begin_turn(document, format, begin->role);
    else if (const auto* end = std::get_if<node::RoleEnd>(&one.content))
      (void)end_turn(document, format, end->role);
    else
      break;
  }
  return document.text;
}

}  // namespace espalier::lang
