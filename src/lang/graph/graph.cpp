#include "espalier/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "lang/graph/reads.h"

namespace espalier {
namespace {

// Follows the nodes in order: which streams have begun, which have been joined.
class Checker {
 public:
  explicit Checker(const Graph& graph)
      : graph_(graph), reads_(graph), states_(static_cast<std::size_t>(graph.streams), State::unborn) {
    states_[0] = State::open;
  }

  Result<> check() {
    for (; at_ < graph_.nodes.size(); ++at_) {
      const Graph::Node& one = graph_.nodes[at_];
      if (!is(one.stream, State::open)) return wrong(fmt::format("its stream {} is not open here", one.stream));
      ESP_CHECK(check_scored(one));
      ESP_CHECK(std::visit([&](const auto& content) { return check(content); }, one.content));
      ESP_CHECK(reads_.take(at_));
    }
    for (const auto& [stream, scored] : scored_)
      if (scored.texts > 0)
        return bad_request(fmt::format("stream {} ends inside a text that is scored", stream), "nodes");
    return reads_.finish();
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
    const std::size_t depth = depth_[graph_.nodes[at_].stream] + 1;
    if (depth > Graph::kMostDepth) return wrong(fmt::format("forks nest {} deep at most", Graph::kMostDepth));
    for (const int child : fork.children) depth_[child] = depth;
    return move(fork.children, State::unborn, State::open, "has begun already, or is not one of the program's");
  }
  // A stream may stand there more than once: for others that were the same.
  Result<> check(const Graph::Join& join) {
    joined_ += join.children.size();
    if (joined_ > Graph::kMostNodes) return wrong(fmt::format("joins name {} streams at most", Graph::kMostNodes));
    std::vector<int> once = join.children;
    std::ranges::sort(once);
    once.erase(std::ranges::unique(once).begin(), once.end());
    for (const int stream : once)
      if (stream == graph_.nodes[at_].stream) return wrong("a stream cannot join itself");
    return move(once, State::open, State::joined, "is not open here");
  }
  Result<> check(const Graph::Sample& sample) {
    Group& group = groups_[sample.group];
    if (sample.of < 2 || sample.index < 0 || sample.index >= sample.of || (group.of != 0 && group.of != sample.of))
      return wrong(fmt::format("it is no sample of group {}", sample.group));
    group.of = sample.of;
    if (!group.taken.insert(sample.index).second) return wrong("another node has this sample");
    return success();
  }
  // What a chain may hold follows it in its stream.
  Result<> check(const Graph::Chain& chain) {
    int left = chain.nodes;
    if (left < 2) return wrong("a chain has at least two nodes");
    for (std::size_t i = at_ + 1; i < graph_.nodes.size() && left > 0; ++i) {
      const Graph::Node& one = graph_.nodes[i];
      if (one.stream != graph_.nodes[at_].stream) continue;
      const std::string_view kind = kind_of(one.content);
      if (kind != "text" && kind != "gen" && kind != "role_begin" && kind != "role_end" && kind != "scope_begin" &&
          kind != "scope_end")
        return wrong(fmt::format("a chain holds no {}", kind));
      --left;
    }
    return left == 0 ? success() : wrong("its stream has not as many nodes");
  }
  Result<> check(const Graph::Variable& variable) {
    if (variable.stream < 0 || variable.stream >= graph_.streams ||
        states_[static_cast<std::size_t>(variable.stream)] == State::unborn)
      return wrong(fmt::format("stream {} has not begun here", variable.stream));
    return success();
  }
  Result<> check(const Graph::Set& set) {
    return set.list || set.values.size() == 1 ? success() : wrong("it sets one value, or a list");
  }
  // Between a scored text and its score stands what is text by itself.
  Result<> check_scored(const Graph::Node& one) {
    const auto open = scored_.find(one.stream);
    if (open == scored_.end() || open->second.texts == 0) return success();
    const std::string_view kind = kind_of(one.content);
    Scored& scored = open->second;
    const bool is_value = kind == "argument" || kind == "variable", ends = kind == "scored_text" || kind == "score";
    if ((scored.each == Each::opened && !is_value) || (scored.each == Each::there && !ends))
      return wrong("texts that are scored each by itself are one argument or one variable");
    if (scored.each == Each::opened) scored.each = Each::there;
    if (kind == "text" || kind == "argument" || kind == "variable" || kind == "scored_text" || kind == "score")
      return success();
    return wrong(fmt::format("a text that is scored holds no {}", kind));
  }
  Result<> check(const node::ScoredText& text) {
    Scored& scored = scored_[graph_.nodes[at_].stream];
    ++scored.texts;
    scored.each = text.each ? Each::opened : Each::none;
    return success();
  }
  Result<> check(const node::Score& score) {
    const int texts = std::exchange(scored_[graph_.nodes[at_].stream], {}).texts;
    const int least = score.kind == node::Score::Kind::embed ? 1 : 2;
    if (score.texts < least || score.texts != texts)
      return wrong(fmt::format("it is of {} texts, {} stand before it; {} is the least", score.texts, texts, least));
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

  struct Group {
    int of = 0;
    std::set<int> taken;
  };
  enum class Each { none, opened, there };  // whether the last text is a list, and whether that has come
  struct Scored {
    int texts = 0;
    Each each = Each::none;
  };

  const Graph& graph_;
  lang::Reads reads_;
  std::vector<State> states_;
  std::map<int, Group> groups_;
  std::map<int, std::size_t> depth_;
  std::map<int, Scored> scored_;  // by stream: texts whose score is still to come
  std::size_t at_ = 0, joined_ = 0;
};

}  // namespace

Result<> Graph::check() const {
  if (streams < 1) return bad_request("a program has at least one stream", "streams");
  return Checker(*this).check();
}

std::string_view kind_of(const Graph::Content& content) {
  constexpr std::string_view kKinds[] = {"text",          "argument",    "gen",      "select",        "role_begin",
                                         "role_end",      "media",       "variable", "scope_begin",   "scope_end",
                                         "movable_begin", "movable_end", "set",      "reasoning_end", "fork",
                                         "join",          "sample",      "chain",    "scored_text",   "score"};
  static_assert(std::size(kKinds) == std::variant_size_v<Graph::Content>);
  return kKinds[content.index()];
}

}  // namespace espalier
