// replay.h: a graph carried out: the program that was traced, without its function.
//
// The nodes are appended to states in their order, which is the order the function would have appended them in; so the
// text, the calls and the values are those of the interpreter. Nothing waits: where the function waits for children to
// join them, the graph goes on, and what does not need them runs beside them.
// Threads: as Function::run; carry_out() never blocks. Fails: bad_request for a graph that is not whole; what goes
//          wrong while it runs is the state's error, ProgramError bad_request for a parameter without a value.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "espalier/graph.h"

namespace espalier::lang {

class SampleGroup;

// Appends nodes to states as they come; streams live as long as it does, or their calls.
class Replay {
 public:
  explicit Replay(std::shared_ptr<StateCore> own);  // stream 0
  ~Replay();
  // Requires: nodes that check() has found in order behind those before them, and a value for each argument in them.
  void append(const std::vector<Graph::Node>& nodes, const Arguments& arguments);
  // The state of a stream that has begun.
  const std::shared_ptr<StateCore>& core(int stream) const;
  std::vector<std::weak_ptr<StateCore>> cores() const;  // of all streams that have begun

 private:
  class Appender;
  struct Stream;
  std::vector<Stream> streams_;
  std::map<int, std::shared_ptr<SampleGroup>> groups_;
};

// The program as a function with the graph's parameters.
Result<Function> function_of(Graph graph);

}  // namespace espalier::lang
