// drawing.h: a graph for people: as lines of text, and in the language of Graphviz.
// Threads: pure.
#pragma once

#include <string>

#include "lang/graph/graph.h"

namespace espalier::lang {

// One line a node, depth first: a fork's children stand below it, indented.
std::string as_text(const Graph& graph);

// DOT: a column for each stream; dashed edges where a variable goes.
std::string as_dot(const Graph& graph);

}  // namespace espalier::lang
