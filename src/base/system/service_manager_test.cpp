// What a service manager hears, over a socket as systemd opens it.
#include "base/system/service_manager.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "base/system/unique_fd.h"

namespace espalier {
namespace service_manager_test {

// The manager's end of the notify socket.
class Manager {
 public:
  explicit Manager(bool abstract) {
    const std::string unique = "espalier_notify_" + std::to_string(::getpid());
    path_ = abstract ? "@" + unique : (std::filesystem::temp_directory_path() / unique).string();
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    if (abstract) address.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path_.size());
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    ::setenv("NOTIFY_SOCKET", path_.c_str(), 1);
  }
  ~Manager() {
    if (path_[0] != '@') std::filesystem::remove(path_);
  }
  std::string heard() const {
    char text[4096];
    const ssize_t n = ::recv(socket_.get(), text, sizeof text, MSG_DONTWAIT);
    return n > 0 ? std::string(text, static_cast<std::size_t>(n)) : std::string();
  }

 private:
  std::string path_;
  UniqueFd socket_{::socket(AF_UNIX, SOCK_DGRAM, 0)};
};

TEST(ServiceNotifier, TheManagerHearsEveryStage) {
  for (const bool abstract : {false, true}) {
    const Manager manager(abstract);
    const auto notifier = ServiceNotifier::from_environment();
    EXPECT_TRUE(notifier.listened_to());
    notifier.loading("reading\nweights", 40);
    EXPECT_EQ(manager.heard(), "STATUS=loading: reading weights, 40 %\nEXTEND_TIMEOUT_USEC=60000000\n");
    notifier.ready("serving");
    EXPECT_TRUE(manager.heard().starts_with("READY=1\nSTATUS=serving\n"));
    notifier.reloading();
    EXPECT_TRUE(manager.heard().starts_with("RELOADING=1\nMONOTONIC_USEC="));
    notifier.alive();
    EXPECT_EQ(manager.heard(), "WATCHDOG=1\n");
    notifier.stopping("2 requests");
    EXPECT_EQ(manager.heard(), "STOPPING=1\nSTATUS=2 requests\n");
  }
}

TEST(ServiceNotifier, ReadinessIsHeardThoughTheManagerWasBusyWhileItLoaded) {
  const Manager manager(true);
  const auto notifier = ServiceNotifier::from_environment();
  for (int percent = 0; percent <= 100; ++percent) notifier.loading("reading weights", percent);
  std::jthread tells([&] { notifier.ready("serving"); });
  std::string heard;
  for (int i = 0; i < 100'000 && !heard.starts_with("READY=1"); ++i) {
    heard = manager.heard();
    std::this_thread::yield();
  }
  EXPECT_TRUE(heard.starts_with("READY=1")) << heard;
}

TEST(ServiceNotifier, VariablesAreTakenOutSoThatChildrenDoNotSpeakForUs) {
  const Manager manager(true);
  (void)ServiceNotifier::from_environment();
  EXPECT_EQ(::getenv("NOTIFY_SOCKET"), nullptr);
  EXPECT_FALSE(ServiceNotifier::from_environment().listened_to());
}

TEST(ServiceNotifier, WatchingIsHalfOfTheLimitAndOnlyOfThisProcess) {
  const auto interval = [](const char* limit, const std::string& pid) {
    ::setenv("WATCHDOG_USEC", limit, 1);
    ::setenv("WATCHDOG_PID", pid.c_str(), 1);
    return ServiceNotifier::from_environment().watchdog_interval();
  };
  const std::string me = std::to_string(::getpid());
  EXPECT_EQ(interval("3000000", me), std::chrono::microseconds(1500000));
  EXPECT_EQ(interval("3000000", "1"), std::nullopt);
  EXPECT_EQ(interval("0", me), std::nullopt);
  EXPECT_EQ(interval("soon", me), std::nullopt);
}

TEST(ListeningSockets, OnlyThoseOfThisProcessAreTakenAndOnlyOnce) {
  ::setenv("LISTEN_FDS", "1", 1);
  ::setenv("LISTEN_PID", "1", 1);
  EXPECT_EQ(take_listening_sockets(), 0);
  ::setenv("LISTEN_FDS", "2", 1);
  ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
  EXPECT_EQ(take_listening_sockets(), 2);
  EXPECT_EQ(take_listening_sockets(), 0);
}

}  // namespace service_manager_test
}  // namespace espalier
