// The engine's core on real (tiny) models: goldens, promise 1, memory, cancellation.
#include "engine/step/engine_core.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "engine/step/core_requests.h"
#include "engine/step/drawing_model.h"

namespace espalier::engine_core_test {
namespace {

using testing::Answer;
using testing::Answers;
using testing::burst;
using testing::CoreHarness;
using testing::expect_all_finished;
using testing::forty_requests;
using testing::GoldenModel;
using testing::one_by_one;
using testing::options;
using testing::random_arrivals;
using testing::random_request;
using testing::random_tokens;
using testing::request;

TEST(EngineCore, GreedyOutputAndLogprobsEqualTheGoldensInOneBatch) {
  GoldenModel model("models/qwen3-tied", Activations::f32);
  if (!model.decoder) GTEST_SKIP() << "left out: no goldens here";
  const auto golden = nlohmann::json::parse(testing::read_file(testing::golden("models/qwen3-tied") / "golden.json"));
  CoreHarness harness(model, options(), 1024);
  for (const auto& prompt : golden["prompts"]) {
    RequestFields fields = request(prompt["tokens"], 32);
    fields.logprobs.prompt_start = 0;
    harness.add(fields);
  }
  harness.run();
  for (std::size_t p = 0; p < golden["prompts"].size(); ++p) {
    const auto& prompt = golden["prompts"][p];
    const Answer& answer = harness.answers[p][0];
    EXPECT_EQ(answer.tokens, prompt["greedy"].get<std::vector<TokenId>>());
    for (std::size_t i = 0; i < answer.logprobs.size(); ++i)
      EXPECT_NEAR(answer.logprobs[i], prompt["greedy_logprobs"][i].get<double>(), 1e-3);
    EXPECT_EQ(answer.finish.reason, FinishReason::length);
    if (!prompt.contains("prompt_logprobs")) continue;
    ASSERT_EQ(answer.prompt.start, 1);
    ASSERT_EQ(answer.prompt.logprobs.size() + 1, prompt["prompt_logprobs"].size());
    for (std::size_t i = 0; i < answer.prompt.logprobs.size(); ++i)
      EXPECT_NEAR(answer.prompt.logprobs[i], prompt["prompt_logprobs"][i + 1].get<double>(), 1e-3);
  }
}

class SameAnswerAlways : public ::testing::TestWithParam<std::tuple<const char*, Activations, KvType>> {};

TEST_P(SameAnswerAlways, AloneInABurstCachedChunkedThreadedAndRetracted) {
  const auto [name, mode, type] = GetParam();
  GoldenModel one(name, mode, 1), two(name, mode, 2);
  if (!one.decoder) GTEST_SKIP() << "left out: no goldens of " << name << " here";
  const Answers alone = one_by_one(one, type);
  EXPECT_EQ(burst(one, options(), 8192, type), alone) << "one burst";
  EXPECT_EQ(burst(one, options(512, false), 8192, type), alone) << "cache off";
  EXPECT_EQ(burst(one, options(16), 8192, type), alone) << "chunks of 16";
  EXPECT_EQ(burst(two, options(100), 8192, type), alone) << "two threads";
  CoreOptions eager = options(64);
  eager.conservativeness = 0.0;  // admits as if nobody would say anything, so that the pool runs full
  std::uint64_t preemptions = 0;
  EXPECT_EQ(burst(one, eager, 260, type, &EngineMetrics::preemptions, &preemptions), alone) << "retracted";
  EXPECT_GT(preemptions, 0u);
}

// Long enough to share blocks of attention, in two levels.
TEST_P(SameAnswerAlways, AsForksOfOnePrefix) {
  const auto [name, mode, type] = GetParam();
  GoldenModel two(name, mode, 2);
  if (!two.decoder) GTEST_SKIP() << "left out: no goldens of " << name << " here";
  std::mt19937_64 rng(11);
  const auto trunk = random_tokens(rng, 270, two.vocabulary), branch = random_tokens(rng, 140, two.vocabulary);
  std::vector<RequestFields> forks;
  for (int i = 0; i < 14; ++i) {
    auto prompt = trunk;
    if (i % 2) prompt.insert(prompt.end(), branch.begin(), branch.end());
    const auto own = random_tokens(rng, 1 + i, two.vocabulary);
    prompt.insert(prompt.end(), own.begin(), own.end());
    forks.push_back(request(prompt, 12));
    if (i % 3 == 0) {
      forks.back().sampling.temperature = 1.1;
      forks.back().sampling.seed = static_cast<std::uint64_t>(i);
    }
  }
  Answers alone;
  for (auto& fields : forks) {
    CoreHarness harness(two, options(512, false), 2048, type);
    harness.add(fields);
    harness.run();
    alone.push_back(harness.answers[0]);
  }
  CoreHarness together(two, options(), 8192, type);
  for (auto& fields : forks) together.add(fields);
  together.run();
  EXPECT_EQ(together.answers, alone);
}

INSTANTIATE_TEST_SUITE_P(
    Models, SameAnswerAlways,
    ::testing::Values(std::tuple("models/llama3-tied-gqa", Activations::f32, KvType::f32),
                      std::tuple("models/llama3-tied-gqa", Activations::int8, KvType::bf16),
                      std::tuple("models/mistral-sliding", Activations::f32, KvType::f16),
                      std::tuple("models/qwen3-tied", Activations::int8, KvType::i8),
                      std::tuple("gguf/gguf-smollm2/gguf-smollm2-Q4_0.gguf", Activations::int8, KvType::bf16),
                      std::tuple("gguf/gguf-smollm2/gguf-smollm2-Q8_0.gguf", Activations::int8, KvType::f8_e4m3),
                      std::tuple("gguf/gguf-smollm2/gguf-smollm2-Q8_0.gguf", Activations::f32, KvType::f8_e5m2),
                      std::tuple("gguf/gguf-qwen2/gguf-qwen2-MIX_Q4_K_M.gguf", Activations::int8, KvType::f32)));

class EngineCoreOnTinyModel : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!model.decoder) GTEST_SKIP() << "left out: no goldens here";
  }
  GoldenModel model{"models/llama3-tied-gqa", Activations::f32};
  std::mt19937_64 rng{testing::seed()};
  std::vector<TokenId> prompt(int n) { return random_tokens(rng, n, model.vocabulary); }
};

