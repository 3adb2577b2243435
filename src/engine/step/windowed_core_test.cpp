// The engine's core on models whose windowed layers lie in slots of their own: the same answers as in one space, in
// fewer slots than all tokens would take.
#include <gtest/gtest.h>

#include <random>

#include "engine/step/core_requests.h"

namespace espalier::windowed_core_test {
namespace {

using testing::Answers;
using testing::burst;
using testing::CoreHarness;
using testing::GoldenModel;
using testing::one_by_one;
using testing::options;
using testing::random_arrivals;
using testing::random_request;
using testing::random_tokens;
using testing::request;

CoreOptions apart(CoreOptions o, int window_slots) {
  o.window_slots = window_slots;
  return o;
}
CoreOptions drafting(CoreOptions o, int tokens) {
  o.drafts = DraftSource::tree;
  o.draft_limits.forced = tokens;
  return o;
}

class WindowsApart : public ::testing::TestWithParam<std::tuple<const char*, Activations, KvType>> {};

TEST_P(WindowsApart, GiveTheAnswersOfOneSpace) {
  const auto [name, mode, type] = GetParam();
  GoldenModel one(name, mode, 1), two(name, mode, 2);
  if (!one.decoder) GTEST_SKIP() << "left out: no goldens of " << name << " here";
  const Answers expected = one_by_one(one, type);
  EXPECT_EQ(burst(one, options(), 8192, type), expected) << "one space";
  EXPECT_EQ(burst(one, apart(options(), 8192), 8192, type), expected) << "one burst";
  EXPECT_EQ(burst(one, apart(options(512, false), 4096), 8192, type), expected) << "cache off";
  EXPECT_EQ(burst(two, apart(options(16), 1024), 8192, type), expected) << "chunks of 16, two threads";
  EXPECT_EQ(burst(one, drafting(apart(options(16), 512), 5), 8192, type), expected) << "with drafts";
  CoreOptions eager = options(16);
  eager.conservativeness = 0.0;
  std::uint64_t preemptions = 0;
  EXPECT_EQ(burst(one, apart(eager, 160), 8192, type, &EngineMetrics::preemptions, &preemptions), expected)
      << "few window slots";
  EXPECT_EQ(burst(one, drafting(apart(eager, 192), 3), 260, type, &EngineMetrics::preemptions, &preemptions), expected)
      << "few slots of either space, drafts";
  EXPECT_GT(preemptions, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Models, WindowsApart,
    ::testing::Values(std::tuple("models/gemma3-v5", Activations::f32, KvType::f32),  // alternating
                      std::tuple("models/gemma3-v5", Activations::int8, KvType::bf16),
                      std::tuple("models/mistral-sliding", Activations::f32, KvType::i8),  // nothing but windows
                      std::tuple("models/mimo-plain", Activations::f32, KvType::f16),      // sinks, other heads
                      std::tuple("models/gpt-oss", Activations::f32, KvType::f32),
                      std::tuple("models/llama4-text", Activations::f32, KvType::f32),        // chunks
                      std::tuple("models/gemma3n-four", Activations::f32, KvType::f8_e4m3)),  // layers that share
    [](const auto& param) {
      std::string name =
          std::string(std::get<0>(param.param) + 7) + (std::get<1>(param.param) == Activations::f32 ? "_f32" : "_int8");
      std::ranges::replace_if(name, [](char c) { return !std::isalnum(c); }, '_');
      return name;
    });

class OnWindowedModel : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!model.decoder) GTEST_SKIP() << "left out: no goldens here";
  }
  int cached(CoreHarness& harness, const std::vector<TokenId>& prompt, int said = 4) {
    const int at = harness.add(request(prompt, said));
    harness.run();
    last = harness.answers[static_cast<std::size_t>(at)][0];
    return last.finish.usage.cached_tokens;
  }
  std::vector<TokenId> text(int n) { return random_tokens(rng, n, model.vocabulary); }

  GoldenModel model{"models/gemma3-v5", Activations::f32, 1};
  std::mt19937_64 rng{testing::seed()};
  testing::Answer last;
};

