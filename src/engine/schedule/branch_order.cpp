#include "engine/schedule/branch_order.h"

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <utility>

namespace espalier {
namespace {

constexpr std::uint32_t kTop = UINT32_MAX;  // above the first nodes of all scopes

struct Branch {
  int weight = 0;                       // waiting requests at or below it
  std::vector<std::uint32_t> children;  // that have any
  bool known = false, entered = false;
};
using Branches = boost::unordered_flat_map<std::uint32_t, Branch>;

// `weight` requests end at `end`: so many more lie below every node above it.
void add_path(const RadixTree& tree, NodeHandle end, int weight, Branches& branches) {
  for (NodeHandle at = end;;) {
    Branch& branch = branches[at.index];
    branch.weight += weight;
    const NodeHandle parent = tree.view(at).parent;
    const bool top = !tree.alive(parent) || tree.view(parent).begin == tree.view(parent).end;
    if (!std::exchange(branch.known, true)) branches[top ? kTop : parent.index].children.push_back(at.index);
    if (top) return;
    at = parent;
  }
}

// A node's own place comes behind those of its branches: who shares only the beginning must not come between those who
// share more, or the branches would push each other out of a small cache.
boost::unordered_flat_map<std::uint32_t, int> places_of(Branches& branches) {
  boost::unordered_flat_map<std::uint32_t, int> place;
  std::vector<std::uint32_t> open = {kTop};
  while (!open.empty()) {
    const std::uint32_t at = open.back();
    Branch& branch = branches[at];
    if (std::exchange(branch.entered, true)) {
      place.emplace(at, static_cast<int>(place.size()));
      open.pop_back();
      continue;
    }
    std::vector<std::uint32_t> children = branch.children;
    // The heaviest is put down last, so it is taken up first; equals by index.
    std::ranges::sort(children, [&](std::uint32_t a, std::uint32_t b) {
      return std::pair(branches[a].weight, b) < std::pair(branches[b].weight, a);
    });
    open.insert(open.end(), children.begin(), children.end());
  }
  return place;
}

}  // namespace

std::vector<int> branch_order(const RadixTree& tree, std::span<const NodeHandle> ends) {
  boost::unordered_flat_map<std::uint32_t, std::pair<NodeHandle, int>> weights;  // of the nodes at which some end
  for (const NodeHandle& end : ends) {
    if (!tree.alive(end)) continue;
    auto& [node, weight] = weights[end.index];
    node = end;
    ++weight;
  }
  Branches branches;
  for (const auto& [index, end] : weights) add_path(tree, end.first, end.second, branches);
  const auto place = places_of(branches);
  std::vector<int> out;
  out.reserve(ends.size());
  for (const NodeHandle& end : ends)
    out.push_back(tree.alive(end) ? place.at(end.index) : static_cast<int>(place.size()));
  return out;
}

}  // namespace espalier