TEST_F(EngineCoreOnTinyModel, APromptIsReusedAlsoBehindItsOutput) {
  CoreHarness harness(model, options(), 1024);
  auto first = prompt(50);
  harness.add(request(first, 10));
  harness.run();
  auto next = first;
  const auto& said = harness.answers[0][0].tokens;
  next.insert(next.end(), said.begin(), said.end());
  const auto more = prompt(5);
  next.insert(next.end(), more.begin(), more.end());
  harness.add(request(next, 4));
  harness.run();
  EXPECT_EQ(harness.answers[1][0].finish.usage.cached_tokens, 59);  // the last token said has no keys yet
  EXPECT_EQ(harness.answers[1][0].finish.usage.cache_end, "tree_end");
}

TEST_F(EngineCoreOnTinyModel, ABurstWithOnePrefixComputesItOnce) {
  CoreHarness harness(model, options(), 4096);
  const auto shared = prompt(200);
  for (int i = 0; i < 16; ++i) {
    auto own = shared;
    own.push_back(static_cast<TokenId>(10 + i));
    own.push_back(5);
    harness.add(request(own, 2));
  }
  harness.run();
  EXPECT_LE(harness.metrics.computed_tokens.value(), 200u + 16 * 4);
}

// Rows of which only the token is wanted are scanned as they are computed, or drawn by the model, those with log-probabilities
// are kept whole.
TEST_F(EngineCoreOnTinyModel, ATokenIsTheSameWhetherItsRowIsScannedDrawnOrKept) {
  for (const double temperature : {0.0, 0.7, 1.3}) {
    testing::DrawingModel drawing(*model.decoder);
    const testing::ModelParts parts = model.parts(),
                              drawn_parts{drawing, parts.keeps, parts.ropes, parts.team, parts.vocabulary, parts.seen};
    CoreHarness scanned(model, options(), 4096), kept(model, options(), 4096), mixed(model, options(), 4096),
        drawn(drawn_parts, options(), 4096);
    for (int i = 0; i < 12; ++i) {
      RequestFields fields = request(prompt(20 + i), 24);
      fields.sampling.temperature = temperature;
      fields.sampling.seed = 100 + static_cast<std::uint64_t>(i);
      fields.sampling.n = i % 4 == 3 ? 3 : 1;
      fields.logprobs.enabled = false;
      scanned.add(fields);
      RequestFields whole = fields;
      whole.logprobs.enabled = true;
      kept.add(whole);
      mixed.add(i % 2 == 0 ? fields : whole);
      drawn.add(i % 5 == 0 ? whole : fields);
    }
    for (CoreHarness* harness : {&scanned, &kept, &mixed, &drawn}) harness->run();
    EXPECT_GT(drawing.with_step, drawing.came_down);
    for (std::size_t i = 0; i < kept.answers.size(); ++i)
      for (std::size_t choice = 0; choice < kept.answers[i].size(); ++choice) {
        EXPECT_EQ(scanned.answers[i][choice].tokens, kept.answers[i][choice].tokens) << temperature << " " << i;
        EXPECT_EQ(mixed.answers[i][choice].tokens, kept.answers[i][choice].tokens) << temperature << " " << i;
        EXPECT_EQ(drawn.answers[i][choice].tokens, kept.answers[i][choice].tokens) << temperature << " " << i;
      }
  }
}

