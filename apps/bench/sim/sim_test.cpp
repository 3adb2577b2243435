// The simulator: its ids, its ideal, its time, and that it is the engine that it simulates.
#include <gtest/gtest.h>

#include <random>

#include "bench/dataset/dataset.h"
#include "bench/serving/report.h"
#include "bench/sim/measure_times.h"
#include "bench/sim/sim_report.h"
#include "bench/sim/simulation.h"
#include "bench/workload/workload_file.h"
#include "engine/step/core_harness.h"

namespace espalier::bench {
namespace {

constexpr std::uint64_t kSeed = 20240117;

Workload from_lines(const std::string& kind, const std::string& items) {
  const auto count = std::count(items.begin(), items.end(), '\n');
  auto workload =
      parse_workload(R"({"workload":"w","format":"espalier-workload/1","kind":")" + kind +
                         R"(","order":"any","api":"completions","n":)" + std::to_string(count) + "}\n" + items,
                     "test");
  EXPECT_TRUE(workload.ok()) << workload.error().message;
  return std::move(*workload);
}

// Two turns, the second on top of what the model said, and two branches that share both.
Workload conversations() {
  std::string lines;
  for (int i = 0; i < 12; ++i)
    lines += R"({"id":")" + std::to_string(i) +
             R"(","share":[{"group":"g","bytes":22}],"ops":[{"op":"text","text":"You are a helpful one. Number )" +
             std::to_string(i) +
             R"( asks:"},{"op":"gen","var":"a","max_tokens":40,"expect":20},{"op":"text","text":" And then?\n"},)"
             R"({"op":"fork","var":"f","from":"here","branches":[[{"op":"gen","var":"b","max_tokens":30}],)"
             R"([{"op":"text","text":"Or"},{"op":"gen","var":"b","max_tokens":30,"temperature":0.8}]]}]})"
             "\n";
  return from_lines("programs", lines);
}

Workload shared_prefixes(int vocabulary, int groups, int each, int system, int question, int output) {
  DatasetOptions options;
  options.name = "generated-shared-prefix";
  options.seed = kSeed;
  options.vocabulary = vocabulary;
  options.gsp_num_groups = groups;
  options.gsp_prompts_per_group = each;
  options.gsp_system_prompt_len = system;
  options.gsp_question_len = question;
  options.gsp_output_len = output;
  auto workload = make_dataset(options);
  EXPECT_TRUE(workload.ok());
  for (Item& item : workload->items) item.shared = system;
  return std::move(*workload);
}

SimSettings settings(int pool, std::size_t concurrency) {
  SimSettings s;
  s.transport.fleet.server.pool_tokens = pool;
  s.transport.seed = kSeed;
  s.pace.max_concurrency = concurrency;
  return s;
}

TEST(StepTimes, SayWhatTheyRead) {
  const auto times = StepTimes::parse("0.01,0.0005,0.001,2e-07");
  ASSERT_TRUE(times.ok());
  EXPECT_EQ(StepTimes::parse(times->text())->text(), times->text());
  EXPECT_DOUBLE_EQ((StepWork{100, 3, 1000}.seconds(*times)), 0.01 + 0.05 + 0.003 + 0.0002);
  const auto two_attentions = StepTimes::parse("0.01,0.0005,0.001,2e-07,3e-06");
  ASSERT_TRUE(two_attentions.ok());
  EXPECT_EQ(StepTimes::parse(two_attentions->text())->text(), two_attentions->text());
  EXPECT_DOUBLE_EQ((StepWork{100, 3, 1000, 10}.seconds(*two_attentions)), 0.01 + 0.05 + 0.003 + 990 * 2e-7 + 10 * 3e-6);
  for (const char* bad : {"", "1", "1,2,3", "1,2,3,4,", "1,2,3,4,5,6", "0,1,1,1", "1,-1,1,1", "1,1,x,1", "nan,1,1,1"}) {
    const auto refused = StepTimes::parse(bad);
    ASSERT_FALSE(refused.ok()) << bad;
    EXPECT_EQ(refused.error().field, "cost");
  }
}

