// streams.h: a graph by its streams, as the passes look at it.
//
// Threads: values; they hold numbers of nodes, and are good until the graph's nodes change.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "espalier/graph.h"

namespace espalier::lang {

// The numbers of each stream's nodes, in order.
std::vector<std::vector<std::size_t>> nodes_by_stream(const Graph& graph);

// The stream that each was forked off; -1 for the program's own, and for those that never begin.
std::vector<int> parents(const Graph& graph);

// Takes out the nodes that are marked, and forks and joins of streams without nodes that nobody reads.
void remove_nodes(Graph& graph, const std::vector<bool>& gone);

const node::Gen* gen_of(const Graph::Content& content);  // of a Gen or a Sample; else null
// The name that a node sets; empty: none.
std::string name_set_by(const Graph::Content& content);
// What the program's own stream has in the end: set by itself, or gathered from streams that it joins.
std::set<std::string> names_of_program(const Graph& graph);
// It asks a back end for something that it may set a variable to.
bool is_call(const Graph::Content& content);
// Nothing is called, and what it adds to the text is the same in every run.
bool is_literal(const Graph::Content& content);

}  // namespace espalier::lang
