#include <gtest/gtest.h>
#include <unistd.h>

#include "base/linux/find_memory_room.h"
#include "testing/temp_folder.h"

namespace espalier {
namespace {

// A /proc and a /sys/fs/cgroup of this test's own.
class MemoryRoomTest : public ::testing::Test {
 protected:
  MemoryRoomTest() {
    from_.proc = root_.path() / "proc";
    from_.cgroups = root_.path() / "cgroup";
    write("proc/meminfo", "MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable: 8000 kB\n");
    write("proc/self/statm", "100 50 20 10 0 40 0\n");
  }

  void write(const std::string& path, const std::string& text) const { root_.write(path, text); }
  std::int64_t pages() const { return find_memory_room(from_).pages; }

  testing::TempFolder root_;
  MemorySources from_;
};

TEST_F(MemoryRoomTest, WithoutLimitsItIsWhatTheMachineHasFree) {
  write("proc/self/cgroup", "0::/\n");
  EXPECT_EQ(pages(), 8000 * 1024);
  EXPECT_GT(find_memory_room(from_).addresses, std::int64_t{1} << 60);
}

TEST_F(MemoryRoomTest, ASecondVersionGroupCountsWhatCanBeTakenBackAsRoom) {
  write("proc/self/cgroup", "0::/a/b\n");
  write("cgroup/a/b/memory.max", "1000000\n");
  write("cgroup/a/b/memory.current", "400000\n");
  write("cgroup/a/b/memory.stat", "anon 5\ninactive_file 100000\nactive_file 7\n");
  EXPECT_EQ(pages(), 700000);
  EXPECT_NE(find_memory_room(from_).pages_limit.find("control group"), std::string::npos);
}

TEST_F(MemoryRoomTest, AnAncestorsLimitCountsAndMaxIsNone) {
  write("proc/self/cgroup", "0::/a/b\n");
  write("cgroup/a/b/memory.max", "max\n");
  write("cgroup/a/b/memory.current", "5\n");
  write("cgroup/a/memory.max", "500000\n");
  write("cgroup/a/memory.current", "100000\n");
  EXPECT_EQ(pages(), 400000);
}

TEST_F(MemoryRoomTest, AFirstVersionGroupBesideOthersIsSeen) {
  write("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/x/y\n0::/\n");
  write("cgroup/memory/x/y/memory.limit_in_bytes", "2000000\n");
  write("cgroup/memory/x/y/memory.usage_in_bytes", "1500000\n");
  write("cgroup/memory/x/y/memory.stat", "inactive_file 1\ntotal_inactive_file 250000\n");
  write("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("cgroup/memory/memory.usage_in_bytes", "77\n");
  EXPECT_EQ(pages(), 750000);
}

TEST_F(MemoryRoomTest, InAContainerThatSeesTheHostsPathTheMountItselfCounts) {
  write("proc/self/cgroup", "4:memory:/docker/0123\n");
  write("cgroup/memory/memory.limit_in_bytes", "3000000\n");
  write("cgroup/memory/memory.usage_in_bytes", "1000000\n");
  EXPECT_EQ(pages(), 2000000);
}

TEST_F(MemoryRoomTest, AGroupThatIsOverItsLimitHasNoRoom) {
  write("proc/self/cgroup", "0::/\n");
  write("cgroup/memory.max", "10\n");
  write("cgroup/memory.current", "20\n");
  EXPECT_EQ(pages(), 0);
}

TEST_F(MemoryRoomTest, LimitsOnAddressesAndDataLeaveWhatIsNotTaken) {
  const std::int64_t page = sysconf(_SC_PAGESIZE);
  from_.address_limit = 1000 * page;
  EXPECT_EQ(find_memory_room(from_).addresses, 900 * page);
  from_.data_limit = 140 * page;
  EXPECT_EQ(find_memory_room(from_).addresses, 100 * page);
  EXPECT_EQ(find_memory_room(from_).least(), 100 * page);
}

}  // namespace
}  // namespace espalier
