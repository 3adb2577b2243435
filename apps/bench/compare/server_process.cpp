#include "bench/compare/server_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <system_error>
#include <thread>
#include <utility>

namespace espalier::bench {
namespace {

using namespace std::chrono_literals;

constexpr auto kGrace = 15s;

bool ended(pid_t pid) {
  int status = 0;
  const pid_t done = ::waitpid(pid, &status, WNOHANG);
  return done == pid || (done < 0 && errno != EINTR);
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

}  // namespace

Result<std::vector<std::string>> split_words(const std::string& command) {
  std::vector<std::string> words;
  std::string word;
  bool begun = false;
  char quote = 0;
  for (std::size_t i = 0; i < command.size(); ++i) {
    const char c = command[i];
    if (c == '\\' && quote != '\'' && i + 1 < command.size()) {
      word += command[++i];
      begun = true;
    } else if (quote != 0) {
      if (c == quote)
        quote = 0;
      else
        word += c;
    } else if (c == '\'' || c == '"') {
      quote = c;
      begun = true;
    } else if (c == ' ' || c == '\t' || c == '\n') {
      if (begun) words.push_back(std::exchange(word, {}));
      begun = false;
    } else {
      word += c;
      begun = true;
    }
  }
  if (quote != 0) return bad_request(fmt::format("a quotation mark is not closed in: {}", command), "server");
  if (begun) words.push_back(word);
  if (words.empty()) return bad_request("an empty command cannot be launched", "server");
  return words;
}

Result<int> free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  const bool bound = fd >= 0 && ::bind(fd, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
                     ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  if (fd >= 0) ::close(fd);
  if (!bound) return internal_error("no free port on 127.0.0.1");
  return ntohs(address.sin_port);
}

Result<ServerProcess> ServerProcess::start(const std::string& command, int port, const std::string& log_path) {
  ESP_TRY(std::vector<std::string> words, split_words(command));
  std::vector<char*> arguments;
  for (std::string& word : words) {
    replace_all(word, "{port}", std::to_string(port));
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  const int code = ::posix_spawnp(&pid, words[0].c_str(), &actions, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (code != 0)
    return Error{
        Error::Kind::not_found,
        fmt::format("cannot launch {} (log: {}): {}", words[0], log_path, std::generic_category().message(code)),
        {},
        {}};
  return ServerProcess(pid, log_path);
}

ServerProcess::ServerProcess(ServerProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)), log_path_(std::move(other.log_path_)) {}

ServerProcess& ServerProcess::operator=(ServerProcess&& other) noexcept {
  if (this == &other) return *this;
  stop();
  pid_ = std::exchange(other.pid_, 0);
  log_path_ = std::move(other.log_path_);
  return *this;
}

bool ServerProcess::running() {
  if (pid_ > 0 && ended(pid_)) {
    ::kill(-pid_, SIGKILL);  // whoever of the group stayed behind
    pid_ = 0;
  }
  return pid_ > 0;
}

void ServerProcess::stop() {
  if (!running()) return;
  ::kill(-pid_, SIGTERM);
  for (auto waited = 0ms; waited < kGrace; waited += 20ms) {
    if (!running()) return;
    std::this_thread::sleep_for(20ms);
  }
  ::kill(-pid_, SIGKILL);
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = 0;
}

}  // namespace espalier::bench
