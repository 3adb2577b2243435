// Guesses by the layer that a checkpoint brings: the answers are those without, however the work is cut, shared, retracted or
// carried by a recurrent state; guesses come true and are refused on the way.
#include "engine/draft/layer_guesser.h"

#include <gtest/gtest.h>

#include "engine/step/core_requests.h"
#include "testing/golden_name.h"

namespace espalier::layer_guesser_test {
namespace {

using testing::Answers;
using testing::burst;
using testing::CoreHarness;
using testing::expect_all_finished;
using testing::forty_requests;
using testing::GoldenModel;
using testing::options;
using testing::random_arrivals;
using testing::random_request;
using testing::random_tokens;
using testing::request;

CoreOptions guessing(CoreOptions o = options(), int forced = 4) {
  o.drafts = DraftSource::layer;
  o.draft_limits.forced = forced;
  return o;
}

CoreOptions apart(CoreOptions o, int window_slots) {
  o.window_slots = window_slots;
  return o;
}

CoreOptions eager(CoreOptions o) {
  o.conservativeness = 0.0;  // admits as if nobody would say anything, so that the pool runs full
  return o;
}

// What came of the guesses in one run.
struct Guesses {
  std::uint64_t made = 0, true_ones = 0, retractions = 0, cached = 0;
};

class ByTheModelsOwnLayer : public ::testing::TestWithParam<std::string> {
 protected:
  // The forty requests twice over; the second time the tree knows them.
  Guesses answers_alike(GoldenModel& model, const Answers& plain, CoreOptions o, int slots, KvType type,
                        const char* how) {
    CoreHarness harness(model, std::move(o), slots, type);
    harness.attach_layer(model);
    for (int round = 0; round < 2; ++round) {
      for (auto& fields : forty_requests(model.vocabulary)) harness.add(fields);
      harness.run();
    }
    expect_all_finished(harness);
    EXPECT_EQ(Answers(harness.answers.begin(), harness.answers.begin() + 40), plain) << how;
    EXPECT_EQ(Answers(harness.answers.begin() + 40, harness.answers.end()), plain) << how << ", again";
    EXPECT_TRUE(harness.core.flush_cache());
    EXPECT_EQ(harness.core.status().free_tokens, slots);
    const EngineMetrics& m = harness.metrics;
    return {m.drafted_tokens.value(), m.accepted_tokens.value(), m.preemptions.value(), m.cached_tokens.value()};
  }
  static std::string name() { return "nextn/" + GetParam(); }
};

TEST_P(ByTheModelsOwnLayer, AnswersAreThoseWithoutIt) {
  for (const auto& [mode, type] :
       {std::pair(Activations::f32, KvType::f32), std::pair(Activations::int8, KvType::bf16)}) {
    GoldenModel without(name(), mode, 2), with(name(), mode, 2, 600, true);
    const Answers plain = burst(without, options(), 8192, type);
    const Guesses g = answers_alike(with, plain, guessing(), 8192, type, "one burst");
    EXPECT_GT(g.true_ones, 50u);
    EXPECT_GT(g.made, g.true_ones);
    EXPECT_GT(g.cached, 0u);
    answers_alike(with, plain, guessing(options(16)), 8192, type, "chunks of 16");
    answers_alike(with, plain, guessing(options(512, false)), 8192, type, "cache off");
    answers_alike(with, plain, guessing(options(), 1), 8192, type, "one guess at a time");
    const Guesses short_of_room = answers_alike(with, plain, guessing(eager(options(64))), 260, type, "retracted");
    EXPECT_GT(short_of_room.retractions, 0u);
    EXPECT_GT(short_of_room.true_ones, 0u);
  }
}

TEST_P(ByTheModelsOwnLayer, FewStatesChangeNoAnswer) {
  GoldenModel without(name(), Activations::f32), with(name(), Activations::f32, 1, 600, true);
  if (with.decoder->keeps().state_floats == 0) GTEST_SKIP() << "this one keeps no state";
  const Answers plain = burst(without, options(), 8192, KvType::f32);
  for (const int cells : {2, 3, 9}) {
    CoreOptions o = guessing(options(64), 3);
    o.state_cells = cells;
    answers_alike(with, plain, o, 8192, KvType::f32, "few cells");
  }
}

// The guess behind a token does not depend on how the tokens before came to be stored. Chunks leave room for guesses.
TEST_P(ByTheModelsOwnLayer, ComesTrueAsOftenOnCachedPromptsAsOnComputedOnes) {
  GoldenModel model(name(), Activations::f32, 1, 600, true);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> seen;
  for (const int chunk : {512, 32, 24}) {
    CoreHarness harness(model, guessing(options(chunk)), 4096);
    harness.attach_layer(model);
    for (int round = 0; round < 2; ++round) {
      const auto made = harness.metrics.drafted_tokens.value(), right = harness.metrics.accepted_tokens.value();
      std::mt19937_64 rng(11);
      for (int i = 0; i < 6; ++i) {
        harness.add(request(random_tokens(rng, 60, model.vocabulary), 30));
        harness.run();
      }
      seen.emplace_back(harness.metrics.drafted_tokens.value() - made, harness.metrics.accepted_tokens.value() - right);
    }
  }
  for (const auto& each : seen) EXPECT_EQ(each, seen.front());
  EXPECT_GT(seen.front().second, 0u);
}

TEST_P(ByTheModelsOwnLayer, RandomArrivalsAndDeparturesKeepEveryInvariant) {
  GoldenModel model(name(), Activations::f32, 1, 600, true);
  CoreOptions o = options(48);
  o.conservativeness = 0.1;
  o.max_running = 9;
  CoreHarness harness(model, guessing(o, 3), 400);
  harness.attach_layer(model);
  std::mt19937_64 rng{testing::seed()};
  const auto system = random_tokens(rng, 40, model.vocabulary);
  random_arrivals(harness, rng, 300, [&](int) {
    RequestFields fields = random_request(rng, rng() % 2 ? system : std::vector<TokenId>{}, 90, model.vocabulary);
    fields.sampling.temperature = rng() % 2 ? 0 : 1;
    return fields;
  });
  harness.run();
  expect_all_finished(harness);
  EXPECT_GT(harness.metrics.drafted_tokens.value(), 0u);
}

bool reads_through_windows(GoldenModel& model) {
  return windows_of(model.parts().seen, INT32_MAX).seen.rule != Visibility::Rule::all;
}

TEST_P(ByTheModelsOwnLayer, WindowSlotsOfTheirOwnChangeNoAnswer) {
  GoldenModel without(name(), Activations::f32, 2), with(name(), Activations::f32, 2, 600, true);
  if (!reads_through_windows(with)) GTEST_SKIP() << "this one reads all of a text";
  const Answers plain = burst(without, options(), 8192, KvType::f32);
  const Guesses g = answers_alike(with, plain, apart(guessing(), 2048), 8192, KvType::f32, "many");
  EXPECT_GT(g.true_ones, 50u);
  const Guesses few = answers_alike(with, plain, apart(guessing(options(16)), 160), 8192, KvType::f32, "few");
  EXPECT_GT(few.true_ones, 0u);
  const Guesses both =
      answers_alike(with, plain, apart(guessing(eager(options(16)), 3), 160), 260, KvType::f32, "few of both");
  EXPECT_GT(both.retractions, 0u);
  EXPECT_GT(both.true_ones, 0u);
}

// In steps that nobody foresees, in little memory of either space: each request says what it says alone.
TEST_P(ByTheModelsOwnLayer, RequestsAtRandomInFewWindowSlotsSayWhatTheySayAlone) {
  GoldenModel without(name(), Activations::f32), with(name(), Activations::f32, 1, 600, true);
  if (!reads_through_windows(with)) GTEST_SKIP() << "this one reads all of a text";
  std::mt19937_64 rng{testing::seed()};
  const auto system = random_tokens(rng, 40, with.vocabulary);
  CoreOptions o = apart(guessing(options(24), 3), 128);
  o.conservativeness = 0.2;
  CoreHarness alone(without, options(), 4096), harness(with, o, 500);
  harness.attach_layer(with);
  for (int i = 0; i < 80; ++i) {
    RequestFields fields = random_request(rng, rng() % 2 ? system : std::vector<TokenId>{}, 90, with.vocabulary);
    fields.sampling.temperature = rng() % 2 ? 0 : 1;
    fields.sampling.seed = rng();
    alone.add(fields);
    alone.run();
    harness.add(fields);
    for (auto steps = rng() % 8; steps > 0; --steps) harness.step();
  }
  harness.run();
  expect_all_finished(harness);
  EXPECT_EQ(harness.answers, alone.answers);
  EXPECT_GT(harness.metrics.accepted_tokens.value(), 0u);
  EXPECT_TRUE(harness.core.flush_cache());
  EXPECT_EQ(harness.core.status().free_window_tokens, 128);
}

// Left to itself, without forced lengths: whatever the clock makes it do, the answers stay.
TEST_P(ByTheModelsOwnLayer, AdaptiveLengthsChangeNoAnswer) {
  GoldenModel without(name(), Activations::int8), with(name(), Activations::int8, 1, 600, true);
  const Answers plain = burst(without, options(), 8192, KvType::bf16);
  answers_alike(with, plain, guessing(options(), 0), 8192, KvType::bf16, "adaptive");
}

INSTANTIATE_TEST_SUITE_P(Nextn, ByTheModelsOwnLayer,
                         ::testing::Values("nextn-deepseek-v3", "nextn-glm4-moe", "nextn-qwen3-next", "nextn-mimo-v2",
                                           "nextn-exaone-moe", "nextn-nemotron-h"),
                         testing::golden_name);

}  // namespace
}  // namespace espalier::layer_guesser_test