TEST_F(OnWindowedModel, ALongAnswerNeedsNoMoreWindowSlotsThanItsWindow) {
  const auto prompt = text(40);
  CoreHarness one_space(model, options(16), 512), harness(model, apart(options(16), 96), 512);
  cached(one_space, prompt, 440);
  const auto expected = last;
  cached(harness, prompt, 440);
  EXPECT_EQ(last, expected);
  EXPECT_EQ(harness.metrics.preemptions.value(), 0u);
}

TEST_F(OnWindowedModel, ALongPromptNeedsNoMoreThanItsWindowAndAChunk) {
  const auto prompt = text(480);
  CoreHarness one_space(model, options(), 512), harness(model, apart(options(16), 96), 512);
  cached(one_space, prompt, 8);
  const auto expected = last;
  cached(harness, prompt, 8);
  EXPECT_EQ(last, expected);
  EXPECT_EQ(harness.metrics.preemptions.value(), 0u);
}

TEST_F(OnWindowedModel, AConversationGoesOnBehindItsAnswer) {
  CoreHarness harness(model, apart(options(), 1024), 4096);
  auto history = text(60);
  int known = 0;
  for (int turn = 0; turn < 4; ++turn) {
    EXPECT_EQ(cached(harness, history, 50), known) << turn;
    history.insert(history.end(), last.tokens.begin(), last.tokens.end());
    known = static_cast<int>(history.size()) - 1;
    const auto question = text(20);
    history.insert(history.end(), question.begin(), question.end());
  }
}

TEST_F(OnWindowedModel, APromptWhoseWindowSlotsWentIsComputedAgainAndThereAgain) {
  CoreHarness harness(model, apart(options(32), 256), 8192), fresh(model, options(), 8192);
  const auto prompt = text(200);
  cached(fresh, prompt, 20);
  const auto expected = last;
  EXPECT_EQ(cached(harness, prompt, 20), 0);
  EXPECT_EQ(cached(harness, prompt, 20), 199);
  EXPECT_EQ(last, expected);
  for (int i = 0; i < 12; ++i) cached(harness, text(150), 4);
  EXPECT_LT(cached(harness, prompt, 20), 199);
  EXPECT_EQ(last.finish.usage.cache_end, "no_window");
  EXPECT_EQ(last, expected);
  EXPECT_EQ(cached(harness, prompt, 20), 199);
  EXPECT_EQ(last, expected);
}

TEST_F(OnWindowedModel, APinKeepsWhatItsEndReads) {
  CoreHarness harness(model, apart(options(32), 256), 8192);
  const auto prompt = text(100);
  cached(harness, prompt);
  ASSERT_TRUE(harness.core.pin({"system", "", prompt, 0}).ok());
  for (int i = 0; i < 20; ++i) cached(harness, text(150));
  EXPECT_EQ(cached(harness, prompt), 99);
  EXPECT_TRUE(harness.core.pins().release("system"));
  for (int i = 0; i < 20; ++i) cached(harness, text(150));
  EXPECT_LT(cached(harness, prompt), 99);
}

TEST_F(OnWindowedModel, ChoicesOfOnePromptShareItsWindow) {
  CoreHarness harness(model, apart(options(), 1024), 4096);
  RequestFields fields = request(text(200), 10);
  fields.sampling.n = 8;
  fields.sampling.temperature = 1;
  fields.sampling.seed = 5;
  harness.add(fields);
  harness.run();
  EXPECT_EQ(harness.metrics.computed_tokens.value(), 200u + 8 * 9);
}

TEST_F(OnWindowedModel, ManyRequestsAtRandomKeepEverythingInOrder) {
  for (const int window_slots : {128, 400}) {
    CoreOptions o = drafting(apart(options(24), window_slots), 3);
    o.conservativeness = 0.2;
    CoreHarness harness(model, o, 700);
    const auto beginning = text(50);
    random_arrivals(harness, rng, 400, [&](int i) {
      return random_request(rng, i % 2 == 0 ? beginning : std::vector<TokenId>{}, 90, model.vocabulary);
    });
    harness.run();
    for (const auto& choices : harness.answers)
      for (const testing::Answer& answer : choices) EXPECT_TRUE(answer.finished);
    EXPECT_TRUE(harness.core.flush_cache());
    EXPECT_EQ(harness.core.status().free_window_tokens, window_slots);
  }
}

}  // namespace
}  // namespace espalier::windowed_core_test
