// Groups whose ranks are threads: what every kind of group has in common.
#include "ranks/rank_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "ranks/group.h"
#include "ranks/rank_script.h"
#include "testing/data.h"

namespace espalier::ranks {
namespace {

using ::testing::HasSubstr;

GroupOptions options_for(std::size_t most_bytes) {
  GroupOptions options;
  options.max_part_bytes = most_bytes;
  options.on_loss = [](const Error& why, bool) { ADD_FAILURE() << why.message; };
  return options;
}

// Calls `body(rank)` in a thread for each.
template <class Body>
void in_all(std::vector<std::unique_ptr<Collective>>& group, Body body) {
  std::vector<std::jthread> threads;
  for (auto& rank : group) threads.emplace_back([&body, &rank] { body(*rank); });
}

TEST(RankGroup, GivesEveryRankWhatAllGaveAtEverySize) {
  for (const int size : {1, 2, 3, 4, 8}) {
    auto group = thread_group(size, options_for(100'003));
    ASSERT_EQ(group.size(), static_cast<std::size_t>(size));
    in_all(group, [&](Collective& rank) {
      const auto wrong = espalier::testing::RankScript(rank, espalier::testing::seed(), 100'003).run(150);
      EXPECT_FALSE(wrong) << "rank " << rank.rank() << " of " << size << ": " << *wrong;
    });
  }
}

TEST(RankGroup, AMessageOfManyPiecesComesWhole) {
  auto group = thread_group(3, options_for(1));
  std::vector<std::byte> sent(7 * kPieceBytes + 13);
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * i >> 3);
  in_all(group, [&](Collective& rank) {
    for (const std::size_t bytes : {sent.size(), kPieceBytes, std::size_t{0}, kPieceBytes + 1}) {
      std::vector<std::byte> wanted(sent.begin(), sent.begin() + static_cast<std::ptrdiff_t>(bytes));
      std::vector<std::byte> message = rank.rank() == 2 ? wanted : std::vector<std::byte>();
      rank.broadcast(2, message);
      EXPECT_EQ(message, wanted);
    }
  });
}

TEST(RankGroup, APartStaysReadableWhileTheNextIsPacked) {
  auto group = thread_group(2, options_for(4096));
  in_all(group, [](Collective& rank) {
    const std::size_t bytes[] = {4096, 4096};
    for (int round = 0; round < 50; ++round) {
      std::byte* mine = rank.outgoing(4096);
      std::fill_n(mine, 4096, static_cast<std::byte>(round * 2 + rank.rank()));
      rank.exchange(bytes);
      std::fill_n(rank.outgoing(4096), 4096, std::byte{0xee});
      for (int other : {0, 1})
        for (int i = 0; i < 4096; ++i) ASSERT_EQ(rank.incoming(other)[i], static_cast<std::byte>(round * 2 + other));
    }
  });
}

TEST(RankGroup, RefusesPartsThatAreLargerThanWasSaid) {
  auto group = thread_group(1, options_for(100));
  EXPECT_NO_THROW(group[0]->outgoing(100));
  EXPECT_THROW(group[0]->outgoing(101), std::length_error);
  const std::size_t large[] = {101}, many[] = {1, 1};
  EXPECT_THROW(group[0]->exchange(large), std::length_error);
  EXPECT_THROW(group[0]->exchange(many), std::length_error);
}

TEST(RankGroup, CountsWhatItMoved) {
  auto group = thread_group(2, options_for(1000));
  in_all(group, [](Collective& rank) {
    const std::size_t bytes[] = {10, 300};
    rank.outgoing(bytes[rank.rank()]);
    rank.exchange(bytes);
    std::vector<std::byte> message(rank.rank() == 0 ? 5 : 0);
    rank.broadcast(0, message);
    rank.barrier();
  });
  const auto first = group[0]->figures(), second = group[1]->figures();
  EXPECT_EQ(first.exchanges, 1u);
  EXPECT_EQ(first.broadcasts, 1u);
  EXPECT_EQ(first.barriers, 1u);
  EXPECT_EQ(first.bytes_sent, 15u);
  EXPECT_EQ(first.bytes_received, 300u);
  EXPECT_EQ(second.bytes_sent, 300u);
  EXPECT_EQ(second.bytes_received, 15u);
  EXPECT_GT(second.waited_seconds, 0);
}

TEST(RankGroup, NamesTheRankThatOthersWaitFor) {
  auto group = thread_group(3, options_for(1000));
  const std::size_t bytes[] = {100, 20, 3};
  std::jthread first([&] { group[0]->exchange(bytes); });
  std::jthread third([&] { group[2]->exchange(bytes); });
  std::optional<LateRank> late;
  while (!(late = group[0]->waiting_for())) std::this_thread::yield();
  EXPECT_EQ(late->rank, 1);
  EXPECT_EQ(late->what, "exchange of 123 bytes");
  EXPECT_FALSE(group[1]->waiting_for());
  group[1]->exchange(bytes);
  first.join();
  EXPECT_FALSE(group[0]->waiting_for());
}

// What handlers were told.
struct Told {
  std::mutex mutex;
  std::vector<std::string> lines;
  int calls = 0, first = 0;
};

GroupOptions telling(Told& told) {
  GroupOptions options = options_for(1000);
  options.on_loss = [&told](const Error& why, bool tell) {
    const std::scoped_lock lock(told.mutex);
    ++told.calls;
    told.first += tell ? 1 : 0;
    told.lines.push_back(why.message);
  };
  return options;
}

TEST(RankGroup, ARankThatLeavesEndsCallsThatWaitForIt) {
  Told told;
  auto group = thread_group(3, telling(told));
  std::jthread second([&] { group[1]->barrier(); });
  std::jthread first([&] { group[0]->barrier(); });
  group[2].reset();
  first.join();
  second.join();
  EXPECT_TRUE(group[0]->ended());
  EXPECT_EQ(told.calls, 2);
  EXPECT_EQ(told.first, 1);
  for (const std::string& line : told.lines) EXPECT_THAT(line, HasSubstr("rank 2 of 3"));
  group[0]->barrier();  // returns
}

TEST(RankGroup, LeavingWhenAllIsDoneTellsNothing) {
  Told told;
  auto group = thread_group(2, telling(told));
  in_all(group, [](Collective& rank) { rank.barrier(); });
  group.clear();
  EXPECT_EQ(told.calls, 0);
}

TEST(RankGroup, OneRankEndsAllAndSaysWhy) {
  Told told;
  auto group = thread_group(4, telling(told));
  std::vector<std::jthread> threads;
  for (const int rank : {0, 2, 3})
    threads.emplace_back([&group, rank] { group[static_cast<std::size_t>(rank)]->barrier(); });
  group[1]->end("no memory");
  threads.clear();
  EXPECT_EQ(told.calls, 4);
  for (const std::string& line : told.lines) EXPECT_EQ(line, "rank 1 of 4 ends the group: no memory");
}

TEST(RankGroup, ADisagreementAboutLengthsIsToldAsSuch) {
  Told told;
  auto group = thread_group(2, telling(told));
  in_all(group, [](Collective& rank) {
    const std::size_t bytes[] = {rank.rank() == 0 ? 100u : 99u, 50};
    rank.outgoing(50);
    rank.exchange(bytes);
  });
  ASSERT_FALSE(told.lines.empty());
  EXPECT_THAT(told.lines[0], HasSubstr("gives 100 bytes where rank 1 expects 99"));
}

TEST(RankGroup, MoreRanksThanProcessorsComeToAnEnd) {
  auto group = thread_group(24, options_for(2000));
  in_all(group, [&](Collective& rank) {
    const auto wrong = espalier::testing::RankScript(rank, espalier::testing::seed(), 2000).run(60);
    EXPECT_FALSE(wrong) << *wrong;
  });
}

}  // namespace
}  // namespace espalier::ranks
