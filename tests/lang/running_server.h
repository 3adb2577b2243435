// running_server.h: the built `espalier serve` on a small golden model, for tests of what talks to it.
//
// ESPALIER_BINARY names the program (ctest sets it). Threads: one. Fails: a test that cannot start it fails.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "base/system/child_process.h"
#include "base/system/unique_fd.h"
#include "testing/data.h"
#include "testing/temp_folder.h"

namespace espalier::testing {

class RunningServer {
 public:
  explicit RunningServer(std::vector<std::string> flags = {}) {
    const char* binary = std::getenv("ESPALIER_BINARY");
    if (binary == nullptr) throw std::runtime_error("ESPALIER_BINARY names no program");
    log_ = folder_.path() / "log";
    const UniqueFd output(::open(log_.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600));
    std::vector<std::string> command = {binary, "serve", data("goldens/models/llama3-tied-gqa").string()};
    for (const char* flag : {"--port", "0", "--threads", "1", "--activations", "f32"}) command.emplace_back(flag);
    command.insert(command.end(), flags.begin(), flags.end());
    auto started = ChildProcess::start(std::move(command), output.get());
    if (!started.ok()) throw std::runtime_error(started.error().message);
    process_.emplace(std::move(*started));
    wait_ready();
  }

  const std::string& url() const { return url_; }
  std::string log() const { return read_file(log_); }

 private:
  void wait_ready() {
    constexpr std::string_view ready = "espalier: ready on ";
    for (int i = 0; i < 3000 && !process_->exit_code(); ++i) {
      const std::string text = log();
      const auto at = text.find(ready);
      if (at != std::string::npos && text.find('\n', at) != std::string::npos) {
        url_ = text.substr(at + ready.size(), text.find_first_of(" \n", at + ready.size()) - at - ready.size());
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    throw std::runtime_error("the server did not become ready:\n" + log());
  }

  TempFolder folder_;
  std::filesystem::path log_;
  std::optional<ChildProcess> process_;
  std::string url_;
};

}  // namespace espalier::testing
