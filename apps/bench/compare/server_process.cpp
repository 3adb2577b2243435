#include "bench/compare/server_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

#include "base/system/socket_calls.h"
#include "base/system/unique_fd.h"

namespace espalier::bench {
namespace {

using namespace std::chrono_literals;

constexpr auto kGrace = 15s;

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
  const UniqueFd fd(open_socket(AF_INET, SOCK_STREAM, 0, Blocking::yes));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  const bool bound = fd && ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) == 0 &&
                     ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0;
  if (!bound) return internal_error("no free port on 127.0.0.1");
  return ntohs(address.sin_port);
}

Result<ServerProcess> ServerProcess::start(const std::string& command, int port, const std::string& log_path) {
  ESP_TRY(std::vector<std::string> words, split_words(command));
  for (std::string& word : words) replace_all(word, "{port}", std::to_string(port));
  const UniqueFd log(::open(log_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!log) return internal_error(fmt::format("cannot write {}: {}", log_path, std::generic_category().message(errno)));
  ESP_TRY(ChildProcess child, ChildProcess::start(std::move(words), log.get()));
  return ServerProcess(std::move(child), log_path);
}

void ServerProcess::stop() {
  child_.end(kGrace);
}

}  // namespace espalier::bench