// Rows are begun before their step is planned; some requests leave in between.
TEST_F(EngineCoreOnTinyModel, WhatIsBegunAheadOfItsPlanChangesNoToken) {
  testing::DrawingModel drawing(*model.decoder);
  const testing::ModelParts parts = model.parts(),
                            drawn_parts{drawing, parts.keeps, parts.ropes, parts.team, parts.vocabulary, parts.seen};
  CoreOptions with_ahead = options();
  with_ahead.ahead = true;
  CoreHarness plain(model, options(), 4096), ahead(drawn_parts, with_ahead, 4096);
  for (int i = 0; i < 12; ++i) {
    RequestFields fields = request(prompt(20 + i), 24);
    fields.sampling.temperature = i % 3 == 0 ? 0 : 0.9;
    fields.sampling.top_p = i % 2 == 0 ? 1 : 0.8;
    fields.sampling.seed = 100 + static_cast<std::uint64_t>(i);
    fields.logprobs.enabled = false;
    plain.add(fields);
    ahead.add(fields);
  }
  plain.run();
  for (std::size_t steps = 1; ahead.step(); ++steps) {
    if (steps % 4 != 0 || steps > 12) continue;
    ahead.channels[steps - 3]->cancel();
    ahead.core.drop_unwanted();
  }
  EXPECT_GT(ahead.metrics.ahead_rows.value(), 100u);
  EXPECT_GT(ahead.metrics.ahead_rows_dropped.value(), 0u);
  for (std::size_t i = 0; i < plain.answers.size(); ++i) {
    const auto &got = ahead.answers[i][0].tokens, &want = plain.answers[i][0].tokens;
    ASSERT_LE(got.size(), want.size());
    EXPECT_TRUE(std::equal(got.begin(), got.end(), want.begin())) << i;
    if (i != 1 && i != 5 && i != 9) {
      EXPECT_EQ(got.size(), want.size()) << i;
    }
  }
}

TEST_F(EngineCoreOnTinyModel, SeveralChoicesShareTheirPrompt) {
  CoreHarness harness(model, options(), 4096);
  RequestFields fields = request(prompt(150), 6);
  fields.sampling.n = 8;
  fields.sampling.temperature = 1.0;
  fields.sampling.seed = 5;
  harness.add(fields);
  harness.run();
  EXPECT_LE(harness.metrics.computed_tokens.value(), 150u + 8 * 6);
  EXPECT_NE(harness.answers[0][0].tokens, harness.answers[0][1].tokens);
}

TEST_F(EngineCoreOnTinyModel, RequestsOfDifferentScopesShareNothing) {
  CoreHarness harness(model, options(), 1024);
  RequestFields fields = request(prompt(40), 3);
  fields.scope = "tenant a";
  harness.add(fields);
  harness.run();
  fields.scope = "tenant b";
  harness.add(fields);
  harness.run();
  EXPECT_EQ(harness.answers[1][0].finish.usage.cached_tokens, 0);
  EXPECT_EQ(harness.answers[1][0].finish.usage.cache_end, "cold");
}

