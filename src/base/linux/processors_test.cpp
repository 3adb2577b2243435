#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "base/linux/find_processors.h"
#include "base/threads/compute_team.h"
#include "testing/temp_folder.h"

namespace espalier {
namespace {

// A /proc and a /sys of this test's own.
class ProcessorsTest : public ::testing::Test {
 protected:
  ProcessorsTest() {
    from_.proc = root_.path() / "proc";
    from_.cgroups = root_.path() / "cgroup";
    from_.devices = root_.path() / "devices";
    allow(8);
  }

  void allow(int count) {
    from_.allowed.resize(static_cast<std::size_t>(count));
    std::iota(from_.allowed.begin(), from_.allowed.end(), 0);
  }
  void write(const std::string& path, const std::string& text) const { root_.write(path, text + "\n"); }
  // Processors 2 i and 2 i + 1 are one core, of the first `count`.
  void pair_up(int count) const {
    for (int id = 0; id < count; ++id)
      write("devices/system/cpu/cpu" + std::to_string(id) + "/topology/thread_siblings_list",
            std::to_string(id / 2 * 2) + "-" + std::to_string(id / 2 * 2 + 1));
  }

  testing::TempFolder root_;
  ProcessorSources from_;
};

using Ids = std::vector<int>;

TEST_F(ProcessorsTest, WithoutKnowledgeEveryAllowedOneComputes) {
  from_.allowed = {1, 3, 5};
  const Processors found = find_processors(from_);
  EXPECT_EQ(found.allowed, (Ids{1, 3, 5}));
  EXPECT_EQ(found.computing, (Ids{1, 3, 5}));
  EXPECT_EQ(found.granted, 3);
  EXPECT_TRUE(found.left_out.empty());
}

TEST_F(ProcessorsTest, OneThreadACoreComputes) {
  pair_up(8);
  const Processors found = find_processors(from_);
  EXPECT_EQ(found.computing, (Ids{0, 2, 4, 6}));
  EXPECT_EQ(found.left_out, "4 second threads of a core");
}

TEST_F(ProcessorsTest, AMachineOfFewCoresUsesTheirSecondThreadsToo) {
  allow(4);
  pair_up(4);
  EXPECT_EQ(find_processors(from_).computing, (Ids{0, 1, 2, 3}));
}

TEST_F(ProcessorsTest, IntelsEfficiencyCoresDoNotCompute) {
  allow(16);
  pair_up(8);
  write("devices/cpu_core/cpus", "0-7");
  write("devices/cpu_atom/cpus", "8-15");
  const Processors found = find_processors(from_);
  EXPECT_EQ(found.computing, (Ids{0, 2, 4, 6}));
  EXPECT_EQ(found.left_out, "8 efficiency cores, 4 second threads of a core");
}

TEST_F(ProcessorsTest, ArmsSmallCoresDoNotCompute) {
  for (int id = 0; id < 8; ++id)
    write("devices/system/cpu/cpu" + std::to_string(id) + "/cpu_capacity", id < 4 ? "446" : id < 7 ? "871" : "1024");
  EXPECT_EQ(find_processors(from_).computing, (Ids{4, 5, 6, 7}));
}

TEST_F(ProcessorsTest, WhereOnlyEfficiencyCoresAreAllowedTheyCompute) {
  write("devices/cpu_core/cpus", "8-15");
  EXPECT_EQ(find_processors(from_).computing.size(), 8u);
}

TEST_F(ProcessorsTest, AContainersShareOfTimeBoundsHowManyCompute) {
  write("proc/self/cgroup", "0::/a/b");
  write("cgroup/a/b/cpu.max", "max 100000");
  write("cgroup/a/cpu.max", "250000 100000");
  const Processors found = find_processors(from_);
  EXPECT_EQ(found.granted, 3);
  EXPECT_EQ(found.computing.size(), 8u) << "which of them is not said";
  EXPECT_EQ(found.left_out, "the control group grants the time of 3");
}

TEST_F(ProcessorsTest, AFirstVersionGroupBoundsThemToo) {
  write("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/x");
  write("cgroup/cpu/x/cpu.cfs_quota_us", "50000");
  write("cgroup/cpu/x/cpu.cfs_period_us", "100000");
  write("cgroup/cpu/cpu.cfs_quota_us", "-1");
  write("cgroup/cpu/cpu.cfs_period_us", "100000");
  EXPECT_EQ(find_processors(from_).granted, 1);
}

TEST_F(ProcessorsTest, MemoryNodesAreThoseNearComputingProcessors) {
  write("devices/system/node/online", "0-2");
  write("devices/system/node/node0/cpulist", "0-3");
  write("devices/system/node/node1/cpulist", "4-7");
  write("devices/system/node/node2/cpulist", "");
  EXPECT_EQ(find_processors(from_).nodes, (Ids{0, 1}));
  allow(4);
  EXPECT_EQ(find_processors(from_).nodes, (Ids{0}));
}

TEST_F(ProcessorsTest, NonsenseInFilesRestrictsNothing) {
  write("devices/cpu_core/cpus", "x-");
  write("devices/system/cpu/cpu0/topology/thread_siblings_list", "99999999999999999999,-");
  write("devices/system/node/online", "0-");
  write("proc/self/cgroup", "0::\n::\n:");
  write("cgroup/cpu.max", "many 0");
  const Processors found = find_processors(from_);
  EXPECT_EQ(found.computing.size(), 8u);
  EXPECT_EQ(found.granted, 8);
}

TEST(ProcessorsOfThisProcess, AreThoseOfItsAffinityMask) {
  const Processors& found = own_processors();
  EXPECT_EQ(found.allowed, ProcessorSources::of_this_process().allowed);
  EXPECT_GE(found.granted, 1);
}

TEST(ProcessorsOfThisProcess, ATeamsMembersStayWhereTheyArePlaced) {
  const std::vector<int> all = ProcessorSources::of_this_process().allowed;
  const int here = all.back();
  for (const bool pinned : {false, true}) {
    ComputeTeam team(3, {{here}, pinned});
    std::vector<std::vector<int>> seen(64);
    team.run(64, [&](int chunk) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));  // so that every member has some
      seen[static_cast<std::size_t>(chunk)] = ProcessorSources::of_this_process().allowed;
    });
    int placed = 0;
    for (const auto& allowed : seen) placed += allowed == std::vector<int>{here} ? 1 : 0;
    EXPECT_GT(placed, 0);
    if (all.size() > 1) {
      EXPECT_LT(placed, 64) << "the caller was not placed";
    }
  }
  std::thread([&] {
    ComputeTeam team(1, {{here}, true});
    team.place_caller();
    EXPECT_EQ(ProcessorSources::of_this_process().allowed, std::vector<int>{here});
  }).join();
}

