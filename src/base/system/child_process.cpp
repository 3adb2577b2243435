#include "base/system/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>
#include <thread>

#include "base/system/child_descriptors.h"

namespace espalier {
namespace {

using namespace std::chrono_literals;

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

// What the child begins with: its descriptors, its own group, no signal blocked or ignored.
class SpawnPlan {
 public:
  explicit SpawnPlan(int output) {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, output, 1);
    posix_spawn_file_actions_adddup2(&actions, output, 2);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, static_cast<short>(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                                             POSIX_SPAWN_SETSIGDEF | spawn_without_descriptors()));
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};
};

}  // namespace

Result<ChildProcess> ChildProcess::start(std::vector<std::string> arguments, int output,
                                         std::optional<std::vector<std::string>> environment) {
  if (arguments.empty()) return internal_error("no program to run");
  const SpawnPlan plan(output);
  pid_t pid = 0;
  const int code =
      ::posix_spawnp(&pid, arguments[0].c_str(), &plan.actions, &plan.attributes, pointers(arguments).data(),
                     environment ? pointers(*environment).data() : environment_lines());
  if (code == ENOENT || code == EACCES || code == ENOTDIR)
    return Error{Error::Kind::not_found, fmt::format("cannot run {}: is it installed?", arguments[0]), {}, {}};
  if (code != 0)
    return internal_error(fmt::format("cannot run {}: {}", arguments[0], std::generic_category().message(code)));
  return ChildProcess(pid);
}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  if (this == &other) return *this;
  end({});
  pid_ = std::exchange(other.pid_, 0);
  code_ = other.code_;
  return *this;
}

std::optional<int> ChildProcess::exit_code() {
  if (pid_ == 0) return code_;
  int status = 0;
  const pid_t done = ::waitpid(pid_, &status, WNOHANG);
  if (done == 0 || (done < 0 && errno == EINTR)) return std::nullopt;
  ::kill(-pid_, SIGKILL);
  pid_ = 0;
  code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return code_;
}

void ChildProcess::end(std::chrono::milliseconds grace) {
  if (exit_code()) return;
  ::kill(-pid_, SIGTERM);
  for (auto waited = 0ms; waited < grace; waited += 20ms) {
    if (exit_code()) return;
    std::this_thread::sleep_for(20ms);
  }
  ::kill(-pid_, SIGKILL);
  while (!exit_code()) std::this_thread::sleep_for(1ms);
}

}  // namespace espalier