TEST_F(EngineCoreOnTinyModel, ARequestIsToldThatItsNameSpaceKeptItFromACommonPrefix) {
  CoreHarness harness(model, options(), 1024);
  RequestFields fields = request(prompt(40), 3);
  harness.add(fields);
  harness.run();
  fields.scope = "salted";
  harness.add(fields);
  harness.run();
  EXPECT_EQ(harness.answers[1][0].finish.usage.cached_tokens, 0);
  EXPECT_EQ(harness.answers[1][0].finish.usage.cache_end, "salt");
  harness.add(fields);
  harness.run();
  EXPECT_EQ(harness.answers[2][0].finish.usage.cached_tokens, 39);
  EXPECT_EQ(harness.answers[2][0].finish.usage.cache_end, "limit");
}

TEST_F(EngineCoreOnTinyModel, ACancelledRequestLeavesAtOnceAndItsTokensStayInTheTree) {
  CoreHarness harness(model, options(), 1024);
  const auto tokens = prompt(60);
  harness.add(request(tokens, 100));
  harness.add(request(prompt(10), 100));
  for (int i = 0; i < 5; ++i) harness.step();
  harness.channels[0]->cancel();
  harness.core.drop_unwanted();
  EXPECT_EQ(harness.core.status().running, 1);
  harness.step();
  EXPECT_EQ(harness.answers[0][0].finish.reason, FinishReason::abort);
  harness.channels[1]->cancel();
  harness.core.drop_unwanted();
  EXPECT_TRUE(harness.core.idle());
  const EngineStatus status = harness.core.status();
  EXPECT_EQ(status.pinned_tokens, 0);
  EXPECT_EQ(status.free_tokens + status.cached_tokens, status.pool_tokens);
  harness.add(request(tokens, 1));
  harness.run();
  EXPECT_EQ(harness.answers[2][0].finish.usage.cached_tokens, 59);
  EXPECT_TRUE(harness.core.flush_cache());
  EXPECT_EQ(harness.core.status().free_tokens, 1024);
}

TEST_F(EngineCoreOnTinyModel, AStoppedChoiceEndsWithoutTheOthers) {
  CoreHarness harness(model, options(), 1024);
  RequestFields fields = request(prompt(20), 30);
  fields.sampling.n = 2;
  harness.add(fields);
  for (int i = 0; i < 4; ++i) harness.step();
  harness.channels[0]->stop(0);
  harness.core.drop_unwanted();
  harness.run();
  EXPECT_EQ(harness.answers[0][0].finish.reason, FinishReason::stop);
  EXPECT_EQ(harness.answers[0][1].finish.reason, FinishReason::length);
  EXPECT_EQ(harness.answers[0][1].tokens.size(), 30u);
}

TEST_F(EngineCoreOnTinyModel, EndTokensWaitForTheMinimumAndStopTokensEnd) {
  CoreHarness harness(model, options(), 1024);
  RequestFields fields = request(prompt(20), 12);
  harness.add(fields);
  harness.run();
  const auto free_run = harness.answers[0][0].tokens;
  fields.sampling.stop_token_ids = {free_run[0]};
  harness.add(fields);
  fields.sampling.min_new_tokens = 6;
  harness.add(fields);
  harness.run();
  EXPECT_EQ(harness.answers[1][0].tokens.size(), 1u);
  EXPECT_EQ(harness.answers[1][0].finish.matched, free_run[0]);
  const auto& delayed = harness.answers[2][0].tokens;
  ASSERT_GE(delayed.size(), 6u);
  for (int i = 0; i < 6; ++i) EXPECT_NE(delayed[static_cast<std::size_t>(i)], free_run[0]);
}

