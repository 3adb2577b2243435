#include "lang/graph/reads.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/json/json.h"
#include "lang/compiler/streams.h"

namespace espalier::lang {
namespace {

Error wrong(std::size_t at, const std::string& why) {
  const std::string place = fmt::format("nodes[{}]", at);
  return bad_request(fmt::format("{}: {}", place, why), place);
}

}  // namespace

Reads::Reads(const Graph& graph)
    : graph_(graph), streams_(static_cast<std::size_t>(graph.streams)), waits_(graph.nodes.size()) {}

Result<> Reads::take(std::size_t at) {
  const auto& [stream, content] = graph_.nodes[at];
  wait(at, of(stream).last);
  if (of(stream).last < 0 && of(stream).from >= 0) wait(at, static_cast<int>(of(stream).begin));
  if (const auto* fork = std::get_if<Graph::Fork>(&content)) {
    for (const int child : fork->children) {
      of(child).from = stream;
      of(child).begin = at;
    }
  }
  if (const auto* variable = std::get_if<Graph::Variable>(&content); variable != nullptr && variable->stream != stream)
    ESP_CHECK(read(at, *variable));
  if (const auto* join_node = std::get_if<Graph::Join>(&content)) {
    for (const int child : std::set<int>(join_node->children.begin(), join_node->children.end())) {
      wait(at, of(child).last);
      if (join_node->mode == JoinMode::gather_variable) join(stream, child);
    }
  }
  auto& names = of(stream).names;
  if (std::string name = name_set_by(content); !name.empty()) names.try_emplace(std::move(name), at);
  if (const auto* scope = std::get_if<node::ScopeBegin>(&content)) {
    names.try_emplace(scope->name, at);
    ++of(stream).open[scope->name];
  }
  if (const auto* scope = std::get_if<node::ScopeEnd>(&content)) end_scope(at, scope->name);
  if (const auto* reasoning = std::get_if<Graph::ReasoningEnd>(&content))
    for (const std::string& name : reasoning->names) names.try_emplace(name + "_reasoning_content", at);
  of(stream).last = static_cast<int>(at);
  return success();
}

// The stream that has a stream's names now. What is passed on the way is led there at once.
int Reads::home(int stream) {
  int end = stream;
  while (of(end).joined >= 0) end = of(end).joined;
  while (of(stream).joined >= 0) stream = std::exchange(of(stream).joined, end);
  return end;
}

// Up the streams that it was forked off, in each as far as it had come then. A stream that was joined has its names
// where they went, among others: too many there are no harm, since the read itself finds out.
bool Reads::has(int stream, const std::string& name) {
  std::size_t before = graph_.nodes.size();
  while (stream >= 0) {
    const auto& names = of(home(stream)).names;
    const auto found = names.find(name);
    if (found != names.end() && found->second < before) return true;
    before = of(stream).begin;
    stream = of(stream).from;
  }
  return false;
}

// The smaller set goes to the larger, so a name moves seldom.
void Reads::join(int into, int child) {
  auto& mine = of(into).names;
  auto& theirs = of(child).names;
  if (mine.size() < theirs.size()) mine.swap(theirs);
  mine.merge(theirs);
  theirs.clear();
  of(child).joined = into;
}

Result<> Reads::read(std::size_t at, const Graph::Variable& variable) {
  const Stream& source = of(variable.stream);
  if (!has(variable.stream, variable.name))
    return wrong(at, fmt::format("it reads {} of stream {}, which nothing before it sets there",
                                 in_quotes(variable.name, 40), variable.stream));
  wait(at, source.last);
  const auto open = source.open.find(variable.name);
  if (open != source.open.end() && open->second > 0)
    opened_[{variable.stream, variable.name}].push_back({at, open->second});
  return success();
}

void Reads::end_scope(std::size_t at, const std::string& name) {
  const int stream = graph_.nodes[at].stream;
  const auto open = of(stream).open.find(name);
  if (open == of(stream).open.end() || open->second == 0) return;
  --open->second;
  const auto readers = opened_.find({stream, name});
  if (readers == opened_.end()) return;
  std::erase_if(readers->second, [&](Open& one) {
    if (--one.scopes > 0) return false;
    wait(one.reader, static_cast<int>(at));
    forward_ = true;
    return true;
  });
}

Result<> Reads::finish() const {
  for (const auto& [scope, readers] : opened_) {
    if (readers.empty()) continue;
    return wrong(readers.front().reader, fmt::format("it reads {} of stream {}, a scope that never ends",
                                                     in_quotes(scope.second, 40), scope.first));
  }
  return forward_ ? find_ring() : success();
}

// Takes out what waits for nothing, again and again; what stays waits for each other.
Result<> Reads::find_ring() const {
  std::vector<std::vector<std::size_t>> waiters(waits_.size());
  std::vector<std::size_t> left(waits_.size()), free;
  for (std::size_t at = 0; at < waits_.size(); ++at) {
    left[at] = waits_[at].size();
    for (const std::size_t other : waits_[at]) waiters[other].push_back(at);
    if (left[at] == 0) free.push_back(at);
  }
  std::vector<bool> over(waits_.size());
  while (!free.empty()) {
    const std::size_t at = free.back();
    free.pop_back();
    over[at] = true;
    for (const std::size_t waiter : waiters[at])
      if (--left[waiter] == 0) free.push_back(waiter);
  }
  const auto inside = std::ranges::find(over, false);
  return inside == over.end() ? success() : Result<>(ring(static_cast<std::size_t>(inside - over.begin()), over));
}

// From a node that is not over along the waits, until one comes again.
Error Reads::ring(std::size_t inside, const std::vector<bool>& over) const {
  std::vector<std::size_t> path;
  std::vector<bool> seen(waits_.size());
  for (; !seen[inside]; inside = *std::ranges::find_if(waits_[inside], [&](std::size_t at) { return !over[at]; })) {
    seen[inside] = true;
    path.push_back(inside);
  }
  std::vector<std::string> reads;
  std::size_t first = inside;
  for (auto at = std::ranges::find(path, inside); at != path.end(); ++at) {
    const auto* variable = std::get_if<Graph::Variable>(&graph_.nodes[*at].content);
    if (variable == nullptr || variable->stream == graph_.nodes[*at].stream) continue;
    if (reads.empty()) first = *at;
    reads.push_back(
        fmt::format("nodes[{}] reads {} of stream {}", *at, in_quotes(variable->name, 40), variable->stream));
  }
  constexpr std::size_t kMostNamed = 8;
  if (reads.size() > kMostNamed) reads.resize(kMostNamed);
  return wrong(first, fmt::format("streams wait for each other and would never go on: {}", fmt::join(reads, ", ")));
}

}  // namespace espalier::lang
