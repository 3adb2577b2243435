#include "engine/memory/page_prefault.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>

#include "tensor/huge_pages.h"

namespace espalier::page_prefault_test {
namespace {

class PagePrefaultTest : public ::testing::Test {
 protected:
  static constexpr int kSlots = 64 * kSegmentSlots;
  static constexpr std::size_t kSegment = std::size_t{1} << 20;  // bytes: 2 x 4 layers x 2 heads x 64 x bf16 x 512

  void SetUp() override {
    pool = KvPool::allocate({std::vector<TokenField>(4, {2, 64, 64}), KvType::bf16}, kSlots).value();
    ASSERT_EQ(pool.bytes_of(1), kSegment);
    ASSERT_EQ(pool.data_bytes(), 64 * kSegment);
    KvPool other = KvPool::allocate(pool.layout(), kSlots).value();
    if (!populate_pages(other.data(), kSegment)) GTEST_SKIP() << "this system gives no pages on request";
  }

  // Bytes from the start of the pool that have their pages.
  std::size_t resident() const {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    std::size_t bytes = 0;
    for (unsigned char there = 1; bytes < pool.data_bytes(); bytes += page) {
#ifdef __APPLE__
      mincore(pool.data() + bytes, page, reinterpret_cast<char*>(&there));
#else
      mincore(pool.data() + bytes, page, &there);
#endif
      if (!(there & 1)) break;
    }
    return bytes;
  }

  static bool reaches(const PagePrefault& pages, std::size_t bytes) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (pages.touched() < bytes && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    return pages.touched() == bytes;
  }

  KvPool pool;
};

TEST_F(PagePrefaultTest, PagesComeAheadOfTheSlotsThatWereUsed) {
  PagePrefault pages(pool, 8 * kSegment);
  pages.idle(0);
  EXPECT_TRUE(reaches(pages, 8 * kSegment));
  EXPECT_GE(resident(), 8 * kSegment);
  EXPECT_LT(resident(), 16 * kSegment);
  pages.busy();
  pages.idle(5 * kSegmentSlots + 1);
  EXPECT_TRUE(reaches(pages, 14 * kSegment));
  EXPECT_GE(resident(), 14 * kSegment);
}

TEST_F(PagePrefaultTest, WhatIsStoredStaysAndThePoolsEndIsTheEnd) {
  for (std::size_t i = 0; i < pool.data_bytes(); i += 4096) pool.data()[i] = std::byte(i >> 12);
  PagePrefault pages(pool, 1000 * kSegment);
  pages.idle(3);
  EXPECT_TRUE(reaches(pages, 64 * kSegment));
  for (std::size_t i = 0; i < pool.data_bytes(); i += 4096) ASSERT_EQ(pool.data()[i], std::byte(i >> 12)) << i;
}

TEST_F(PagePrefaultTest, NothingIsTouchedBeforeTheEngineRestsOrWhereNothingIsWanted) {
  {
    PagePrefault pages(pool, 8 * kSegment);
    pages.busy();
  }
  PagePrefault none(pool, 0);
  none.idle(1);
  EXPECT_EQ(none.touched(), 0u);
  EXPECT_EQ(resident(), 0u);
}

TEST_F(PagePrefaultTest, SlotsThatWereUsedMeanwhileAreNotTouchedAgain) {
  PagePrefault pages(pool, 2 * kSegment);
  pages.idle(20 * kSegmentSlots);
  EXPECT_TRUE(reaches(pages, 22 * kSegment));
  EXPECT_EQ(resident(), 0u);  // of the first 20, which nobody used in truth
}

}  // namespace
}  // namespace espalier::page_prefault_test
