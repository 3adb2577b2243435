// Copying keys and values out and in, against a model that knows one token at a time.
#include "engine/memory/kv_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "testing/data.h"

namespace espalier::kv_copy_test {
namespace {

using Bytes = std::vector<std::byte>;

enum class Where : std::uint8_t { host, device };

class KvCopyTest : public ::testing::TestWithParam<std::tuple<KvType, int, Where>> {
 protected:
  void SetUp() override {
    if (std::get<2>(GetParam()) == Where::device) device_ = device::Device::open(device::Kind::emu).value();
  }
  static constexpr int kSlots = 1100;  // more than two segments

  // Heads of both kinds of widths, one row that is key and value, and keys alone.
  CacheLayout layout() const {
    const int d = std::get<1>(GetParam());
    return {{{2, d, d}, {1, d + 8, 16, true}, {3, 16, d}, {1, d, 0}}, std::get<0>(GetParam())};
  }

  // Every byte of a slot, by the layout's own words.
  Bytes token(const KvPool& pool, Slot slot) const {
    Bytes out;
    const auto put = [&](const void* from, std::size_t bytes) {
      const auto* b = static_cast<const std::byte*>(from);
      out.insert(out.end(), b, b + bytes);
    };
    const CacheLayout layout = this->layout();
    const int e = element_bytes(layout.type), in = slot % kSegmentSlots;
    for (std::size_t f = 0; f < layout.fields.size(); ++f) {
      const TokenField& field = layout.fields[f];
      const KvLayer& layer = pool.view().layers[f];
      const int k = padded_head(field.key_dim), v = padded_head(field.value_dim);
      for (int h = 0; h < field.heads; ++h) {
        const std::byte* keys = layer.keys + key_offset(layer, h, slot);
        for (int i = 0; i < k; ++i) {
          const int group = in / kSlotGroup, lane = in % kSlotGroup;
          const int at = field.latent                  ? in * k + i
                         : layout.type == KvType::bf16 ? ((group * k / 2 + i / 2) * kSlotGroup + lane) * 2 + i % 2
                                                       : (group * k + i) * kSlotGroup + lane;
          put(keys + at * e, static_cast<std::size_t>(e));
        }
        if (layer.values != nullptr)
          put(layer.values + value_offset(layer, h, slot) + in * v * e,
              static_cast<std::size_t>(v) * static_cast<std::size_t>(e));
        const auto s = static_cast<std::size_t>(h) * layer.head_scales + static_cast<std::size_t>(slot);
        if (layer.key_scales != nullptr) put(layer.key_scales + s, sizeof(float));
        if (layer.value_scales != nullptr) put(layer.value_scales + s, sizeof(float));
      }
    }
    return out;
  }

  KvPool random_pool() {
    KvPool pool = KvPool::allocate(layout(), kSlots, device_.get()).value();
    for (std::size_t i = 0; i < pool.data_bytes(); ++i) pool.data()[i] = std::byte(random_() & 0xff);
    const CacheLayout layout = this->layout();
    for (std::size_t f = 0; f < layout.fields.size(); ++f) {
      const KvLayer& layer = pool.view().layers[f];
      for (float* scales : {layer.key_scales, layer.value_scales})
        for (std::size_t i = 0; scales && i < static_cast<std::size_t>(layout.fields[f].heads) * layer.head_scales; ++i)
          scales[i] = static_cast<float>(random_() % 1000);
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
  std::unique_ptr<device::Device> device_;  // whose memory the pools are, or null
};

TEST_P(KvCopyTest, TokensComeBackBitForBitWhereverTheyLie) {
  for (int round = 0; round < 20; ++round) {
    KvPool from = random_pool(), to = random_pool();
    KvCopier out(from, team_), in(to, team_);
    ASSERT_EQ(out.block_bytes(), layout().bytes_per_token() * kBlockTokens);
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

// Slots are free for others as soon as their copy is begun; blocks stand until it is settled.
TEST_P(KvCopyTest, CopiesThatAreBegunEndWithSettling) {
  KvPool pool = random_pool();
  KvCopier copier(pool, team_);
  const std::size_t stride = copier.block_bytes() + (random_() % 2 ? 64 : 0);
  constexpr int kCopies = 7, kBlocks = 3;
  std::vector<Bytes> stored;
  std::vector<std::vector<Bytes>> expected;
  for (int i = 0; i < kCopies; ++i) {
    const ExtentList source = random_slots(kBlocks * kBlockTokens);
    auto& tokens = expected.emplace_back();
    for (int t = 0; t < source.length(); ++t) tokens.push_back(token(pool, source.slot_at(t)));
    stored.emplace_back(kBlocks * stride, std::byte(0xee));
    copier.begin_copy_out(source, stored.back(), stride);
    copier.copy_within(random_slots(40), source.slice(0, 40));  // as a step does
  }
  copier.settle();
  EXPECT_TRUE(copier.settled());
  std::vector<ExtentList> targets;
  for (int i = 0; i < kCopies; ++i) {
    targets.push_back(ExtentList(Extent{1 + 150 * i, kBlocks * kBlockTokens}));
    copier.begin_copy_in(stored[static_cast<std::size_t>(i)], stride, 0, targets.back());
    copier.copy_within(targets.back(), ExtentList(Extent{75 + 150 * i, kBlocks * kBlockTokens}));
  }
  copier.settle();
  for (std::size_t i = 0; i < kCopies; ++i)
    for (int t = 0; t < kBlocks * kBlockTokens; ++t) {
      ASSERT_EQ(token(pool, targets[i].slot_at(t)), expected[i][static_cast<std::size_t>(t)]) << i << ", token " << t;
      ASSERT_EQ(token(pool, targets[i].slot_at(t) + 74), expected[i][static_cast<std::size_t>(t)]) << "moved on";
    }
}

TEST_P(KvCopyTest, TokensMoveWithinThePool) {
  KvPool pool = random_pool();
  KvCopier copier(pool, team_);
  const int count = 1 + static_cast<int>(random_() % 120);  // twice as many fit between the gaps
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
  KvCopier copier(pool, team_);
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
                                            ::testing::Values(16, 24, 64), ::testing::Values(Where::host)));
INSTANTIATE_TEST_SUITE_P(OnADevice, KvCopyTest,
                         ::testing::Combine(::testing::Values(KvType::f32, KvType::bf16, KvType::i8),
                                            ::testing::Values(16, 24), ::testing::Values(Where::device)));

}  // namespace
}  // namespace espalier::kv_copy_test
