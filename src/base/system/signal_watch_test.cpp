#include "base/system/signal_watch.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <thread>

namespace espalier {
namespace {

using namespace std::chrono_literals;

// What the watch changes of the process ends with the test.
class SignalWatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::pthread_sigmask(SIG_SETMASK, nullptr, &mask_);
    ::sigaction(SIGUSR2, nullptr, &action_);
  }
  void TearDown() override {
    ::sigaction(SIGUSR2, &action_, nullptr);
    ::pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  }

  sigset_t mask_;
  struct sigaction action_;
};

TEST_F(SignalWatchTest, FetchesASignalThatCameBeforeOrWhileItWaits) {
  const SignalWatch watch{SIGUSR2};
  EXPECT_EQ(watch.wait(0ms), 0);
  ::kill(::getpid(), SIGUSR2);
  EXPECT_EQ(watch.wait(60s), SIGUSR2);
  EXPECT_EQ(watch.wait(0ms), 0);
  std::thread other([] { ::kill(::getpid(), SIGUSR2); });
  EXPECT_EQ(watch.wait(60s), SIGUSR2);
  other.join();
}

}  // namespace
}  // namespace espalier
