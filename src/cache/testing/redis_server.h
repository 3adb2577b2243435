// redis_server.h: a real Redis server for one test, on a socket in a folder of its own, ended with the test.
//
// Debian's redis-tools has the server under another name (redis-check-rdb), so that no service needs to be installed for tests.
#pragma once

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "cache/remote/redis_connection.h"
#include "cache/testing/test_folder.h"

namespace espalier::testing {

inline std::string redis_program() {
  for (const char* path : {"/usr/bin/redis-check-rdb", "/usr/bin/valkey-check-rdb", "/usr/bin/redis-server",
                           "/usr/local/bin/redis-server"})
    if (::access(path, X_OK) == 0) return path;
  return {};
}

// Starts in its constructor; running() says whether it could.
class RedisServer {
 public:
  explicit RedisServer(std::vector<std::string> flags = {}) : flags_(std::move(flags)) { start(); }
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;
  ~RedisServer() { kill(); }

  bool running() const { return process_ > 0; }
  RedisAddress address() const {
    RedisAddress address;
    address.path = (folder_.path() / "redis.sock").string();
    return address;
  }
  void start() {
    const std::string program = redis_program();
    if (program.empty()) return;
    std::vector<std::string> words{"redis-server",
                                   "--port",
                                   "0",
                                   "--unixsocket",
                                   address().path,
                                   "--save",
                                   "",
                                   "--appendonly",
                                   "no",
                                   "--daemonize",
                                   "no",
                                   "--dir",
                                   folder_.path().string(),
                                   "--loglevel",
                                   "warning",
                                   "--logfile",
                                   (folder_.path() / "log").string(),
                                   "--enable-debug-command",
                                   "yes"};
    words.insert(words.end(), flags_.begin(), flags_.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    if (::posix_spawn(&process_, program.c_str(), nullptr, nullptr, arguments.data(), environ) != 0) process_ = 0;
    wait_until_it_answers();
  }
  void kill() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = 0;
  }
  void freeze() const { ::kill(process_, SIGSTOP); }
  void go_on() const { ::kill(process_, SIGCONT); }

  // What it answers, as text; "" for nothing.
  std::string ask(std::initializer_list<std::string_view> words) const {
    std::string answer;
    auto connection = RedisConnection::open(address(), soon());
    if (!connection.ok()) return answer;
    (*connection)->add(words);
    (void)(*connection)->exchange(1 << 20, soon(), [&](std::size_t, const RedisReply& reply) {
      answer = reply.kind == RedisReply::Kind::number ? std::to_string(reply.number) : std::string(reply.text);
    });
    return answer;
  }

 private:
  static RedisConnection::Time soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(20); }
  void wait_until_it_answers() {
    const auto end = soon();
    while (process_ > 0 && ask({"PING"}).empty() && std::chrono::steady_clock::now() < end) {
      if (::waitpid(process_, nullptr, WNOHANG) == process_) process_ = 0;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  TestFolder folder_;
  std::vector<std::string> flags_;
  pid_t process_ = 0;
};

}  // namespace espalier::testing
