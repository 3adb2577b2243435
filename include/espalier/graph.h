// graph.h: a program as data: what it says, generates, chooses, forks and joins, in order.
//
// A graph is recorded by running a function on placeholders: trace(). Each state of the program is a stream; the nodes
// of a stream follow each other, and a node may need a variable of another stream. The nodes are listed in the order in
// which the function made them, which is one they can be carried out in. compiler.h makes it cheaper.
// Threads: values; trace() runs the function on its caller's.
// Fails:   from_json() and check(): bad_request naming the node and what is wrong with it; a graph from outside is not
//          trusted: sizes and nesting are limited, and streams that would wait for each other for ever are refused.
//          trace(): what the function throws by itself is thrown, and ProgramError bad_request for arguments that it
//          has not.
// Source:  SGLang, lang/tracer.py and lang/ir.py.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "espalier/program.h"

namespace espalier {

// The nodes of a traced program, its streams and the forks and joins between them.
struct Graph {
  static constexpr int kVersion = 1;
  static constexpr std::size_t kMostNodes = 20'000, kMostStreams = 5'000, kMostDepth = 256;

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
  struct Set {  // by the program itself, at once
    std::string name;
    std::vector<std::string> values;  // one, unless it is a list
    bool list = false;
  };
  struct ReasoningEnd {
    std::string model_type;
    std::vector<std::string> names;
  };
  // What the compiler puts in (lang/compiler).
  struct Sample {  // the generations of a group are samples of one call, made by the first that comes to it
    int group = 0, index = 0, of = 2;
    node::Gen gen;
  };
  struct Chain {  // the next nodes of this stream, generations and what stands between them, are one call
    int nodes = 2;
  };
  using Content =
      std::variant<node::Text, node::Argument, node::Gen, node::Select, node::RoleBegin, node::RoleEnd, node::Media,
                   Variable, node::ScopeBegin, node::ScopeEnd, node::MovableBegin, node::MovableEnd, Set, ReasoningEnd,
                   Fork, Join, Sample, Chain, node::ScoredText, node::Score>;
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

// What a function does, without a call. Arguments without a value are recorded where they are appended; a function that
// looks at one, or at a variable, cannot be followed any further: the graph ends there and says why.
// `known`: arguments that the graph has as constants. The others are its parameters.
Graph trace(const Function& function, const Arguments& known = {});

std::string as_text(const Graph& graph);  // one line a node, depth first: a fork's children below it, indented
std::string as_dot(const Graph& graph);   // Graphviz; dashed edges where a variable goes
// A drawing that explains itself: a column for each stream, time downwards, what may happen at once side by side.
std::string as_svg(const Graph& graph);

}  // namespace espalier
