// server_process.h: a server that the comparison starts itself, and ends.
//
// Its output goes to a file. The destructor ends it and all it started: SIGTERM, and SIGKILL when that is not enough
// within the grace time.
// Units:   seconds.
// Threads: one.
// Fails:   not_found (no such program), internal.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/system/child_process.h"
#include "espalier/error.h"

namespace espalier::bench {

class ServerProcess {
 public:
  // `command` as a shell would split it into words; each "{port}" is replaced. No shell is run.
  static Result<ServerProcess> start(const std::string& command, int port, const std::string& log_path);
  ServerProcess(ServerProcess&&) noexcept = default;
  ServerProcess& operator=(ServerProcess&&) noexcept = default;
  ~ServerProcess() { stop(); }

  pid_t pid() const { return child_.pid(); }
  bool running() { return !child_.exit_code(); }
  void stop();
  const std::string& log_path() const { return log_path_; }

 private:
  ServerProcess(ChildProcess child, std::string log_path) : child_(std::move(child)), log_path_(std::move(log_path)) {}
  ChildProcess child_;
  std::string log_path_;
};

// Words apart by blanks; '...' and "..." keep blanks, a backslash keeps the next character.
Result<std::vector<std::string>> split_words(const std::string& command);

// A port of 127.0.0.1 on which nothing listens now.
Result<int> free_port();

}  // namespace espalier::bench
