// constraint_graph.h: the automaton of a constraint as a graph that can be drawn, and how far a text goes in it.
//
// By bytes alone: no model and no vocabulary are needed, and nothing that texts under way use is touched.
// Threads: any. Fails: as espalier/grammar.h; a drawing has limits of its own, far below those of requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/error.h"
#include "espalier/grammar.h"

namespace espalier {

// States and what leads from one to the next. Most constraints have no end of states: a graph has the nearest ones.
struct AutomatonGraph {
  struct Edge {
    std::size_t from = 0, to = 0;
    std::string label;  // "[0-9]", "\"name\":"
  };
  struct Node {
    bool complete = false;     // the text may end here
    bool open = false;         // there is more behind it that is not drawn
    std::int64_t tokens = -1;  // that may come; -1: not counted
    int depth = 0;             // edges from the start
  };
  std::vector<Node> nodes;  // the start is the first
  std::vector<Edge> edges;
};

// How much of an automaton is followed for a drawing, and how long reading the constraint may take.
struct ConstraintGraphLimits {
  std::size_t states = 200;  // that are followed, before chains of single bytes become one edge
  std::chrono::milliseconds compile_time{20};
};

// A constraint as it is shown to somebody who writes it.
struct ConstraintGraph {
  AutomatonGraph graph;      // a chain of states with a single way on is one edge, and so are the bytes of a character
  std::size_t followed = 0;  // states, before that
  std::size_t accepted = 0;  // bytes of the text that was tried, from its first on, that may come
  bool complete = false;     // a text may end behind them
};

// `tried`: a text that is read as an output would be; may be empty.
Result<ConstraintGraph> draw_constraint(const Constraint& constraint, std::string_view tried,
                                        const ConstraintGraphLimits& limits = {});

}  // namespace espalier
