// program_run.h: runs one program: its calls one after another where one needs the other's text, branches at once.
//
// Order:   start, once; then `done` is called once, when nothing of the program is under way any more.
// Threads: one. A run must outlive its calls: keep it until `done`.
// Fails:   a call that fails ends the program; its other branches make no further calls.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "bench/load/caller.h"
#include "bench/workload/program.h"

namespace espalier::bench {

struct ItemResult {
  bool ok = true;
  std::vector<std::string> outputs;  // what the model wrote (or selected), by call number; unset where not reached
};

class ProgramRun {
 public:
  using Done = std::function<void(ItemResult)>;

  ProgramRun(const Program& program, std::size_t item, Caller& caller, Done done);
  ~ProgramRun();
  void start();

 private:
  struct Branch;
  using Value = std::shared_ptr<const std::string>;

  void run_ready();
  void step(Branch& branch);
  bool operate(Branch& branch, const Op& op);  // false: the branch waits
  void begin_gen(Branch& branch, const GenOp& gen);
  void begin_select(Branch& branch, const SelectOp& select);
  void end_call(Branch& branch, const std::string& var, std::size_t number, const std::string& output,
                const std::string& value, bool append);
  void begin_fork(Branch& branch, const ForkOp& fork);
  void end_branch(Branch& branch);
  void fail();
  void end_if_idle();

  const Program& program_;
  const std::size_t item_;
  Caller& caller_;
  Done done_;
  ItemResult result_;
  std::map<Branch*, std::unique_ptr<Branch>> branches_;
  std::deque<Branch*> ready_;
  int under_way_ = 0;  // calls
  bool running_ = false;
};

}  // namespace espalier::bench
