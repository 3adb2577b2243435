// wiring.h: what pictures of a graph show: a line for each node, and what leads from one to another.
// Threads: pure functions. Requires: a graph that checks.
#pragma once

#include <string>
#include <vector>

#include "espalier/graph.h"

namespace espalier::lang {

// `most`: bytes of a literal that are shown.
std::string label_of(const Graph::Content& content, std::size_t most);

// A line from one node of a picture to another.
struct Wire {
  enum class Kind { next, fork, join, variable };
  std::size_t from = 0, to = 0;  // numbers of nodes; `from` comes first in the list
  Kind kind = Kind::next;
};
// By their ends. A variable comes from the node that set it last; one that a join brought, from the join.
std::vector<Wire> wires_of(const Graph& graph);

}  // namespace espalier::lang