TEST(StepTimes, AreFoundAgainInTheStepsTheyMade) {
  const StepTimes made{4e-3, 5e-4, 9e-4, 3e-7};
  std::mt19937_64 rng(kSeed);
  std::vector<ObservedStep> steps;
  for (int i = 0; i < 200; ++i) {
    const StepWork work{static_cast<double>(rng() % 512), static_cast<double>(rng() % 64),
                        static_cast<double>(rng() % 500'000)};
    steps.push_back({work, work.seconds(made)});
  }
  const StepTimes found = fit_times(steps).times;
  EXPECT_NEAR(found.base / made.base, 1, 1e-3);
  EXPECT_NEAR(found.prefill / made.prefill, 1, 1e-3);
  EXPECT_NEAR(found.decode / made.decode, 1, 1e-3);
  EXPECT_NEAR(found.attention / made.attention, 1, 1e-3);
}

TEST(PromptEncoder, AnAnswerPutBehindAPromptKeepsTheIdsOfBoth) {
  const PromptEncoder encoder;
  const Answers answers(encoder);
  const std::string prompt = "Question: how many?\nAnswer:";
  std::vector<TokenId> expected = encoder.encode(prompt, 0).ids;
  for (int i = 0; i < 50; ++i) expected.push_back(answers.token(kSeed, i));
  EXPECT_EQ(encoder.encode(prompt + answers.text(kSeed, 50), 0).ids, expected);
}

TEST(PromptEncoder, OnlyWholeTokensOfTheSharedBytesAreShared) {
  const PromptEncoder encoder;
  EXPECT_EQ(encoder.encode(std::string("one two three"), 8).own, 2u);  // "one", " two", and one byte of " three"
  EXPECT_EQ(encoder.encode(std::string("one two three"), 0).own, 0u);
  EXPECT_EQ(encoder.encode(std::vector<TokenId>{1, 2, 3}, 9).own, 3u);
}

TEST(IdealCache, SaysWhatTheBenchOfServersSays) {
  std::mt19937_64 rng(kSeed);
  IdealCache ideal(4);
  Journal journal;
  std::size_t found = 0, all = 0;
  for (int i = 0; i < 300; ++i) {
    CallRecord call;
    call.outcome.ok = true;
    call.outcome.sent = i;
    for (int t = 0; t < 1 + static_cast<int>(rng() % 12); ++t)
      call.outcome.prompt_ids.push_back(static_cast<TokenId>(rng() % 2));
    for (int t = 0; t < static_cast<int>(rng() % 4); ++t)
      call.outcome.output_ids.push_back(static_cast<TokenId>(rng() % 2));
    found += ideal.ask(call.outcome.prompt_ids, 0, 1).length;
    ideal.add_output(call.outcome.output_ids, 1);
    all += call.outcome.prompt_ids.size();
    journal.calls.push_back(std::move(call));
  }
  EXPECT_DOUBLE_EQ(*ideal_hit_rate(journal), static_cast<double>(found) / static_cast<double>(all)) << "seed " << kSeed;
}

TEST(IdealCache, ForgetsWhatOnlyOldRoundsHad) {
  IdealCache ideal(2);
  const std::vector<TokenId> prompt = {1, 2, 3, 4};
  EXPECT_EQ(ideal.ask(prompt, 2, 0).length, 0u);
  EXPECT_EQ(ideal.ask(prompt, 2, 0).length, 3u);
  EXPECT_EQ(ideal.ask(prompt, 2, 1).length, 2u);  // the same ids of another round: only what is shared
  EXPECT_EQ(ideal.ask(prompt, 2, 2).length, 2u);  // and round 0 is forgotten
  EXPECT_EQ(ideal.ask(prompt, 2, 0).length, 2u);
}

TEST(Simulation, OneAfterAnotherInALargePoolReachesTheIdealExactly) {
  const PromptEncoder encoder;
  for (Workload workload : {conversations(), shared_prefixes(30'000, 6, 8, 200, 30, 12)}) {
    const SimWorkload ready(std::move(workload), encoder, kSeed);
    SimSettings s = settings(200'000, 1);
    s.pace.items = 3 * ready.workload().items.size();
    const SimReport report = simulate(ready, s);
    EXPECT_EQ(report.counts.failed, 0);
    EXPECT_EQ(report.counts.cached_tokens, report.counts.ideal_tokens);
    EXPECT_GT(report.counts.cached_tokens, 0);
    EXPECT_LT(report.counts.cached_tokens, report.counts.prompt_tokens);
  }
}

TEST(Simulation, RepeatedItemsShareWhatTheyShareAndNothingElse) {
  const PromptEncoder encoder;
  const SimWorkload ready(shared_prefixes(30'000, 1, 10, 100, 20, 4), encoder, kSeed);
  SimSettings s = settings(200'000, 1);
  s.pace.items = 50;
  // The first computes all of its 120 tokens, 49 others find 100.
  EXPECT_EQ(simulate(ready, s).counts.cached_tokens, 49 * 100);
}

TEST(Simulation, TakesTheTimeOfItsSteps) {
  const PromptEncoder encoder;
  Workload one = from_lines("requests", R"({"id":"a","prompt":"a b c d e","max_tokens":3,"ignore_eos":true})"
                                        "\n");
  const SimWorkload ready(std::move(one), encoder, kSeed);
  SimSettings s = settings(1000, 1);
  s.transport.fleet.server.times = {0.5, 0.25, 0.125, 0};
  const SimReport report = simulate(ready, s);
  EXPECT_DOUBLE_EQ(report.wait.mean, 0);
  EXPECT_DOUBLE_EQ(report.ttft.mean, 0.5 + 5 * 0.25);
  EXPECT_DOUBLE_EQ(report.e2e.mean, 0.5 + 5 * 0.25 + 2 * (0.5 + 0.125));
  EXPECT_DOUBLE_EQ(report.duration, report.e2e.mean);
}

TEST(Simulation, ACallThatComesWhileAStepRunsWaitsForItsEnd) {
  const PromptEncoder encoder;
  Workload two = from_lines("requests", R"({"id":"a","prompt":"a b c d","max_tokens":1,"ignore_eos":true,"arrival":0})"
                                        "\n"
                                        R"({"id":"b","prompt":"x y","max_tokens":1,"ignore_eos":true,"arrival":1.5})"
                                        "\n");
  const SimWorkload ready(std::move(two), encoder, kSeed);
  SimSettings s = settings(1000, 8);
  s.transport.fleet.server.times = {1, 0.25, 1, 0};  // the first takes until 2 s, the second a further 1.5 s
  s.pace.recorded_arrivals = true;
  const SimReport report = simulate(ready, s);
  EXPECT_DOUBLE_EQ(report.wait.most, 0.5);
  EXPECT_DOUBLE_EQ(report.ttft.least, 2);
  EXPECT_DOUBLE_EQ(report.duration, 3.5);
}

TEST(Simulation, TheSameSeedPrintsTheSameBytes) {
  const PromptEncoder encoder;
  const auto printed = [&](std::uint64_t seed) {
    const SimWorkload ready(conversations(), encoder, seed);
    SimSettings s = settings(400, 8);
    s.transport.seed = s.pace.arrivals.seed = seed;
    s.pace.arrivals.rate = 20;
    s.pace.items = 40;
    const SimRow row{"w", "lpm", "lru", 400, ready.working_set(), simulate(ready, s)};
    return sim_line(row) + sim_json(row).dump();
  };
  EXPECT_EQ(printed(kSeed), printed(kSeed));
  EXPECT_NE(printed(kSeed), printed(kSeed + 1));
}

TEST(Simulation, WhatDoesNotFitThePoolFailsAndTheRestGoesOn) {
  const PromptEncoder encoder;
  const SimWorkload ready(from_lines("requests", R"({"id":"a","prompt":"a b c d e f g h","max_tokens":1})"
                                                 "\n"
                                                 R"({"id":"b","prompt":"a b","max_tokens":1})"
                                                 "\n"),
                          encoder, kSeed);
  const SimReport report = simulate(ready, settings(6, 4));
  EXPECT_EQ(report.counts.failed, 1);
  EXPECT_EQ(report.counts.calls, 1);
  EXPECT_FALSE(report.counts.first_error.empty());
}

// The same requests one after another through a tiny model and through the simulator, in a pool that evicts: each finds
// as many cached tokens here as there.
class AgainstAModel : public ::testing::TestWithParam<EvictionKind> {};

TEST_P(AgainstAModel, EveryRequestFindsTheSameCachedTokens) {
  espalier::testing::GoldenModel model("models/qwen3-tied", Activations::f32);
  if (!model.decoder) GTEST_SKIP() << "left out: no goldens here";
  constexpr int kPool = 300, kOutput = 6;
  Workload workload = shared_prefixes(model.vocabulary, 5, 8, 60, 20, kOutput);
  CoreOptions options;
  options.eviction = GetParam();
  espalier::testing::CoreHarness harness(model, options, kPool);
  std::vector<int> real, simulated;
  for (const Item& item : workload.items) {
    RequestFields fields;
    fields.prompt = std::get<std::vector<TokenId>>(std::get<RequestWork>(item.work).call.prompt);
    fields.sampling.max_new_tokens = kOutput;
    fields.sampling.temperature = 0;
    fields.sampling.ignore_eos = true;
    const int number = harness.add(fields);
    harness.run();
    real.push_back(harness.answers[static_cast<std::size_t>(number)][0].finish.usage.cached_tokens);
  }
  const PromptEncoder encoder;
  const SimWorkload ready(std::move(workload), encoder, kSeed);
  SimSettings s = settings(kPool, 1);
  s.transport.fleet.server.core.eviction = GetParam();
  s.transport.on_call = [&](const SimCall& call) { simulated.push_back(call.cached_tokens); };
  const SimReport report = simulate(ready, s);
  EXPECT_GT(report.evicted_tokens, 0);
  EXPECT_LT(report.hit_rate(), report.ideal_hit_rate());
  EXPECT_EQ(simulated, real) << "seed " << kSeed;
}

INSTANTIATE_TEST_SUITE_P(EachEviction, AgainstAModel,
                         ::testing::Values(EvictionKind::lru, EvictionKind::lfu, EvictionKind::cost));

}  // namespace
}  // namespace espalier::bench
