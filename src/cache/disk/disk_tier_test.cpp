// The disk tier on real files: what comes back, what is refused, what is bounded, what a crash leaves.
#include "cache/disk/disk_tier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <fstream>
#include <thread>

#include "base/log.h"
#include "cache/testing/test_folder.h"
#include "testing/data.h"

namespace espalier::disk_tier_test {
namespace {

using Tokens = std::vector<TokenId>;
using namespace std::chrono_literals;

Tokens sequence(int blocks, int fill = 1) {
  Tokens tokens;
  for (int i = 0; i < blocks * kBlockTokens; ++i) tokens.push_back(fill * 1000 + i);
  return tokens;
}

// What a block of a sequence holds: bytes that no other block of any other sequence has.
void fill_block(std::span<std::byte> block, const Tokens& tokens, int number) {
  std::uint64_t value = 1;
  for (int i = 0; i < (number + 1) * kBlockTokens; ++i)
    value = value * 0x9e3779b97f4a7c15u + static_cast<std::uint32_t>(tokens[static_cast<std::size_t>(i)]);
  for (std::size_t i = 0; i + 8 <= block.size(); i += 8) {
    value = value * 6364136223846793005u + 1442695040888963407u;
    std::memcpy(block.data() + i, &value, 8);
  }
}

class DiskTierTest : public ::testing::Test {
 protected:
  void SetUp() override { log::configure(log::Level::error, log::Format::text); }  // warnings are what is tested
  DiskTierOptions options(bool keep = true) {
    DiskTierOptions o;
    o.base = test_.path();
    o.keep = keep;
    o.key = "a key";
    o.capacity = 64 << 20;
    o.block_bytes = 5000;
    o.wake = [this] {
      std::lock_guard lock(mutex_);
      ++wakes_;
      woken_.notify_one();
    };
    return o;
  }
  std::unique_ptr<DiskTier> open(DiskTierOptions o) {
    auto tier = DiskTier::open(std::move(o), counters_.emplace_back());
    EXPECT_TRUE(tier.ok()) << (tier.ok() ? "" : tier.error().message);
    return std::move(tier).value();
  }
  static DiskTier::Time soon() { return std::chrono::steady_clock::now() + 20s; }

  static int store(DiskTier& tier, const Tokens& tokens, int first = 0, std::string_view scope = "") {
    int blocks = 0;
    for (const auto& piece : tier.missing(scope, tokens, first)) {
      const auto stored = tier.store(
          scope, tokens, piece,
          [&](std::span<std::byte> bytes) {
            for (int b = 0; b < piece.blocks; ++b)
              fill_block(bytes.subspan(static_cast<std::size_t>(b) * tier.block_stride(), tier.block_stride()), tokens,
                         piece.first_block + b);
          },
          {soon(), UINT64_MAX});
      if (stored == DiskTier::Store::queued) blocks += piece.blocks;
    }
    EXPECT_TRUE(tier.flush(soon()));
    tier.collect();
    return blocks;
  }

  // Loads everything from `first` on; how many blocks came and were right.
  int load(DiskTier& tier, const Tokens& tokens, int first = 0, std::string_view scope = "") {
    const auto ranges = tier.find(scope, tokens, first);
    if (ranges.empty()) return 0;
    const auto id = tier.load(scope, tokens, first, ranges);
    int good = 0;
    for (bool over = false; !over;) {
      for (auto& piece : tier.collect()) {
        EXPECT_EQ(piece.load, id);
        over = piece.last || piece.failed;
        if (piece.failed) break;
        EXPECT_EQ(piece.first_block, first + good);
        std::vector<std::byte> expected(tier.block_stride());
        for (int b = 0; b < piece.blocks; ++b, ++good) {
          fill_block(expected, tokens, piece.first_block + b);
          const auto got = piece.buffer.bytes().subspan(static_cast<std::size_t>(b) * tier.block_stride());
          EXPECT_EQ(std::memcmp(got.data(), expected.data(), expected.size()), 0) << "block " << piece.first_block + b;
        }
      }
      if (!over) wait();
    }
    return good;
  }
  void wait() {
    std::unique_lock lock(mutex_);
    woken_.wait_for(lock, 100ms, [&] { return std::exchange(wakes_, 0) > 0; });
  }
  // Of 3000 blocks, and of 5 in another scope.
  void expect_both_to_come_back(DiskTier& tier, const Tokens& a, const Tokens& b) {
    EXPECT_EQ(store(tier, a), 3000);
    EXPECT_EQ(store(tier, b, 0, "tenant"), 5);
    EXPECT_EQ(load(tier, a), 3000);
    EXPECT_EQ(load(tier, a, 2500), 500) << "from the middle of a file";
    EXPECT_EQ(load(tier, b, 1, "tenant"), 4);
  }
  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(test_.path()))
      if (entry.path().extension() == ".kv") found.push_back(entry.path());
    std::sort(found.begin(), found.end());
    return found;
  }
  std::uint64_t bytes_on_disk() const {
    std::uint64_t sum = 0;
    for (const auto& path : files()) sum += std::filesystem::file_size(path);
    return sum;
  }

