// subprocess.h: runs a program and waits for it, keeping the end of what it says.
//
// A cancelled one goes with all it started (base/system/child_process.h).
// Threads: any. Fails: not_found (no such program), cancelled, internal. A bad exit code is no Error.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "espalier/error.h"

namespace espalier::store {

struct Command {
  std::vector<std::string> arguments;                            // [0] is looked up in PATH
  std::vector<std::pair<std::string, std::string>> environment;  // added to ours
  std::vector<std::string> hidden_variables;                     // taken out of it
  std::stop_token stop;
  std::function<void()> tick;  // about ten times a second while it runs
};

struct Finished {
  int exit_code = 0;   // 128 + signal when a signal ended it
  std::string output;  // the last 16 KiB of stdout and stderr together
};

Result<Finished> run_command(const Command& command);

}  // namespace espalier::store
