#include "lang/graph/replay.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "lang/argument_text.h"
#include "lang/execute/sample_group.h"
#include "lang/state_core.h"

namespace espalier::lang {

struct Replay::Stream {
  std::shared_ptr<StateCore> core;
  int chained = 0;          // nodes that are still to come of a chain
  std::vector<Node> chain;  // those that came
  int texts = 0;            // that are scored, and whose score is still to come
};

class Replay::Appender {
 public:
  Appender(Replay& replay, const Arguments& arguments) : replay_(replay), arguments_(arguments) {}

  void take(const Graph::Node& one) {
    at_ = one.stream;
    std::visit([this](const auto& content) { carry_out(content); }, one.content);
    ++number_;
  }
  // Of what comes in another way than through this.
  void finish() {
    for (const int one : std::set<int>(each_)) open_text(one, true);
  }

 private:
  Stream& stream(int number) {
    const auto place = static_cast<std::size_t>(number);
    if (replay_.streams_.size() <= place) replay_.streams_.resize(place + 1);
    return replay_.streams_[place];
  }
  StateCore& core() { return *stream(at_).core; }

  void append(Node one) {
    Stream& to = stream(at_);
    if (to.chained == 0) return to.core->append(Expr(std::move(one)));
    to.chain.push_back(std::move(one));
    if (--to.chained == 0) to.core->append(ChainItem{std::exchange(to.chain, {})});
  }

  template <class T>
  void carry_out(const T& content) {
    append(content);
  }
  void carry_out(node::Gen gen) {
    gen.number = number_;
    append(std::move(gen));
  }
  void carry_out(node::Select select) {
    select.number = number_;
    append(std::move(select));
  }
  void carry_out(node::Score score) {
    score.number = number_;
    score.texts = std::exchange(stream(at_).texts, 0);
    append(std::move(score));
  }
  void open_text(int of, bool each) {
    each_.erase(of);
    ++stream(of).texts;
    stream(of).core->append(Expr(Node(node::ScoredText{each})));
  }
  // How many texts a list is shows when it comes.
  void carry_out(const node::ScoredText& text) {
    if (text.each)
      each_.insert(at_);
    else
      open_text(at_, false);
  }
  void carry_out(const node::Argument& argument) {
    const Arguments::Argument given = arguments_[argument.name];
    const bool each = each_.contains(at_);
    if (!each || given.is_open() || !given.json().is_array()) {
      if (each) open_text(at_, true);
      return core().append(given);
    }
    each_.erase(at_);
    for (std::string& one : entry_texts(given.json())) {
      open_text(at_, false);
      core().append(Expr(std::move(one)));
    }
  }
  void carry_out(const Graph::Variable& variable) {
    if (each_.contains(at_)) open_text(at_, true);
    append(node::Variable{variable.name, stream(variable.stream).core});
  }
  void carry_out(const Graph::ReasoningEnd& end) { core().append(ReasoningSplit{end.model_type, end.names}); }
  void carry_out(const Graph::Set& set) {
    core().set(set.name, set.list ? Value(Value::List(set.values.begin(), set.values.end())) : Value(set.values[0]));
  }
  void carry_out(const Graph::Chain& chain) { stream(at_).chained = chain.nodes; }
  void carry_out(const Graph::Sample& sample) {
    auto& group = replay_.groups_[sample.group];
    if (!group) group = std::make_shared<SampleGroup>(static_cast<std::size_t>(sample.of));
    SampleItem item{group, static_cast<std::size_t>(sample.index), sample.gen};
    item.gen.number = number_;
    core().append(std::move(item));
  }
  void carry_out(const Graph::Fork& fork) {
    const auto children = core().fork(static_cast<int>(fork.children.size()));
    for (std::size_t i = 0; i < children.size(); ++i) stream(fork.children[i]).core = children[i];
  }
  void carry_out(const Graph::Join& join) {
    std::vector<std::shared_ptr<StateCore>> children;
    for (const int child : join.children) children.push_back(stream(child).core);
    core().join_later(children, join.mode);
  }

  Replay& replay_;
  const Arguments& arguments_;
  int at_ = 0, number_ = 0;
  std::set<int> each_;  // streams whose next argument or variable is a list of texts that are scored
};

Replay::Replay(std::shared_ptr<StateCore> own) {
  streams_.push_back({std::move(own), 0, {}});
}

Replay::~Replay() = default;

void Replay::append(const std::vector<Graph::Node>& nodes, const Arguments& arguments) {
  Appender appender(*this, arguments);
  for (const Graph::Node& one : nodes) appender.take(one);
  appender.finish();
}

const std::shared_ptr<StateCore>& Replay::core(int stream) const {
  return streams_[static_cast<std::size_t>(stream)].core;
}

std::vector<std::weak_ptr<StateCore>> Replay::cores() const {
  std::vector<std::weak_ptr<StateCore>> all;
  for (const Stream& stream : streams_)
    if (stream.core) all.emplace_back(stream.core);
  return all;
}

Result<Function> function_of(Graph graph) {
  ESP_CHECK(graph.check());
  if (!graph.ends_because.empty())
    return bad_request(fmt::format("the graph is only the beginning of its program: {}", graph.ends_because),
                       "ends_because");
  std::string name = graph.name;
  std::vector<std::string> parameters = graph.parameters;
  return Function(std::move(name), std::move(parameters),
                  [graph = std::make_shared<const Graph>(std::move(graph))](State& s, const Arguments& arguments) {
                    Replay(s.core()).append(graph->nodes, arguments);
                  });
}

}  // namespace espalier::lang
