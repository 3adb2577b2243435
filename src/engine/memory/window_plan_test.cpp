#include "engine/memory/window_plan.h"

#include <gtest/gtest.h>

#include "model/program/builder.h"
#include "model/small_pool.h"

namespace espalier::window_plan_test {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

// Gemma 3 4B: 34 layers of 4 x 256 keys and values, every sixth sees everything, the others 1024 positions.
struct Gemma3 {
  CacheLayout layout{std::vector<TokenField>(34, {4, 256, 256}), KvType::bf16};
  std::vector<Visibility> seen;
  EngineOptions options;
  EngineChoices chosen;
  int context = 131072;
  Gemma3() {
    for (int layer = 0; layer < 34; ++layer) seen.push_back(layer % 6 == 5 ? Visibility{} : Visibility::window(1024));
  }
  PoolPlan with(std::int64_t bytes, double ratio = 0, std::size_t states = 0) {
    options.window_ratio = ratio;
    chosen.kv_memory = {bytes, 0, true};
    return plan_pool({options, chosen, layout, seen, context, 0}, {}, states);
  }
};

TEST(WindowPlan, MoreTokensFitIntoTheSameBytes) {
  Gemma3 model;
  for (const auto& [gib, running, times] : {std::tuple(4, 64, 1.7), {16, 64, 1.7}, {16, 16, 4.5}, {64, 64, 4.0}}) {
    model.chosen.max_running = running;
    const PoolPlan before = model.with(gib * kGiB, 1), now = model.with(gib * kGiB);
    EXPECT_FALSE(before.windows.apart());
    ASSERT_TRUE(now.windows.apart());
    EXPECT_GT(now.slots, times * before.slots) << gib << " GiB, " << running << " running";
    EXPECT_LE(now.windows.slots, now.slots / 2 + kSegmentSlots);
    EXPECT_GE(now.windows.slots, 1024 + model.chosen.chunk) << "one sequence alone";
    std::printf("Gemma 3 4B, %d GiB, %d running: %d tokens in one space; apart %d, and %d window slots\n", gib, running,
                before.slots, now.slots, now.windows.slots);
  }
}

TEST(WindowPlan, ThePoolTakesNoMoreThanItWasGiven) {
  Gemma3 model;
  const PoolPlan plan = model.with(4 * kGiB);
  CacheLayout of_windows{std::vector<TokenField>(29, {4, 256, 256}), KvType::bf16},
      of_tokens{std::vector<TokenField>(5, {4, 256, 256}), KvType::bf16};
  const auto bytes = static_cast<std::int64_t>(of_tokens.bytes_per_token()) * plan.slots +
                     static_cast<std::int64_t>(of_windows.bytes_per_token()) * plan.windows.slots;
  EXPECT_LE(bytes, 4 * kGiB);
  EXPECT_GT(bytes, 4 * kGiB - 200 * (1 << 20));
}

TEST(WindowPlan, OneSpaceWhereThatIsAsGood) {
  Gemma3 model;
  EXPECT_FALSE(model.with(kGiB, 1.0).windows.apart()) << "asked for";
  model.options.cache_dir = "prefixes";
  EXPECT_TRUE(model.with(4 * kGiB).windows.apart());
  EXPECT_FALSE(model.with(4 * kGiB, 0, 1 << 20).windows.apart()) << "prefixes on disk, which keeps states or windows";
  model.options.cache_dir.clear();
  EXPECT_TRUE(model.with(4 * kGiB, 0, 1 << 20).windows.apart());
  model.context = 2048;
  EXPECT_FALSE(model.with(4 * kGiB).windows.apart()) << "windows of half the context";
  model.context = 131072;
  model.seen.assign(34, {});
  EXPECT_FALSE(model.with(4 * kGiB).windows.apart()) << "no windows";
  model.seen.front() = Visibility::window(1024);
  EXPECT_FALSE(model.with(4 * kGiB).windows.apart()) << "one windowed layer of 34";
}

TEST(WindowPlan, AShareThatWasAskedForIsKept) {
  Gemma3 model;
  model.options.max_total_tokens = 100'352;
  const PoolPlan plan = model.with(0, 0.25);
  EXPECT_EQ(plan.slots, 100'352);
  EXPECT_EQ(plan.windows.slots, 25'088);
}

TEST(WindowPlan, AFieldIsSeenAsItsWidestReaderSeesIt) {
  testing::SmallSpec shape{.vocabulary = 10};
  shape.windows = {0, 8, 5};
  const ModelSpec spec = shape.make();
  const auto program = Builder::build(spec, nullptr);
  ASSERT_TRUE(program.ok()) << program.error().message;
  EXPECT_EQ(seen_fields(*program), (std::vector<Visibility>{{}, Visibility::window(8), Visibility::window(5)}));
  EXPECT_EQ(widest(Visibility::window(4), Visibility::window(9)), Visibility::window(9));
  EXPECT_EQ(widest(Visibility::window(4), {}), Visibility{});
  EXPECT_EQ(widest(Visibility::chunk(8), Visibility::chunk(8)), Visibility::chunk(8));
  const Visibility either = widest(Visibility::chunk(8), Visibility::window(3));
  for (std::int64_t position = 0; position < 40; ++position)
    EXPECT_LE(either.first(position),
              std::min(Visibility::chunk(8).first(position), Visibility::window(3).first(position)));
}

}  // namespace
}  // namespace espalier::window_plan_test
