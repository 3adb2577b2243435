// service_manager.h: what a process and the service manager that started it (systemd) tell each other: readiness and
// state over the notify socket, and sockets that were opened for it. Written straight to the socket, no library.
//
// Threads: ServiceNotifier: any. Fails: never; without NOTIFY_SOCKET nothing is sent. Progress and signs of life are lost
// where the manager does not read; what changes the service's state waits for it, two seconds at most.
// Source:  sd_notify(3), sd_listen_fds(3).
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace espalier {

// Tells the service manager how the process is doing.
class ServiceNotifier {
 public:
  // By NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID of the environment, which are taken out of it: children must not
  // speak for this process.
  static ServiceNotifier from_environment();

  bool listened_to() const { return !socket_path_.empty(); }
  // How often alive() is wanted, at least: half of the manager's limit. None: it does not watch.
  std::optional<std::chrono::microseconds> watchdog_interval() const { return watchdog_; }

  void loading(std::string_view stage, int percent) const;  // asks for more time, too
  void ready(std::string_view status) const;
  void reloading() const;  // ready() ends it
  void stopping(std::string_view status) const;
  void alive() const;

 private:
  enum class Waits { no, a_moment };
  void send(std::string_view message, Waits waits) const;  // "NAME=value" lines

  std::string socket_path_;  // '@' in front: an abstract name
  std::optional<std::chrono::microseconds> watchdog_;
};

// How many sockets the manager opened for this process (LISTEN_FDS, LISTEN_PID), from descriptor 3 on; 0 without any.
// The variables are taken out of the environment.
int take_listening_sockets();
inline constexpr int kFirstListeningSocket = 3;

}  // namespace espalier
