// server_process.h: a server that the comparison starts itself, and ends.
//
// It runs in a process group of its own, its output goes to a file. The destructor ends it: SIGTERM, and SIGKILL when
// that is not enough within the grace time.
// Units:   seconds.
// Threads: one.
// Fails:   not_found (no such program), internal.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "espalier/error.h"

namespace espalier::bench {

class ServerProcess {
 public:
  // `command` as a shell would split it into words; each "{port}" is replaced. No shell is run.
  static Result<ServerProcess> start(const std::string& command, int port, const std::string& log_path);
  ServerProcess(ServerProcess&& other) noexcept;
  ServerProcess& operator=(ServerProcess&& other) noexcept;
  ~ServerProcess() { stop(); }

  pid_t pid() const { return pid_; }
  bool running();
  void stop();
  const std::string& log_path() const { return log_path_; }

 private:
  ServerProcess(pid_t pid, std::string log_path) : pid_(pid), log_path_(std::move(log_path)) {}
  pid_t pid_ = 0;  // 0: ended
  std::string log_path_;
};

// Words apart by blanks; '...' and "..." keep blanks, a backslash keeps the next character.
Result<std::vector<std::string>> split_words(const std::string& command);

// A port of 127.0.0.1 on which nothing listens now.
Result<int> free_port();

}  // namespace espalier::bench
