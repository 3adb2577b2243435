// branch_comparison.h: when two branches of a program are bound to come out the same, or begin the same.
//
// Threads: pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lang/compiler/streams.h"

namespace espalier::lang {

// A stream with all that was forked off it, streams numbered as they were met. Two that read the same say the same, if
// what they generate is not drawn at random.
struct Branch {
  std::string form;
  std::vector<int> streams;  // its own, then those below it in the order in which they begin
  bool determined = true;    // nothing in it is drawn at random
};

// Writes branches of a graph in a form that is equal for equal branches.
class BranchComparison {
 public:
  // `defaults`: of the runs. Both outlive it.
  BranchComparison(const Graph& graph, const GenOptions& defaults);
  // None: it uses something that cannot be compared.
  std::optional<Branch> branch_of(int stream) const;

 private:
  class Reader;
  const Graph& graph_;
  const GenOptions& defaults_;
  const std::vector<std::vector<std::size_t>> by_stream_;
  std::map<std::pair<int, std::string>, int> times_set_;
};

// What a stream says up to its first generation, and how it generates then. None: something else comes first.
struct Beginning {
  std::string form;
  std::size_t generation = 0;  // the node's number
};
std::optional<Beginning> beginning_of(const Graph& graph, const std::vector<std::size_t>& nodes);

}  // namespace espalier::lang
