#include "base/system/this_process.h"

#include <gtest/gtest.h>

#include "base/system/child_descriptors.h"

namespace espalier {
namespace {

TEST(ThisProcess, HasMemoryAndAFileThatRuns) {
  EXPECT_GT(resident_bytes(), std::uint64_t{100} << 10);
  EXPECT_TRUE(std::filesystem::exists(own_program()));
  EXPECT_EQ(own_program().filename(), "base_test");
}

TEST(ThisProcess, CountsDescriptors) {
  const std::uint64_t before = open_descriptors();
  UniqueFd readable, writable;
  ASSERT_TRUE(open_pipe(readable, writable));
  EXPECT_EQ(open_descriptors(), before + 2);
}

}  // namespace
}  // namespace espalier