  std::deque<DiskTierCounters> counters_;  // one for each tier that was opened
  testing::TestFolder test_{testing::TestFolder::Where::memory};
  std::mutex mutex_;
  std::condition_variable woken_;
  int wakes_ = 0;
};

TEST_F(DiskTierTest, WhatWasStoredComesBackBitForBit) {
  auto tier = open(options(false));
  const Tokens a = sequence(3000), b = sequence(5, 2);
  expect_both_to_come_back(*tier, a, b);
  EXPECT_EQ(load(*tier, b), 0) << "another scope";
  EXPECT_TRUE(tier->missing("", a, 0).empty());
  EXPECT_EQ(tier->counters().stored_tokens.value(), 3005u * kBlockTokens);
}

TEST_F(DiskTierTest, TheSameOnARealDiskPastThePageCache) {
  const testing::TestFolder disk;
  auto o = options();
  o.base = disk.path();
  const Tokens a = sequence(3000);
  {
    EXPECT_EQ(store(*open(o), a), 3000);
  }
  EXPECT_EQ(load(*open(o), a), 3000);
}

TEST_F(DiskTierTest, ARestartFindsEverythingAndTheSameKeyOnly) {
  const Tokens a = sequence(40);
  {
    store(*open(options()), a);
  }
  {
    auto other = options();
    other.key = "another key";
    EXPECT_EQ(load(*open(other), a), 0);
  }
  auto tier = open(options());
  EXPECT_EQ(load(*tier, a), 40);
  auto second = DiskTier::open(options(), counters_.emplace_back());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, Error::Kind::busy);
}

TEST_F(DiskTierTest, WithoutKeepNothingIsLeft) {
  {
    auto tier = open(options(false));
    store(*tier, sequence(40));
    EXPECT_EQ(files().size(), 1u);
  }
  EXPECT_TRUE(std::filesystem::is_empty(test_.path()));
}

TEST_F(DiskTierTest, DiskUseStaysBelowTheCapacityAndTheLastUsedStays) {
  auto o = options();
  o.capacity = 1 << 20;  // 128 blocks of 8 KiB
  auto tier = open(o);
  const Tokens kept = sequence(10, 99);
  store(*tier, kept);
  for (int i = 0; i < 60; ++i) {
    store(*tier, sequence(10, i));
    EXPECT_EQ(load(*tier, kept), 10);
    EXPECT_LE(tier->catalogue().bytes(), o.capacity);
    EXPECT_LE(bytes_on_disk(), o.capacity);
    EXPECT_EQ(bytes_on_disk(), tier->catalogue().bytes());
  }
  EXPECT_EQ(load(*tier, sequence(10, 0)), 0);
  EXPECT_EQ(load(*tier, sequence(10, 59)), 10);
  EXPECT_EQ(store(*tier, sequence(400, 7)), 0) << "larger than the whole tier";
  tier.reset();
  o.capacity /= 2;
  tier = open(o);
  EXPECT_TRUE(tier->flush(soon()));
  EXPECT_LE(bytes_on_disk(), o.capacity) << "a smaller capacity holds from the start";
  EXPECT_EQ(load(*tier, kept), 10) << "ages go on after a restart";
}