TEST_F(EngineCoreOnTinyModel, NothingButThePromptCanBeAskedFor) {
  CoreHarness harness(model, options(), 1024);
  RequestFields fields = request(prompt(30), 0);
  fields.logprobs.prompt_start = 0;
  fields.logprobs.top = model.vocabulary;
  harness.add(fields);
  harness.run();
  const Answer& answer = harness.answers[0][0];
  EXPECT_TRUE(answer.finished && answer.tokens.empty());
  ASSERT_EQ(answer.prompt.logprobs.size(), 29u);
  EXPECT_EQ(answer.prompt.alternatives[3].top.size(), static_cast<std::size_t>(model.vocabulary));
}

TEST_F(EngineCoreOnTinyModel, RandomArrivalsAndDeparturesKeepEveryInvariant) {
  CoreOptions o = options(48);
  o.conservativeness = 0.1;
  o.max_running = 9;
  CoreHarness harness(model, o, 400);
  const auto system = prompt(40);
  random_arrivals(harness, rng, 400, [&](int) {
    RequestFields fields = random_request(rng, rng() % 2 ? system : std::vector<TokenId>{}, 90, model.vocabulary);
    if (rng() % 4 == 0) fields.logprobs.prompt_start = static_cast<int>(rng() % fields.prompt.size());
    return fields;
  });
  harness.run();
  expect_all_finished(harness);
}

TEST_F(EngineCoreOnTinyModel, RequestsThatAreExpectedToBeShortRunTogetherAndSayTheSameWhenTheyAreNot) {
  const std::array<RequestFields, 2> wishes{request(prompt(20), 200), request(prompt(20), 200)};
  const auto running_together = [&](int expected, std::vector<std::vector<TokenId>>& said) {
    CoreHarness harness(model, options(), 256);
    for (RequestFields wish : wishes) {
      wish.expected_output = expected;
      harness.add(wish);
    }
    for (int i = 0; i < 3; ++i) harness.step();
    const int running = harness.core.status().running;
    harness.run();
    for (const auto& answer : harness.answers) said.push_back(answer[0].tokens);
    return running;
  };
  std::vector<std::vector<TokenId>> one_by_one, together;
  EXPECT_EQ(running_together(0, one_by_one), 1) << "either may want most of the pool";
  EXPECT_EQ(running_together(30, together), 2);
  EXPECT_EQ(one_by_one, together);
}

TEST_F(EngineCoreOnTinyModel, BackgroundWorkGivesWayAndStillSaysTheSame) {
  CoreOptions o = options();
  o.max_running = 2;
  RequestFields slow = request(prompt(40), 60);
  CoreHarness alone(model, o, 1024);
  alone.add(slow);
  alone.run();
  CoreHarness harness(model, o, 1024);
  slow.background = true;
  harness.add(slow);
  harness.add(slow);
  for (int i = 0; i < 10; ++i) harness.step();
  std::vector<int> others;
  for (int i = 0; i < 4; ++i) others.push_back(harness.add(request(prompt(20), 5)));
  for (int i = 0; i < 16; ++i) harness.step();
  for (int other : others) EXPECT_TRUE(harness.answers[static_cast<std::size_t>(other)][0].finished);
  EXPECT_FALSE(harness.answers[0][0].finished);
  harness.run();
  EXPECT_GT(harness.answers[0][0].finish.usage.retractions, 0);
  EXPECT_EQ(harness.answers[0][0].tokens, alone.answers[0][0].tokens);
}

TEST_F(EngineCoreOnTinyModel, ADeadlineEndsWaitingAndNothingElse) {
  CoreOptions o = options();
  o.max_running = 1;
  CoreHarness harness(model, o, 1024);
  RequestFields soon = request(prompt(10), 20);
  soon.deadline = std::chrono::milliseconds(0);
  harness.add(request(prompt(10), 20));
  harness.step();
  const auto late = static_cast<std::size_t>(harness.add(soon));
  harness.run();
  EXPECT_EQ(harness.answers[0][0].finish.reason, FinishReason::length);
  EXPECT_EQ(harness.answers[late][0].finish.reason, FinishReason::error);
  EXPECT_EQ(harness.answers[late][0].finish.error.kind, Error::Kind::timeout);
  EXPECT_TRUE(harness.answers[late][0].tokens.empty());
}

