#include "base/system/service_manager.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "base/system/unique_fd.h"

namespace espalier {
namespace {

constexpr std::chrono::seconds kMostWaiting{2};
constexpr auto kMoreTime = std::chrono::seconds(60);  // while files are read, between two words of progress

std::string taken(const char* name) {
  const char* value = std::getenv(name);
  std::string text = value == nullptr ? "" : value;
  ::unsetenv(name);
  return text;
}

std::optional<long long> number(const std::string& text) {
  long long value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Whether the variables mean this process; without a number they mean everybody.
bool for_this_process(const std::string& pid) {
  return pid.empty() || number(pid) == static_cast<long long>(::getpid());
}

// One line, whatever a stage is called.
std::string one_line(std::string_view text) {
  std::string line(text);
  for (char& c : line)
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  return line;
}

}  // namespace

ServiceNotifier ServiceNotifier::from_environment() {
  ServiceNotifier notifier;
  notifier.socket_path_ = taken("NOTIFY_SOCKET");
  const std::string pid = taken("WATCHDOG_PID");
  const auto limit = number(taken("WATCHDOG_USEC"));
  if (limit && *limit > 0 && for_this_process(pid)) notifier.watchdog_ = std::chrono::microseconds(*limit / 2);
  return notifier;
}

void ServiceNotifier::loading(std::string_view stage, int percent) const {
  const auto more = std::chrono::duration_cast<std::chrono::microseconds>(kMoreTime).count();
  send(fmt::format("STATUS=loading: {}, {} %\nEXTEND_TIMEOUT_USEC={}\n", one_line(stage), percent, more), Waits::no);
}

void ServiceNotifier::ready(std::string_view status) const {
  send(fmt::format("READY=1\nSTATUS={}\nMAINPID={}\n", one_line(status), ::getpid()), Waits::a_moment);
}

void ServiceNotifier::reloading() const {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  send(fmt::format("RELOADING=1\nMONOTONIC_USEC={}\n", std::int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000),
       Waits::a_moment);
}

void ServiceNotifier::stopping(std::string_view status) const {
  send(fmt::format("STOPPING=1\nSTATUS={}\n", one_line(status)), Waits::a_moment);
}

void ServiceNotifier::alive() const {
  send("WATCHDOG=1\n", Waits::no);
}

void ServiceNotifier::send(std::string_view message, Waits waits) const {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (!listened_to() || socket_path_.size() >= sizeof address.sun_path) return;
  std::memcpy(address.sun_path, socket_path_.data(), socket_path_.size());
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';
  const UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM, 0));
  if (!socket) return;
  ::fcntl(socket.get(), F_SETFD, FD_CLOEXEC);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_path_.size());
  const timeval limit{kMostWaiting.count(), 0};  // a manager that does not read must not hold up the server for long
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  (void)::sendto(socket.get(), message.data(), message.size(), waits == Waits::no ? MSG_DONTWAIT : 0,
                 reinterpret_cast<const sockaddr*>(&address), size);
}

int take_listening_sockets() {
  const std::string pid = taken("LISTEN_PID"), count = taken("LISTEN_FDS");
  taken("LISTEN_FDNAMES");
  const auto sockets = number(count);
  if (!sockets || pid.empty() || !for_this_process(pid) || *sockets < 1) return 0;
  for (int i = 0; i < *sockets; ++i) ::fcntl(kFirstListeningSocket + i, F_SETFD, FD_CLOEXEC);
  return static_cast<int>(*sockets);
}

}  // namespace espalier
