// Branches of a fork that say the same and draw nothing at random come out the same: one of them is carried out, and
// stands for the others wherever they are read or joined.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "lang/compiler/branch_comparison.h"
#include "lang/compiler/passes.h"

namespace espalier::lang {
namespace {

class Merger {
 public:
  Merger(Graph& graph, const GenOptions& defaults, PassReport& report)
      : graph_(graph),
        comparison_(graph, defaults),
        report_(report),
        stands_for_(static_cast<std::size_t>(graph.streams)) {
    calls_.resize(stands_for_.size());
    for (const Graph::Node& one : graph.nodes)
      if (is_call(one.content)) ++calls_[static_cast<std::size_t>(one.stream)];
    for (std::size_t i = 0; i < stands_for_.size(); ++i) stands_for_[i] = static_cast<int>(i);
    joined_by_.assign(stands_for_.size(), SIZE_MAX);
    for (std::size_t i = 0; i < graph.nodes.size(); ++i)
      if (const auto* join = std::get_if<Graph::Join>(&graph.nodes[i].content))
        for (const int child : join->children) joined_by_[static_cast<std::size_t>(child)] = i;
  }

  void run() {
    for (const Graph::Node& one : graph_.nodes)
      if (const auto* fork = std::get_if<Graph::Fork>(&one.content)) compare(*fork);
    rename();
  }

 private:
  void compare(const Graph::Fork& fork) {
    std::map<std::pair<std::string, std::size_t>, Branch> first;
    int merged = 0;
    for (const int child : fork.children) {
      auto branch = comparison_.branch_of(child);
      if (!branch || !branch->determined) continue;
      const auto joined_by = joined_by_[static_cast<std::size_t>(child)];
      const auto [same, is_first] = first.try_emplace({branch->form, joined_by}, *branch);
      if (is_first) continue;
      for (std::size_t i = 0; i < branch->streams.size(); ++i) {
        const auto stream = static_cast<std::size_t>(branch->streams[i]);
        stands_for_[stream] = same->second.streams[i];
        report_.calls += std::exchange(calls_[stream], 0);
      }
      ++merged;
    }
    if (merged > 0)
      report_.changes.push_back(fmt::format("{} of {} branches say what another says", merged, fork.children.size()));
  }

  int one_for(int stream) const {
    int now = stream;
    while (stands_for_[static_cast<std::size_t>(now)] != now) now = stands_for_[static_cast<std::size_t>(now)];
    return now;
  }

  void rename() {
    std::vector<bool> gone;
    for (Graph::Node& one : graph_.nodes) {
      gone.push_back(one_for(one.stream) != one.stream);
      if (auto* variable = std::get_if<Graph::Variable>(&one.content)) variable->stream = one_for(variable->stream);
      if (auto* join = std::get_if<Graph::Join>(&one.content))
        for (int& child : join->children) child = one_for(child);
      if (auto* fork = std::get_if<Graph::Fork>(&one.content))
        std::erase_if(fork->children, [this](int child) { return one_for(child) != child; });
    }
    remove_nodes(graph_, gone);
  }

  Graph& graph_;
  const BranchComparison comparison_;
  PassReport& report_;
  std::vector<int> stands_for_, calls_;
  std::vector<std::size_t> joined_by_;
};

}  // namespace

void merge_equal(Graph& graph, const GenOptions& defaults, PassReport& report) {
  Merger(graph, defaults, report).run();
}

}  // namespace espalier::lang
