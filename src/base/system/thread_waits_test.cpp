// What threads wait for, told by the process itself.
#include "base/system/thread_waits.h"

#include <gtest/gtest.h>

#include <semaphore>
#include <thread>

#include "base/threads/thread_name.h"

namespace espalier {
namespace thread_waits_test {

#ifdef __linux__
TEST(ThreadWaits, AThreadThatWaitsIsNamedWithItsPlace) {
  std::binary_semaphore begun(0), end(0);
  std::jthread waits([&] {
    name_this_thread("esp-waits");
    begun.release();
    end.acquire();
  });
  begun.acquire();
  std::string told;
  for (int i = 0; i < 100 && told.find("esp-waits: sleeps") == std::string::npos; ++i) {
    told = thread_waits();
    std::this_thread::yield();
  }
  EXPECT_NE(told.find("esp-waits: sleeps"), std::string::npos) << told;
  EXPECT_NE(told.find("(this thread writes the report)"), std::string::npos) << told;
  const auto place = told.find("\n    ", told.find("esp-waits"));
  ASSERT_NE(place, std::string::npos) << told;
  EXPECT_NE(told.find("0x", place), std::string::npos) << told;
  end.release();
}
#endif

TEST(ThreadWaits, SomethingIsSaidOnEverySystem) {
  EXPECT_FALSE(thread_waits().empty());
}

}  // namespace thread_waits_test
}  // namespace espalier
