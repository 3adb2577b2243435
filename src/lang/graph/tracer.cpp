// trace(): runs a function on placeholders and records what it does, as a graph.
#include <fmt/format.h>

#include "espalier/graph.h"
#include "lang/gen_options.h"
#include "lang/graph/tracing.h"
#include "lang/state_core.h"

namespace espalier {
namespace lang {
namespace {

Error unknown_value(std::string_view what) {
  return bad_request(fmt::format("{} has no value while the program is traced", what), {}, std::string(kTracedValue));
}

// Fails: ProgramError that ends the trace for what is no text: a graph could not be written down with it.
Graph::Set set_of(const std::string& name, const Value& value) {
  Graph::Set set{name, {}, value.is_list()};
  const auto add = [&](const Value& one) {
    if (one.is_list() || one.foreign() != nullptr || one.numbers() != nullptr)
      throw ProgramError(bad_request(fmt::format("the variable {} is set to something that is no text", name), name,
                                     std::string(kTracedValue)));
    set.values.push_back(one.text());
  };
  if (set.list)
    for (const Value& one : value.list()) add(one);
  else
    add(value);
  return set;
}

// A state of a program that is being traced.
class TracedState final : public StateCore, public std::enable_shared_from_this<TracedState> {
 public:
  // `defaults`: of a program's run that is traced beside another, complete.
  TracedState(std::shared_ptr<Graph> graph, int stream, std::optional<GenOptions> defaults = {})
      : graph_(std::move(graph)), stream_(stream), defaults_(std::move(defaults)) {}

  void append(Expr what) override {
    for (Node& one : std::move(what).take())
      std::visit([this](auto&& it) { record(std::forward<decltype(it)>(it)); }, std::move(one));
  }
  // A graph that is carried out is not traced again: what the compiler put in is said as it was.
  void append(GraphItem item) override {
    if (auto* sample = std::get_if<SampleItem>(&item)) record(std::move(sample->gen));
    if (auto* chain = std::get_if<ChainItem>(&item))
      for (Node& one : chain->nodes)
        std::visit([this](auto&& it) { record(std::forward<decltype(it)>(it)); }, std::move(one));
    if (auto* split = std::get_if<ReasoningSplit>(&item))
      add(Graph::ReasoningEnd{std::move(split->model_type), std::move(split->names)});
  }
  void set(std::string name, Value value) override {
    add(set_of(name, value));
    values_.insert_or_assign(std::move(name), std::move(value));
  }
  bool contains(std::string_view name) const override { return values_.contains(name); }

  Result<Value> read(std::string_view name) override {
    if (const auto at = values_.find(name); at != values_.end()) return at->second;
    return unknown_value(fmt::format("the variable {}", name));
  }
  std::optional<Result<Value>> try_read(std::string_view name) const override {
    const auto at = values_.find(name);
    return at != values_.end() ? Result<Value>(at->second) : Result<Value>(unknown_value(name));
  }
  std::shared_ptr<PromisedValue> promise(std::string_view name) override {
    auto promised = std::make_shared<PromisedValue>();
    promised->put(std::make_shared<const Result<Value>>(read(name)));
    return promised;
  }
  Result<Json> meta(std::string_view name, Until) override { return unknown_value(name); }
  void sync() override {}
  std::string text() override { throw ProgramError(unknown_value("the text")); }
  std::vector<Message> messages() override { throw ProgramError(unknown_value("the list of messages")); }
  std::optional<Error> error() override { return std::nullopt; }

  std::vector<std::shared_ptr<StateCore>> fork(int n) override {
    Graph::Fork fork;
    std::vector<std::shared_ptr<StateCore>> children;
    for (int i = 0; i < n; ++i) {
      const int stream = graph_->streams++;
      fork.children.push_back(stream);
      auto child = std::make_shared<TracedState>(graph_, stream, defaults_);
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
  void join_later(const std::vector<std::shared_ptr<StateCore>>& children, JoinMode mode) override {
    (void)join(children, mode);
  }
  void when_settled(std::function<void()> then) override { then(); }
  void when_piece(std::string, std::size_t, std::function<void()> then) override { then(); }
  Result<std::optional<Piece>> piece(std::string_view variable, std::size_t) override {
    return unknown_value(variable.empty() ? "the text" : variable);
  }
  void end() override {}
  void cancel(Error) override {}

 private:
  void add(Graph::Content content) { graph_->nodes.push_back({stream_, std::move(content)}); }

  template <class T>
  void record(T one) {
    add(std::move(one));
  }
  void record(node::Gen gen) {
    if (defaults_) gen.options = over(*defaults_, gen.options);
    add(std::move(gen));
  }
  void record(node::Variable variable) {
    const auto* source = dynamic_cast<const TracedState*>(variable.source.get());
    add(Graph::Variable{std::move(variable.name), source != nullptr ? source->stream_ : stream_});
  }
  void record(const node::Reasoning& reasoning) {
    const std::size_t from = graph_->nodes.size();
    append(*reasoning.inside);
    Graph::ReasoningEnd end{reasoning.model_type, {}};
    for (std::size_t i = from; i < graph_->nodes.size(); ++i) {
      const auto* gen = std::get_if<node::Gen>(&graph_->nodes[i].content);
      if (gen != nullptr && !gen->name.empty()) end.names.push_back(gen->name);
    }
    add(std::move(end));
  }

  std::shared_ptr<Graph> graph_;
  const int stream_;
  const std::optional<GenOptions> defaults_;
  std::map<std::string, Value, std::less<>> values_;  // that the function set itself
};

// The graph that is recorded on this thread.
thread_local std::shared_ptr<Graph> recorded;

class Recorded {
 public:
  explicit Recorded(std::shared_ptr<Graph> graph) : before_(std::exchange(recorded, std::move(graph))) {}
  ~Recorded() { recorded = std::move(before_); }
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;

 private:
  std::shared_ptr<Graph> before_;
};

}  // namespace

std::optional<State> record_run(const Function& function, const Arguments& arguments, const RunOptions& options) {
  if (!recorded) return std::nullopt;
  if (options.backend || options.stream || options.api_spec_tokens > 0)
    refuse_while_tracing("a run with a back end of its own, streamed or with API speculation");
  const int stream = recorded->streams++;
  // Where nothing was said yet, so that it begins with nothing.
  recorded->nodes.insert(recorded->nodes.begin(), {0, Graph::Fork{{stream}}});
  State s(std::make_shared<TracedState>(recorded, stream, complete(options.defaults)));
  function.call(s, arguments);
  return s;
}

void refuse_while_tracing(std::string_view what) {
  if (recorded)
    throw ProgramError(bad_request(fmt::format("{} cannot be recorded while the program is traced", what), {},
                                   std::string(kTracedValue)));
}

}  // namespace lang

Graph trace(const Function& function, const Arguments& known) {
  auto graph = std::make_shared<Graph>();
  graph->name = function.name();
  Arguments arguments = function.fixed();
  for (const auto& [name, value] : known.values())
    if (!arguments.values().contains(name)) arguments.set(name, value);
  for (const std::string& name : function.parameters()) arguments.leave_open(name);
  graph->parameters = arguments.open();
  State s(std::make_shared<lang::TracedState>(graph, 0));
  const lang::Recorded recorded(graph);
  try {
    function.call(s, arguments);
  } catch (const ProgramError& stopped) {
    const std::string& code = stopped.error().code;
    if (code != lang::kTracedValue && code != lang::kTracedArgument) throw;
    graph->ends_because = stopped.error().message;
  }
  return *graph;
}

}  // namespace espalier
