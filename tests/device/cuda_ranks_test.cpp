// How CUDA devices of several ranks come together: by NCCL where all have it, else by way of the host, all the same way. CUDA and NCCL
// are stand-ins (cuda_runtime.h, fake_nccl.cpp): what is tested is who asks whom for what.
#include "device/library/cuda_ranks.cu"

#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>
#include <thread>

#include "ranks/group.h"
#include "ranks/values_of_all.h"

namespace espalier::device {
namespace {

constexpr int kRanks = 3;

// One rank's group as the program lends it.
struct Lent {
  ranks::Collective& group;
  int asked = 0;

  EspalierGroup table() {
    return {group.rank(), group.size(), std::size_t{1} << 20, this,
            [](void* self, const void* part, void* all, std::size_t bytes) {
              return static_cast<Lent*>(self)->gather(part, all, bytes);
            }};
  }
  int gather(const void* part, void* all, std::size_t bytes) {
    ++asked;
    ranks::bytes_of_all(group, part, all, bytes);
    return 0;
  }
};

// All ranks join, and gather parts of some sizes.
void join_and_gather(const std::string& how, bool by_host) {
  ranks::GroupOptions options;
  options.on_loss = [](const Error& why, bool) { ADD_FAILURE() << why.message; };
  const auto group = ranks::thread_group(kRanks, options);
  const auto compute = [&](ranks::Collective& own) {
    Lent lent{own};
    std::string why_not;
    const auto ranks = CudaRanks::join(lent.table(), why_not);
    ASSERT_TRUE(ranks) << why_not;
    EXPECT_EQ(ranks->how(), how);
    const int to_join = lent.asked;
    for (const std::size_t count : {1u, 7u, 1000u, 7u}) {
      std::vector<int> part(count), all(kRanks * count), want(kRanks * count);
      std::iota(part.begin(), part.end(), 10000 * own.rank());
      for (std::size_t i = 0; i < want.size(); ++i) want[i] = static_cast<int>(10000 * (i / count) + i % count);
      EXPECT_EQ(ranks->gather(nullptr, part.data(), all.data(), count * sizeof(int)), nullptr);
      EXPECT_EQ(all, want) << count;
      EXPECT_EQ(ranks->failed(), nullptr);
    }
    EXPECT_EQ(lent.asked - to_join, by_host ? 4 : 0);
  };
  std::vector<std::jthread> threads;
  for (const auto& rank : group) threads.emplace_back([&compute, &rank] { compute(*rank); });
}

class RanksOfCudaDevices : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto beside = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "libespalier_fake_nccl.so";
    ::setenv("ESPALIER_NCCL_LIBRARY", beside.c_str(), 1);
    ::unsetenv("FAKE_NCCL_REFUSES");
  }
};

TEST_F(RanksOfCudaDevices, GatherByNcclWhereAllHaveIt) {
  join_and_gather("nccl 2.27.3", false);
}

TEST_F(RanksOfCudaDevices, GatherByWayOfTheHostWhereNcclIsNotThere) {
  ::setenv("ESPALIER_NCCL_LIBRARY", "/nowhere/libnccl.so.2", 1);
  join_and_gather("", true);
}

TEST_F(RanksOfCudaDevices, GatherByWayOfTheHostWhereOneIsRefused) {
  for (const char* refused : {"0", "2"}) {
    ::setenv("FAKE_NCCL_REFUSES", refused, 1);
    join_and_gather("", true);
  }
}

TEST_F(RanksOfCudaDevices, TellWhenTheGroupEndedOrAPartIsTooLarge) {
  ::setenv("ESPALIER_NCCL_LIBRARY", "/nowhere/libnccl.so.2", 1);
  int calls = 0;
  const EspalierGroup group{0, 1, 64, &calls, [](void* count, const void* part, void* all, std::size_t bytes) {
                              std::memcpy(all, part, bytes);
                              return ++*static_cast<int*>(count) > 1 ? 1 : 0;  // joined, then the group ends
                            }};
  std::string why_not;
  const auto ranks = CudaRanks::join(group, why_not);
  ASSERT_TRUE(ranks);
  std::vector<char> part(65), all(65);
  EXPECT_NE(ranks->gather(nullptr, part.data(), all.data(), 65), nullptr);
  EXPECT_EQ(ranks->failed(), nullptr);
  EXPECT_EQ(ranks->gather(nullptr, part.data(), all.data(), 64), nullptr);
  EXPECT_NE(ranks->failed(), nullptr);
}

}  // namespace
}  // namespace espalier::device
