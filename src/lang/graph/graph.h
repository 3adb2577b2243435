// graph.h: a program as data: what it says, generates, chooses, forks and joins, in order.
//
// A graph is recorded by running a function on placeholders (tracer.h). Each state of the program is a stream; the
// nodes of a stream follow each other, and a node may need a variable of another stream. The nodes are listed in the
// order in which the function made them, which is one they can be carried out in. Threads: values. Fails:   from_json()
// and check(): bad_request naming the node and what is wrong with it; a graph from outside is not
//          trusted: sizes and nesting are limited.
// Source:  reference/sglang-language.md sections 9 and 10.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "espalier/program.h"

namespace espalier::lang {

struct Graph {
  static constexpr int kVersion = 1;
  static constexpr std::size_t kMostNodes = 100'000, kMostStreams = 10'000;

  struct Fork {
    std::vector<int> children;  // streams that begin here
  };
  struct Join {
    std::vector<int> children;
    JoinMode mode = JoinMode::gather_variable;
  };
  struct Variable {  // of a stream, appended as text
    std::string name;
    int stream = 0;
  };
  struct ReasoningEnd {
    std::string model_type;
    std::vector<std::string> names;
  };
  using Content = std::variant<node::Text, node::Argument, node::Gen, node::Select, node::RoleBegin, node::RoleEnd,
                               node::Media, Variable, node::ScopeBegin, node::ScopeEnd, ReasoningEnd, Fork, Join>;
  struct Node {
    int stream = 0;
    Content content;
  };

  std::string name;
  std::vector<std::string> parameters;  // that were left open
  int streams = 1;                      // 0 is the program's own state
  std::vector<Node> nodes;
  // Why the trace ended before the function did; empty: it is the whole program. What follows depends on values.
  std::string ends_because;

  Result<> check() const;
  Json to_json() const;
  static Result<Graph> from_json(const Json& json);
};

std::string_view kind_of(const Graph::Content& content);  // "text", "gen", ...

}  // namespace espalier::lang
