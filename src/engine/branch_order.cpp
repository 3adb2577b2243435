#include "engine/branch_order.h"

#include <algorithm>
#include <map>

namespace espalier {
namespace {

struct Branch {
  int weight = 0;                       // waiting requests at or below it
  std::vector<std::uint32_t> children;  // that have any
  bool known = false;
};

}  // namespace

std::vector<int> branch_order(const RadixTree& tree, std::span<const NodeHandle> ends) {
  constexpr std::uint32_t kTop = UINT32_MAX;  // above the first nodes of all scopes
  std::map<std::uint32_t, Branch> branches;
  for (const NodeHandle& end : ends) {
    if (!tree.alive(end)) continue;
    NodeHandle at = end;
    for (;;) {
      Branch& branch = branches[at.index];
      ++branch.weight;
      const NodeHandle parent = tree.view(at).parent;
      const bool top = !tree.alive(parent) || tree.view(parent).begin == tree.view(parent).end;
      if (!std::exchange(branch.known, true)) branches[top ? kTop : parent.index].children.push_back(at.index);
      if (top) break;
      at = parent;
    }
  }
  std::map<std::uint32_t, int> place;
  std::vector<std::uint32_t> open = {kTop};
  while (!open.empty()) {
    const std::uint32_t at = open.back();
    open.pop_back();
    place.emplace(at, static_cast<int>(place.size()));
    std::vector<std::uint32_t>& children = branches[at].children;
    // The heaviest is put down last, so it is taken up first; equals by index.
    std::ranges::sort(children, [&](std::uint32_t a, std::uint32_t b) {
      return std::pair(branches[a].weight, b) < std::pair(branches[b].weight, a);
    });
    open.insert(open.end(), children.begin(), children.end());
  }
  std::vector<int> out;
  for (const NodeHandle& end : ends)
    out.push_back(tree.alive(end) ? place.at(end.index) : static_cast<int>(place.size()));
  return out;
}

}  // namespace espalier
