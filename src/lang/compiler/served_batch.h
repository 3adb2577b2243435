// served_batch.h: the runs of a batch as requests to a server that carries out whole programs, many in each.
//
// Threads: begin(): one, in the order of the items. Fails: begin(): as Function::run. A request that the server refuses
// is no failure: its runs, and all later ones, are made call by call.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "espalier/compiler.h"
#include "lang/batch/served_runs.h"

namespace espalier::lang {

// A program as a server is sent it.
class ServedProgram {
 public:
  // None: the back end serves no programs, or not such a one: what has no form in JSON (pictures, a method of choosing
  // of one's own), a turn that stays open at the end. `graph`: before it has anything in it that is for one back end.
  static std::optional<ServedProgram> of(const Graph& graph, const CompileOptions& options);

  // The request for these runs.
  std::shared_ptr<ServedRuns> begin(std::span<const Arguments> items) const;
  State run(std::shared_ptr<ServedRuns> runs, std::size_t number, const RunOptions& options) const;
  std::size_t most_runs() const { return most_runs_; }
  bool takes(const Arguments& arguments) const;  // exactly what it has parameters for

 private:
  std::string name_;
  std::vector<std::string> parameters_, names_;
  Json body_;
  std::size_t most_runs_ = 0;  // of one request
  std::shared_ptr<ProgramServer> server_;
};

// Sends the items of a batch to a program server, many in one request, and hands out their states.
class ServedBatch {
 public:
  using Begin = std::function<State(const Arguments&)>;

  // `at_once`: runs of one request, at most. `otherwise`: how a run begins that is made call by call.
  ServedBatch(ServedProgram program, std::vector<Arguments> items, std::size_t at_once, RunOptions options,
              Begin otherwise);
  ~ServedBatch();
  ServedBatch(const ServedBatch&) = delete;
  ServedBatch& operator=(const ServedBatch&) = delete;

  State begin(std::size_t item);

 private:
  void request(std::size_t first);

  const ServedProgram program_;
  const std::vector<Arguments> items_;
  const std::size_t at_once_;
  const RunOptions options_;
  const Begin otherwise_;
  std::shared_ptr<ServedRuns> runs_;  // of the request that was made last; null: call by call
  std::size_t first_ = 0, end_ = 0;   // its items
  bool refused_ = false;
};

}  // namespace espalier::lang
