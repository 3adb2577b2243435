#include "lang/graph/graph.h"

#include <fmt/format.h>

#include <set>

namespace espalier::lang {
namespace {

// Follows the nodes in order: which streams have begun, which have been joined.
class Checker {
 public:
  explicit Checker(const Graph& graph)
      : graph_(graph), states_(static_cast<std::size_t>(graph.streams), State::unborn) {
    states_[0] = State::open;
  }

  Result<> check() {
    for (; at_ < graph_.nodes.size(); ++at_) {
      const Graph::Node& one = graph_.nodes[at_];
      if (!is(one.stream, State::open)) return wrong(fmt::format("its stream {} is not open here", one.stream));
      ESP_CHECK(std::visit([&](const auto& content) { return check(content); }, one.content));
    }
    return success();
  }

 private:
  enum class State { unborn, open, joined };

  bool is(int stream, State state) const {
    return stream >= 0 && stream < graph_.streams && states_[static_cast<std::size_t>(stream)] == state;
  }
  Error wrong(std::string why) const {
    const std::string place = fmt::format("nodes[{}]", at_);
    return bad_request(fmt::format("{}: {}", place, why), place);
  }
  Result<> move(const std::vector<int>& streams, State from, State to, const char* what) {
    if (streams.empty()) return wrong("children is empty");
    for (const int stream : streams) {
      if (!is(stream, from)) return wrong(fmt::format("stream {} {}", stream, what));
      states_[static_cast<std::size_t>(stream)] = to;
    }
    return success();
  }

  Result<> check(const Graph::Fork& fork) {
    return move(fork.children, State::unborn, State::open, "has begun already, or is not one of the program's");
  }
  Result<> check(const Graph::Join& join) {
    for (const int stream : join.children)
      if (stream == graph_.nodes[at_].stream) return wrong("a stream cannot join itself");
    return move(join.children, State::open, State::joined, "is not open here");
  }
  Result<> check(const Graph::Variable& variable) {
    if (variable.stream < 0 || variable.stream >= graph_.streams ||
        states_[static_cast<std::size_t>(variable.stream)] == State::unborn)
      return wrong(fmt::format("stream {} has not begun here", variable.stream));
    return success();
  }
  Result<> check(const node::Argument& argument) {
    for (const std::string& parameter : graph_.parameters)
      if (parameter == argument.name) return success();
    return wrong(fmt::format("{} is not one of the parameters", argument.name));
  }
  template <class T>
  Result<> check(const T&) {
    return success();
  }

  const Graph& graph_;
  std::vector<State> states_;
  std::size_t at_ = 0;
};

}  // namespace

Result<> Graph::check() const {
  if (streams < 1) return bad_request("a program has at least one stream", "streams");
  return Checker(*this).check();
}

std::string_view kind_of(const Graph::Content& content) {
  constexpr std::string_view kKinds[] = {"text",          "argument", "gen",      "select",      "role_begin",
                                         "role_end",      "media",    "variable", "scope_begin", "scope_end",
                                         "reasoning_end", "fork",     "join"};
  static_assert(std::size(kKinds) == std::variant_size_v<Graph::Content>);
  return kKinds[content.index()];
}

}  // namespace espalier::lang
