// child_process.h: a program that runs in a process group of its own, so that it goes with all it started.
//
// It gets no input, none of our descriptors but its output, and fresh signal handling. No shell is involved.
// Threads: one. Fails: not_found (no such program), internal.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "espalier/error.h"

namespace espalier {

// A running program with its whole process group; dropping it ends the group.
class ChildProcess {
 public:
  // arguments[0] is looked up in PATH; `output` (a descriptor) becomes stdout and stderr; `environment` holds lines
  // NAME=value, none = ours.
  static Result<ChildProcess> start(std::vector<std::string> arguments, int output,
                                    std::optional<std::vector<std::string>> environment = {});
  ChildProcess(ChildProcess&& other) noexcept : pid_(std::exchange(other.pid_, 0)), code_(other.code_) {}
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ~ChildProcess() { end({}); }

  pid_t pid() const { return pid_; }  // also the group's number; 0 once it has ended
  // Once it has ended; 128 + signal when a signal ended it. What stayed behind of its group is ended too.
  std::optional<int> exit_code();
  // SIGTERM to the group, and SIGKILL when that has not ended it within `grace`.
  void end(std::chrono::milliseconds grace);

 private:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}
  pid_t pid_ = 0;
  int code_ = 0;
};

}  // namespace espalier