TEST(ProcessorsOfThisProcess, ATeamThatHasThemAllKeepsToOneEachWhileItIsKeptApart) {
  const std::vector<int> all = own_processors().allowed;
  const int size = static_cast<int>(all.size());
  std::thread([&] {
    ComputeTeam team(size);
    const auto seen = [&] {
      std::vector<std::vector<int>> found(static_cast<std::size_t>(8 * size));
      team.run(8 * size, [&](int chunk) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));  // so that every member has some
        found[static_cast<std::size_t>(chunk)] = ProcessorSources::of_this_process().allowed;
      });
      return found;
    };
    {
      const ComputeTeam::SpreadMembers one(team), another(team);
      for (const auto& allowed : seen()) EXPECT_EQ(allowed.size(), 1u);
      EXPECT_EQ(ProcessorSources::of_this_process().allowed, std::vector<int>{all.front()}) << "the caller's";
    }
    for (const auto& allowed : seen()) EXPECT_EQ(allowed, all);
  }).join();
}

TEST(ProcessorsOfThisProcess, ATeamOfAnotherSizeIsNotKeptApart) {
  const std::vector<int> all = own_processors().allowed;
  ComputeTeam team(static_cast<int>(all.size()) + 1);
  const ComputeTeam::SpreadMembers apart(team);
  team.run(64, [&](int) { EXPECT_EQ(ProcessorSources::of_this_process().allowed, all); });
}

}  // namespace
}  // namespace espalier