TEST_F(DiskTierTest, OtherKeysKeepAtMostHalfOfTheCapacity) {
  auto o = options();
  o.capacity = 1 << 20;
  for (int model = 0; model < 4; ++model) {
    o.key = "model " + std::to_string(model);
    auto tier = open(o);
    for (int i = 0; i < 30; ++i) store(*tier, sequence(10, i));
    EXPECT_LE(bytes_on_disk(), o.capacity + 64 * 1024);
  }
}

TEST_F(DiskTierTest, FoldersAndFilesOfOthersAreLeftAlone) {
  const auto folder = test_.path() / "kv-store", like_ours = test_.path() / "kv-0123456789abcdef";
  for (const auto& place : {folder, like_ours}) {
    std::filesystem::create_directory(place);
    std::ofstream(place / "data.tmp2") << std::string(2 << 20, 'x');
  }
  std::ofstream(folder / "notes.tmp") << "mine";
  auto o = options();
  o.capacity = 1 << 20;
  {
    auto tier = open(o);
  }
  EXPECT_TRUE(std::filesystem::exists(folder / "notes.tmp"));
  EXPECT_FALSE(std::filesystem::exists(folder / "lock"));
  for (const auto& place : {folder, like_ours}) EXPECT_TRUE(std::filesystem::exists(place / "data.tmp2"));
}

TEST_F(DiskTierTest, ADamagedFileIsDroppedAndItsTokensAreNotHandedOut) {
  const Tokens a = sequence(8), b = sequence(8, 2);
  auto tier = open(options());
  store(*tier, a);
  store(*tier, b);
  const auto path = files().front();
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-5000, std::ios::end);
  file.put('?');
  file.close();
  EXPECT_EQ(load(*tier, a), 0);
  EXPECT_EQ(tier->counters().damaged_files.value(), 1u);
  EXPECT_TRUE(tier->on());
  EXPECT_EQ(load(*tier, b), 8);
  EXPECT_EQ(store(*tier, a), 8) << "it may be stored again";
  EXPECT_EQ(load(*tier, a), 8);
}

TEST_F(DiskTierTest, CutForeignAndMissingFilesAreRefusedAtTheStartOrWhenRead) {
  const Tokens a = sequence(8), b = sequence(8, 2), c = sequence(8, 3), d = sequence(8, 4);
  {
    auto tier = open(options());
    for (const Tokens& tokens : {a, b, c, d}) store(*tier, tokens);
  }
  const auto paths = files();
  ASSERT_EQ(paths.size(), 4u);
  std::filesystem::resize_file(paths[0], std::filesystem::file_size(paths[0]) - 4096);
  {
    std::ofstream(paths[1], std::ios::binary) << "something else";
  }
  auto tier = open(options());
  EXPECT_EQ(tier->counters().damaged_files.value(), 2u);
  EXPECT_EQ(load(*tier, a) + load(*tier, b), 0);
  std::filesystem::remove(paths[2]);
  EXPECT_EQ(load(*tier, c), 0);
  EXPECT_EQ(load(*tier, d), 8);
  EXPECT_TRUE(tier->on());
}