// One tenant floods; the other's single request need not wait for the flood.
TEST_F(EngineCoreOnTinyModel, TenantsTakeTurns) {
  for (bool fair : {false, true}) {
    CoreOptions o = options();
    o.max_running = 1;
    o.policy = SchedulePolicy::fcfs;
    o.fair_tenants = fair;
    CoreHarness harness(model, o, 4096);
    RequestFields many = request(prompt(400), 1);
    many.tenant = "many";
    for (int i = 0; i < 30; ++i) {
      many.prompt = prompt(400);
      harness.add(many);
    }
    for (int i = 0; i < 8; ++i) harness.step();
    RequestFields one = request(prompt(400), 1);
    one.tenant = "one";
    const auto number = static_cast<std::size_t>(harness.add(one));
    harness.step();
    harness.step();
    std::size_t before = 0;
    while (!harness.answers[number][0].finished) harness.step();
    for (std::size_t i = 0; i < number; ++i) before += harness.answers[i][0].finished;
    if (fair)
      EXPECT_LT(before, 20u);
    else
      EXPECT_EQ(before, 30u);
  }
}

// One tenant floods, the other sends one request after the other: those wait for a quantum of tokens at most, however
// old the flood is.
TEST_F(EngineCoreOnTinyModel, AFloodDoesNotAgeItsWayPastAnotherTenant) {
  CoreOptions o = options();
  o.max_running = 2;
  o.fair_tenants = true;
  CoreHarness harness(model, o, 4096);
  RequestFields flood = request({}, 1), trickle = request({}, 1);
  flood.tenant = "flood";
  trickle.tenant = "trickle";
  for (int i = 0; i < 700; ++i) {
    flood.prompt = prompt(400);
    harness.add(flood);
  }
  for (int i = 0; i < kAgeingBound + 8; ++i) {
    trickle.prompt = prompt(400);
    const auto number = static_cast<std::size_t>(harness.add(trickle));
    for (int step = 0; step < 12 && !harness.answers[number][0].finished; ++step) harness.step();
    ASSERT_TRUE(harness.answers[number][0].finished) << i;
  }
}

TEST_F(EngineCoreOnTinyModel, ADeadlineEndsNoChoiceOfARequestThatHasBegun) {
  CoreOptions o = options();
  o.max_running = 2;
  CoreHarness harness(model, o, 4096);
  RequestFields fields = request(prompt(30), 8);
  fields.sampling.n = 6;
  fields.sampling.temperature = 1;
  fields.deadline = std::chrono::milliseconds(5);
  harness.add(fields);
  harness.step();
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  harness.run();
  for (const Answer& answer : harness.answers[0]) EXPECT_EQ(answer.finish.reason, FinishReason::length);
}

TEST_F(EngineCoreOnTinyModel, EveryPolicyServesEverybody) {
  for (SchedulePolicy policy : {SchedulePolicy::lpm, SchedulePolicy::dfs_weight, SchedulePolicy::fcfs,
                                SchedulePolicy::lof, SchedulePolicy::priority, SchedulePolicy::random}) {
    CoreOptions o = options(64);
    o.max_running = 3;
    o.policy = policy;
    CoreHarness harness(model, o, 600);
    for (auto& fields : forty_requests(model.vocabulary)) harness.add(fields);
    harness.run();
    for (const auto& choices : harness.answers)
      for (const Answer& answer : choices) EXPECT_TRUE(answer.finished);
  }
}

TEST_F(EngineCoreOnTinyModel, ChoicesShareTheWholePromptItsLastPositionIncluded) {
  RequestFields fields = request(prompt(100), 10);
  fields.sampling.n = 8;
  fields.sampling.temperature = 1.2;
  fields.sampling.seed = 5;
  fields.sampling.repetition_penalty = 1.1;
  CoreHarness harness(model, options(), 2048), apart(model, options(512, false), 2048);
  harness.add(fields);
  harness.run();
  EXPECT_EQ(harness.metrics.computed_tokens.value(), 100u + 8 * 9);
  apart.add(fields);
  apart.run();
  EXPECT_EQ(harness.answers, apart.answers);
  EXPECT_NE(harness.answers[0][0].tokens, harness.answers[0][1].tokens);
}

}  // namespace
}  // namespace espalier::engine_core_test
