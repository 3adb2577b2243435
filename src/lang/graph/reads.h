// reads.h: whether what the streams of a graph read of each other is there when they come to it, or will be.
//
// A stream that appends a variable of another one waits for the nodes before it in the list that set it. So two can
// wait for each other only around a scope that is still open where its variable is read.
// Order:   take() for each node, in the list's order, then finish(). The first Error is the last call.
// Threads: one. Fails: bad_request naming the nodes, for a variable that nothing before sets, a scope that is read and
//          never ends, and streams that would wait for each other for ever.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "espalier/graph.h"

namespace espalier::lang {

// Checks, node by node, that no streams of a graph wait for each other.
class Reads {
 public:
  explicit Reads(const Graph& graph);

  Result<> take(std::size_t at);  // Requires: the node's streams are there
  Result<> finish() const;

 private:
  struct Stream {
    std::map<std::string, std::size_t> names;  // and the first node that sets each
    std::map<std::string, int> open;           // scopes, by name
    int from = -1;                             // forked off this one,
    std::size_t begin = 0;                     // by this node
    int joined = -1;                           // where its names are now
    int last = -1;                             // its last node so far
  };
  struct Open {  // a read that waits for scopes to end
    std::size_t reader = 0;
    int scopes = 0;
  };

  Stream& of(int stream) { return streams_[static_cast<std::size_t>(stream)]; }
  const Stream& of(int stream) const { return streams_[static_cast<std::size_t>(stream)]; }
  int home(int stream);
  bool has(int stream, const std::string& name);
  void join(int into, int child);
  Result<> read(std::size_t at, const Graph::Variable& variable);
  void end_scope(std::size_t at, const std::string& name);
  void wait(std::size_t at, int for_node) {
    if (for_node >= 0) waits_[at].push_back(static_cast<std::size_t>(for_node));
  }
  Result<> find_ring() const;
  Error ring(std::size_t inside, const std::vector<bool>& over) const;

  const Graph& graph_;
  std::vector<Stream> streams_;
  std::vector<std::vector<std::size_t>> waits_;                      // by node: for which others
  std::map<std::pair<int, std::string>, std::vector<Open>> opened_;  // by stream and name
  bool forward_ = false;                                             // some node waits for one behind it
};

}  // namespace espalier::lang