TEST_F(DiskTierTest, AFileThatWasCopiedUnderAnothersNameHandsOutNothingWrong) {
  const Tokens a = sequence(8), b = sequence(8, 2);
  auto tier = open(options());
  store(*tier, a);
  store(*tier, b);
  const auto paths = files();
  std::filesystem::copy_file(paths[0], paths[1], std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(load(*tier, b), 0);
  tier.reset();
  std::filesystem::copy_file(paths[0], paths[0].parent_path() / "00000000000000ff.kv");
  tier = open(options());
  EXPECT_EQ(load(*tier, a), 8);
  EXPECT_EQ(files().size(), 1u) << "held twice, kept once";
}

TEST_F(DiskTierTest, AFullDiskSwitchesTheTierOffAndNothingElse) {
  for (const FileCall failing : {FileCall::open, FileCall::write, FileCall::sync, FileCall::rename, FileCall::read}) {
    std::atomic<bool> full{false};
    auto o = options();
    o.key = std::to_string(static_cast<int>(failing));
    o.fault = [&](FileCall call) { return full && call == failing ? ENOSPC : 0; };
    auto tier = open(o);
    const Tokens a = sequence(8), b = sequence(8, 2);
    store(*tier, a);
    full = true;
    store(*tier, b);
    load(*tier, a);
    EXPECT_FALSE(tier->on());
    tier->collect();
    EXPECT_TRUE(tier->find("", a, 0).empty());
    EXPECT_TRUE(tier->missing("", b, 0).empty());
    EXPECT_EQ(tier->counters().on.value(), 0);
    full = false;
    tier.reset();
    EXPECT_EQ(load(*open(o), a), 8) << "what was whole is found by the next process";
  }
}

// The n-th call fails and all after it: what a crash at that point leaves. The next process must come up and hand out
// nothing that is not right.
TEST_F(DiskTierTest, ACrashAtAnyPointLeavesAFolderThatWorks) {
  for (int n = 0; n < 60; ++n) {
    auto o = options();
    o.capacity = 300'000;
    o.key = std::to_string(n);
    std::atomic<int> calls{0};
    o.fault = [&](FileCall) { return calls++ >= n ? EIO : 0; };
    {
      auto tier = open(o);
      for (int i = 0; i < 8; ++i) store(*tier, sequence(8, i));
    }
    calls = 0;
    o.fault = {};
    for (const auto& path : files()) std::ofstream(path.parent_path() / "00000000000000aa.kv.tmp") << "half a file";
    auto tier = open(o);
    EXPECT_FALSE(std::filesystem::exists(tier->folder() / "00000000000000aa.kv.tmp"));
    EXPECT_EQ(tier->counters().damaged_files.value(), 0u);
    for (int i = 0; i < 8; ++i) {
      const int blocks = load(*tier, sequence(8, i));
      EXPECT_TRUE(blocks == 0 || blocks == 8);
    }
    EXPECT_EQ(store(*tier, sequence(8, 20)), 8);
    EXPECT_EQ(load(*tier, sequence(8, 20)), 8);
    EXPECT_TRUE(tier->catalogue().check().ok());
  }
}

TEST_F(DiskTierTest, ACancelledLoadSendsNothingMoreAndLetsGoOfItsFiles) {
  auto tier = open(options(false));
  const Tokens a = sequence(3000);
  store(*tier, a);
  for (int i = 0; i < 20; ++i) tier->cancel(tier->load("", a, 0, tier->find("", a, 0)));
  const auto until = soon();
  bool busy = true;
  while (busy && std::chrono::steady_clock::now() < until) {
    EXPECT_TRUE(tier->collect().empty());
    busy = false;
    tier->catalogue().for_each_file([&](FileId, const PrefixCatalogue::File& f) { busy = busy || f.users > 0; });
  }
  EXPECT_FALSE(busy);
  EXPECT_EQ(load(*tier, a), 3000);
}

TEST_F(DiskTierTest, WhenTheDiskIsBehindStoringIsDroppedAndNobodyWaits) {
  std::mutex gate;
  auto o = options(false);
  o.block_bytes = 1 << 20;
  o.fault = [&](FileCall) {
    std::lock_guard wait(gate);
    return 0;
  };
  auto tier = open(o);
  gate.lock();
  int dropped = 0;
  for (int i = 0; i < 20; ++i) {
    const Tokens tokens = sequence(1, i);
    const auto stored = tier->store("", tokens, {0, 1}, [](std::span<std::byte>) {});
    dropped += stored == DiskTier::Store::busy ? 1 : 0;
  }
  gate.unlock();
  EXPECT_EQ(dropped, 16) << "four buffers";
  EXPECT_EQ(tier->counters().dropped_tokens_busy.value(), 16u * kBlockTokens);
  EXPECT_TRUE(tier->flush(soon()));
}

TEST_F(DiskTierTest, WhatWasClearedIsNotThereAtTheNextStart) {
  std::atomic<bool> slow{false};
  auto o = options();
  o.fault = [&](FileCall) {
    if (slow) std::this_thread::sleep_for(50ms);
    return 0;
  };
  auto tier = open(o);
  store(*tier, sequence(2));
  slow = true;
  const Tokens other = sequence(2, 2);
  tier->store("", other, {0, 2}, [](std::span<std::byte> bytes) { std::ranges::fill(bytes, std::byte{1}); });
  tier->clear();  // waits behind the writing
  tier.reset();
  slow = false;
  EXPECT_EQ(open(o)->catalogue().bytes(), 0u);
}

TEST_F(DiskTierTest, MemoryAloneNeedsNoFolder) {
  auto o = options(false);
  o.base = "/proc/no folder can be made here";
  o.capacity = 0;
  o.host_bytes = 32 << 20;
  auto tier = open(o);
  const Tokens a = sequence(3000), b = sequence(5, 2);
  expect_both_to_come_back(*tier, a, b);
  EXPECT_TRUE(tier->in_host_memory(tier->find("", a, 0)));
  EXPECT_GE(tier->counters().host_bytes.value(), 3005.0 * 8192);
  tier->clear();
  EXPECT_TRUE(tier->flush(soon()));
  EXPECT_EQ(load(*tier, a), 0);
  tier->collect();
  EXPECT_EQ(tier->counters().host_bytes.value(), 0);
}

TEST_F(DiskTierTest, MemoryAloneStaysBelowItsSizeAndTheLastUsedStays) {
  auto o = options(false);
  o.capacity = 0;
  o.host_bytes = 1 << 20;  // less than 128 blocks of 8 KiB with their headers
  auto tier = open(o);
  const Tokens kept = sequence(10, 99);
  store(*tier, kept);
  for (int i = 0; i < 60; ++i) {
    store(*tier, sequence(10, i));
    EXPECT_EQ(load(*tier, kept), 10);
    EXPECT_LE(tier->counters().host_bytes.value(), static_cast<double>(o.host_bytes));
  }
  EXPECT_EQ(load(*tier, sequence(10, 0)), 0);
  EXPECT_EQ(load(*tier, sequence(10, 59)), 10);
  EXPECT_EQ(store(*tier, sequence(400, 7)), 0) << "larger than the whole tier";
}

TEST_F(DiskTierTest, WhatLeavesMemoryGoesToDiskAndComesBackFromThere) {
  auto o = options(false);
  o.capacity = 8 << 20;
  o.host_bytes = 1 << 20;
  auto tier = open(o);
  for (int i = 0; i < 60; ++i) store(*tier, sequence(10, i));
  EXPECT_LE(tier->counters().host_bytes.value(), static_cast<double>(o.host_bytes));
  EXPECT_GT(bytes_on_disk(), 0u);
  EXPECT_LE(bytes_on_disk(), o.capacity);
  EXPECT_FALSE(tier->in_host_memory(tier->find("", sequence(10, 0), 0)));
  EXPECT_TRUE(tier->in_host_memory(tier->find("", sequence(10, 59), 0)));
  for (int i = 0; i < 60; ++i) EXPECT_EQ(load(*tier, sequence(10, i)), 10) << i;
}

TEST_F(DiskTierTest, ARestartFindsWhatLayInMemory) {
  auto o = options();
  o.host_bytes = 16 << 20;
  {
    auto tier = open(o);
    for (int i = 0; i < 20; ++i) store(*tier, sequence(10, i));  // each ends with flush()
  }
  auto tier = open(o);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(load(*tier, sequence(10, i)), 10) << i;
}

TEST_F(DiskTierTest, AFullDiskBehindMemoryKeepsToItsLimitAtTheEnd) {
  auto o = options();
  o.capacity = 1 << 20;
  o.host_bytes = 4 << 20;
  {
    auto tier = open(o);
    for (int i = 0; i < 40; ++i) store(*tier, sequence(10, i));
  }
  EXPECT_LE(bytes_on_disk(), o.capacity);
  EXPECT_EQ(load(*open(o), sequence(10, 39)), 10);
}

TEST_F(DiskTierTest, ClearingRemovesTheFiles) {
  auto tier = open(options());
  const Tokens a = sequence(8);
  store(*tier, a);
  const auto id = tier->load("", a, 0, tier->find("", a, 0));
  tier->clear();
  EXPECT_TRUE(tier->flush(soon()));
  for (auto& piece : tier->collect()) EXPECT_NE(piece.load, id);
  EXPECT_TRUE(files().empty());
  EXPECT_EQ(tier->catalogue().bytes(), 0u);
  EXPECT_EQ(load(*tier, a), 0);
  EXPECT_EQ(store(*tier, a), 8);
}

}  // namespace
}  // namespace espalier::disk_tier_test
