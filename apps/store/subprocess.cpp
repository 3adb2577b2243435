#include "store/subprocess.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string_view>
#include <thread>

namespace espalier::store {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kKeptOutput = 16 << 10;
constexpr auto kTick = 100ms;
constexpr auto kGrace = 2s;  // between asking a cancelled child to end and ending it

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { reset(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  void reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_;
};

std::vector<std::string> environment_of(const Command& command) {
  const auto replaced = [&](std::string_view name) {
    const auto is_it = [&](const auto& variable) { return variable.first == name; };
    return std::any_of(command.environment.begin(), command.environment.end(), is_it) ||
           std::find(command.hidden_variables.begin(), command.hidden_variables.end(), name) !=
               command.hidden_variables.end();
  };
  std::vector<std::string> lines;
  for (char** line = environ; line && *line; ++line) {
    const std::string_view text = *line;
    if (!replaced(text.substr(0, text.find('=')))) lines.emplace_back(text);
  }
  for (const auto& [name, value] : command.environment) lines.push_back(name + "=" + value);
  return lines;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

// Starts the child with `output` as stdout and stderr; its pid.
Result<pid_t> start(const Command& command, int output) {
  std::vector<std::string> arguments = command.arguments;
  std::vector<std::string> environment = environment_of(command);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
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
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  const int code = ::posix_spawnp(&pid, arguments[0].c_str(), &actions, &attributes, pointers(arguments).data(),
                                  pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (code == ENOENT || code == EACCES || code == ENOTDIR)
    return Error{Error::Kind::not_found, fmt::format("cannot run {}: is it installed?", arguments[0]), {}, {}};
  if (code != 0)
    return internal_error(fmt::format("cannot run {}: {}", arguments[0], std::generic_category().message(code)));
  return pid;
}

// Waits up to kTick for output and keeps its end; false when the child has closed its side.
bool read_some(int fd, std::string& kept) {
  pollfd p{fd, POLLIN, 0};
  if (::poll(&p, 1, static_cast<int>(kTick.count())) <= 0) return true;
  std::array<char, 4096> buffer;
  const ssize_t n = ::read(fd, buffer.data(), buffer.size());
  if (n <= 0) return n < 0 && errno == EINTR;
  kept.append(buffer.data(), static_cast<std::size_t>(n));
  if (kept.size() > 2 * kKeptOutput) kept.erase(0, kept.size() - kKeptOutput);
  return true;
}

// The child's end if it has ended.
bool reaped(pid_t pid, int& status) {
  const pid_t done = ::waitpid(pid, &status, WNOHANG);
  return done == pid || (done < 0 && errno != EINTR);
}

void end_group(pid_t pid) {
  int status = 0;
  ::kill(-pid, SIGTERM);
  for (auto waited = 0ms; waited < kGrace; waited += 20ms) {
    if (reaped(pid, status)) {
      ::kill(-pid, SIGKILL);  // whoever of the group stayed behind
      return;
    }
    std::this_thread::sleep_for(20ms);
  }
  ::kill(-pid, SIGKILL);
  ::waitpid(pid, &status, 0);
}

}  // namespace

Result<Finished> run_command(const Command& command) {
  if (command.arguments.empty()) return internal_error("no program to run");
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return internal_error("no pipe for a program's output");
  const Descriptor reader(ends[0]);
  Descriptor writer(ends[1]);
  ESP_TRY(const pid_t pid, start(command, writer.get()));
  writer.reset();

  Finished finished;
  int status = 0;
  for (bool open = true, ended = false; !ended;) {
    if (open)
      open = read_some(reader.get(), finished.output);
    else
      std::this_thread::sleep_for(20ms);
    if (command.tick) command.tick();
    if (command.stop.stop_requested()) {
      end_group(pid);
      return Error{Error::Kind::cancelled, "cancelled", {}, {}};
    }
    ended = reaped(pid, status);
  }
  // What it wrote last; a grandchild that keeps the pipe open is not waited for.
  for (pollfd p{reader.get(), POLLIN, 0}; ::poll(&p, 1, 0) > 0 && read_some(reader.get(), finished.output);) {
  }
  if (finished.output.size() > kKeptOutput) finished.output.erase(0, finished.output.size() - kKeptOutput);
  finished.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return finished;
}

}  // namespace espalier::store
