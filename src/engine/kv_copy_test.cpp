// Copying keys and values out and in, against a model that knows one token at a time.
#include "engine/kv_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "testing/data.h"

namespace espalier {
namespace {

using Bytes = std::vector<std::byte>;

class KvCopyTest : public ::testing::TestWithParam<std::tuple<KvType, int>> {
 protected:
  static constexpr int kSlots = 1100;  // more than two segments

  KvShape shape() const { return {3, 2, std::get<1>(GetParam()), std::get<0>(GetParam())}; }

  // Every byte of a slot, by the layout's own words.
  Bytes token(const KvPool& pool, Slot slot) const {
    Bytes out;
    const auto put = [&](const void* from, std::size_t bytes) {
      const auto* b = static_cast<const std::byte*>(from);
      out.insert(out.end(), b, b + bytes);
    };
    const int d = padded_head(shape().head_dim), e = element_bytes(shape().type), in = slot % kSegmentSlots;
    for (const KvLayer& layer : pool.view().layers) {
      for (int h = 0; h < shape().kv_heads; ++h) {
        const std::byte* keys = layer.keys + key_offset(layer, h, slot);
        const std::byte* values = layer.values + value_offset(layer, h, slot);
        for (int i = 0; i < d; ++i) {
          const int group = in / kSlotGroup, lane = in % kSlotGroup;
          const int at = shape().type == KvType::bf16 ? ((group * d / 2 + i / 2) * kSlotGroup + lane) * 2 + i % 2
                                                      : (group * d + i) * kSlotGroup + lane;
          put(keys + at * e, static_cast<std::size_t>(e));
        }
        put(values + in * d * e, static_cast<std::size_t>(d) * static_cast<std::size_t>(e));
        if (!has_scales(shape().type)) continue;
        const auto s = static_cast<std::size_t>(h) * layer.head_scales + static_cast<std::size_t>(slot);
        put(layer.key_scales + s, sizeof(float));
        put(layer.value_scales + s, sizeof(float));
      }
    }
    return out;
  }

  KvPool random_pool() {
    KvPool pool = KvPool::allocate(shape(), kSlots).value();
    const KvView view = pool.view();
    const KvLayer& first = view.layers[0];
    const std::size_t segments = (kSlots + kSegmentSlots - 1) / kSegmentSlots;
    for (std::size_t i = 0; i < segments * first.segment_bytes; ++i) first.keys[i] = std::byte(random_() & 0xff);
    if (has_scales(shape().type)) {
      for (const KvLayer& layer : view.layers) {
        for (std::size_t i = 0; i < 2 * layer.head_scales; ++i) {
          layer.key_scales[i] = static_cast<float>(random_() % 1000);
          layer.value_scales[i] = static_cast<float>(random_() % 1000);
        }
      }
    }
    return pool;
  }

  // Disjoint extents of `count` slots in all, in any order and alignment.
  ExtentList random_slots(int count) {
    std::vector<Slot> starts;
    for (Slot s = 0; s + 40 <= kSlots; s += 40) starts.push_back(s);
    std::shuffle(starts.begin(), starts.end(), random_);
    ExtentList slots;
    for (const Slot start : starts) {
      if (slots.length() == count) break;
      const int skip = random_() % 2 ? static_cast<int>(random_() % 20) : (16 - start % 16) % 16;
      slots.append({start + skip, std::min({count - slots.length(), 40 - skip, 1 + static_cast<int>(random_() % 40)})});
    }
    EXPECT_EQ(slots.length(), count);
    return slots;
  }

  std::mt19937_64 random_{testing::seed()};
  ComputeTeam team_{2};
};

TEST_P(KvCopyTest, TokensComeBackBitForBitWhereverTheyLie) {
  for (int round = 0; round < 20; ++round) {
    KvPool from = random_pool(), to = random_pool();
    KvCopier out(shape(), from.view(), team_), in(shape(), to.view(), team_);
    ASSERT_EQ(out.block_bytes(), shape().bytes_per_token() * kBlockTokens);
    const int blocks = 1 + static_cast<int>(random_() % 10);
    const std::size_t stride = out.block_bytes() + (round % 2 ? 64 : 0);
    Bytes bytes(static_cast<std::size_t>(blocks) * stride, std::byte(0xee));
    const ExtentList source = random_slots(blocks * kBlockTokens);
    out.copy_out(source, bytes, stride);

    const int skipped = static_cast<int>(random_() % static_cast<unsigned>(blocks * kBlockTokens));
    const int count = 1 + static_cast<int>(random_() % static_cast<unsigned>(blocks * kBlockTokens - skipped));
    const ExtentList target = random_slots(count);
    std::vector<Bytes> before;
    for (Slot s = 0; s < kSlots; ++s) before.push_back(token(to, s));
    in.copy_in(bytes, stride, skipped, target);
    std::vector<bool> written(kSlots);
    for (int i = 0; i < count; ++i) {
      written[static_cast<std::size_t>(target.slot_at(i))] = true;
      ASSERT_EQ(token(to, target.slot_at(i)), token(from, source.slot_at(skipped + i))) << "token " << i;
    }
    for (Slot s = 0; s < kSlots; ++s) {
      if (written[static_cast<std::size_t>(s)]) continue;
      ASSERT_EQ(token(to, s), before[static_cast<std::size_t>(s)]) << "slot " << s << " was not asked for";
    }
  }
}

TEST_P(KvCopyTest, TokensMoveWithinThePool) {
  KvPool pool = random_pool();
  KvCopier copier(shape(), pool.view(), team_);
  const int count = 1 + static_cast<int>(random_() % 200);
  const ExtentList both = random_slots(2 * count), from = both.slice(0, count), to = both.slice(count, count);
  std::vector<Bytes> expected;
  for (int i = 0; i < count; ++i) expected.push_back(token(pool, from.slot_at(i)));
  copier.copy_within(from, to);
  for (int i = 0; i < count; ++i) {
    ASSERT_EQ(token(pool, to.slot_at(i)), expected[static_cast<std::size_t>(i)]) << "token " << i;
    ASSERT_EQ(token(pool, from.slot_at(i)), expected[static_cast<std::size_t>(i)]) << "token " << i << " was changed";
  }
}

TEST_P(KvCopyTest, TheSameTokensGiveTheSameBytesWhereverTheyLie) {
  KvPool pool = random_pool();
  KvCopier copier(shape(), pool.view(), team_);
  const std::size_t stride = copier.block_bytes() + 32;
  Bytes first(4 * stride, std::byte(1)), second(4 * stride, std::byte(2));
  const ExtentList a(Extent{7, 64});
  copier.copy_out(a, first, stride);
  ExtentList b(Extent{600, 30});
  b.append({900, 34});
  copier.copy_in(first, stride, 0, b);
  copier.copy_out(b, second, stride);
  EXPECT_EQ(first, second);
}

INSTANTIATE_TEST_SUITE_P(Types, KvCopyTest,
                         ::testing::Combine(::testing::Values(KvType::f32, KvType::bf16, KvType::f16, KvType::i8,
                                                              KvType::f8_e4m3, KvType::f8_e5m2),
                                            ::testing::Values(16, 24, 64)));

}  // namespace
}  // namespace espalier
