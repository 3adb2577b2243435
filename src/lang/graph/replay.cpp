#include "lang/graph/replay.h"

#include <fmt/format.h>

namespace espalier::lang {
namespace {

class Replay {
 public:
  Replay(const Graph& graph, State& s, const Arguments& arguments) : graph_(graph), arguments_(arguments) {
    streams_.resize(static_cast<std::size_t>(graph.streams));
    streams_[0] = s;
  }

  void run() {
    for (const Graph::Node& one : graph_.nodes) {
      at_ = one.stream;
      std::visit([this](const auto& content) { carry_out(content); }, one.content);
    }
  }

 private:
  State& stream(int number) { return *streams_[static_cast<std::size_t>(number)]; }

  template <class T>
  void carry_out(const T& content) {
    stream(at_) += Expr(Node(content));
  }
  void carry_out(const node::Argument& argument) { stream(at_) += arguments_[argument.name]; }
  void carry_out(const Graph::Variable& variable) { stream(at_) += stream(variable.stream)[variable.name]; }
  void carry_out(const Graph::ReasoningEnd&) {}  // function_of() refuses it
  void carry_out(const Graph::Fork& fork) {
    ForkGroup group = stream(at_).fork(static_cast<int>(fork.children.size()));
    for (std::size_t i = 0; i < fork.children.size(); ++i)
      streams_[static_cast<std::size_t>(fork.children[i])] = group[i];
  }
  void carry_out(const Graph::Join& join) {
    std::vector<State> children;
    for (const int child : join.children) children.push_back(stream(child));
    ForkGroup(stream(at_), std::move(children)).join(join.mode);
  }

  const Graph& graph_;
  const Arguments& arguments_;
  std::vector<std::optional<State>> streams_;
  int at_ = 0;
};

}  // namespace

Result<Function> function_of(Graph graph) {
  ESP_CHECK(graph.check());
  if (!graph.ends_because.empty())
    return bad_request(fmt::format("the graph is only the beginning of its program: {}", graph.ends_because));
  for (const Graph::Node& one : graph.nodes)
    if (std::holds_alternative<Graph::ReasoningEnd>(one.content))
      return Error{Error::Kind::unsupported, "separate_reasoning cannot be carried out from a graph yet", {}, {}};
  std::string name = graph.name;
  std::vector<std::string> parameters = graph.parameters;
  return Function(
      std::move(name), std::move(parameters),
      [graph = std::move(graph)](State& s, const Arguments& arguments) { Replay(graph, s, arguments).run(); });
}

}  // namespace espalier::lang
