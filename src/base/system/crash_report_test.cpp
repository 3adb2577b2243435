// What a crash leaves, told by processes that die of it.
#include "base/system/crash_report.h"

#include <gtest/gtest.h>

#include <csignal>
#include <thread>

#include "base/threads/thread_name.h"

namespace espalier {
namespace crash_report_test {

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which have handlers of their own

volatile int endless = 1 << 30;

[[gnu::noinline]] int use_up_the_stack(int depth) {
  volatile char held[512] = {};
  held[depth % 512] = 1;
  if (depth == endless) return held[0];
  return use_up_the_stack(depth + 1) + held[1];
}

TEST(CrashReport, AThreadWhoseStackIsUsedUpIsReportedWithTheRequestsThatRan) {
  EXPECT_EXIT(
      {
        install_crash_report("9.9");
        const RunningRequest running("request-7");
        {
          const RunningRequest ended("request-8");
        }
        std::thread([] {
          name_this_thread("esp-deep");
          use_up_the_stack(0);
        }).join();
      },
      ::testing::KilledBySignal(SIGSEGV),
      "espalier 9.9 crashed: SIGSEGV at address 0x[0-9a-f]+ in thread esp-deep\nrequests that ran: request-7\nstack");
}

#endif

}  // namespace crash_report_test
}  // namespace espalier
