// The engine's core on models with a recurrent state: the same answers however prompts are cut, shared, forked, drafted
// and retracted, and how much of a prompt is found again.
#include <gtest/gtest.h>

#include <random>

#include "engine/step/chain_model.h"
#include "engine/step/core_requests.h"

namespace espalier::stateful_core_test {
namespace {

using testing::Answers;
using testing::ChainModel;
using testing::CoreHarness;
using testing::expect_all_finished;
using testing::forty_requests;
using testing::GoldenModel;
using testing::ModelParts;
using testing::options;
using testing::random_tokens;
using testing::request;

Answers alone(const ModelParts& model, const std::vector<RequestFields>& requests) {
  Answers all;
  for (const RequestFields& fields : requests) {
    CoreHarness harness(model, options(512, false), 2048);
    harness.add(fields);
    harness.run();
    all.push_back(harness.answers[0]);
  }
  return all;
}

struct Together {
  Answers answers;
  std::uint64_t preemptions = 0, accepted = 0, drafted = 0, cached = 0;
};
Together together(const ModelParts& model, const std::vector<RequestFields>& requests, CoreOptions o,
                  int slots = 8192) {
  CoreHarness harness(model, std::move(o), slots);
  for (const RequestFields& fields : requests) harness.add(fields);
  harness.run();
  expect_all_finished(harness);
  EXPECT_TRUE(harness.core.flush_cache());
  EXPECT_EQ(harness.core.status().free_state_cells, harness.core.status().state_cells);
  return {harness.answers, harness.metrics.preemptions.value(), harness.metrics.accepted_tokens.value(),
          harness.metrics.drafted_tokens.value(), harness.metrics.cached_tokens.value()};
}

CoreOptions with_cells(CoreOptions o, int cells) {
  o.state_cells = cells;
  return o;
}
CoreOptions drafting(int tokens) {
  CoreOptions o = options();
  o.drafts = DraftSource::tree;
  o.draft_limits.forced = tokens;
  return o;
}

void expect_same_answers(const ModelParts& model, const ModelParts& of_two_threads) {
  const auto requests = forty_requests(model.vocabulary);
  const Answers expected = alone(model, requests);
  const Together burst = together(model, requests, options());
  EXPECT_EQ(burst.answers, expected) << "one burst";
  EXPECT_GT(burst.cached, 0u);
  EXPECT_EQ(together(model, requests, options(512, false)).answers, expected) << "cache off";
  EXPECT_EQ(together(model, requests, options(16)).answers, expected) << "chunks of 16";
  EXPECT_EQ(together(of_two_threads, requests, options(100)).answers, expected) << "two threads";
  CoreOptions eager = options(64);
  eager.conservativeness = 0.0;
  const Together retracted = together(model, requests, eager, 260);
  EXPECT_EQ(retracted.answers, expected) << "retracted";
  EXPECT_GT(retracted.preemptions, 0u);
  const Together drafted = together(model, requests, drafting(5));
  EXPECT_EQ(drafted.answers, expected) << "with drafts";
  EXPECT_GT(drafted.drafted, 0u);  // some of them refused, but for models that go round in circles
  for (const int cells : {2, 3, 9}) {
    EXPECT_EQ(together(model, requests, with_cells(options(64), cells)).answers, expected) << cells << " cells";
    EXPECT_EQ(together(model, requests, with_cells(drafting(3), cells)).answers, expected) << cells << " cells, drafts";
  }
}

TEST(StatefulCore, SameAnswersHoweverTheStateTravels) {
  ChainModel one(1), two(2);
  expect_same_answers(one.parts(), two.parts());
}

class OnGoldenHybrids : public ::testing::TestWithParam<const char*> {};

TEST_P(OnGoldenHybrids, SameAnswersHoweverTheStateTravels) {
  GoldenModel one(GetParam(), Activations::f32, 1), two(GetParam(), Activations::f32, 2);
  if (!one.decoder) GTEST_SKIP() << "left out: no goldens of " << GetParam() << " here";
  ASSERT_GT(one.decoder->keeps().state_floats, 0u);
  expect_same_answers(one.parts(), two.parts());
}

class OnChainModel : public ::testing::Test {
 protected:
  std::vector<TokenId> text(int n) { return random_tokens(rng, n, ChainModel::kVocabulary); }
  // How many tokens of this prompt the cache had.
  int cached(CoreHarness& harness, std::vector<TokenId> prompt, int said = 4) {
    const int at = harness.add(request(std::move(prompt), said));
    harness.run();
    const auto& answer = harness.answers[static_cast<std::size_t>(at)][0];
    last_reason = answer.finish.usage.cache_end;
    last_answer = answer.tokens;
    return answer.finish.usage.cached_tokens;
  }
  ChainModel model;
  std::mt19937_64 rng{testing::seed()};
  std::string last_reason;
  std::vector<TokenId> last_answer;
};

TEST_F(OnChainModel, AnIdenticalPromptIsComputedButForItsLastToken) {
  CoreHarness harness(model.parts(), options(), 4096);
  for (const int length : {2, 3, 17, 64, 400}) {
    auto prompt = text(length);
    prompt.front() = static_cast<TokenId>(3 + length % 36);  // no two begin alike
    EXPECT_EQ(cached(harness, prompt), 0);
    EXPECT_EQ(cached(harness, prompt), length - 1);
    EXPECT_EQ(last_reason, "limit");
  }
}

TEST_F(OnChainModel, AConversationGoesOnBehindTheAnswer) {
  CoreHarness harness(model.parts(), options(), 4096);
  auto history = text(100);
  int known = 0;
  for (int turn = 0; turn < 5; ++turn) {
    EXPECT_EQ(cached(harness, history, 20), known) << turn;
    history.insert(history.end(), last_answer.begin(), last_answer.end());
    known = static_cast<int>(history.size()) - 1;  // the last one that was said is computed by nobody
    const auto question = text(30);
    history.insert(history.end(), question.begin(), question.end());
  }
}

TEST_F(OnChainModel, TheSecondToDivergeLeavesAStateForTheThird) {
  CoreHarness harness(model.parts(), options(), 4096);
  const auto beginning = text(150);
  const auto with = [&](int tail) {
    auto prompt = beginning;
    prompt.push_back(static_cast<TokenId>(3 + tail));  // no two go on alike
    const auto own = text(40);
    prompt.insert(prompt.end(), own.begin(), own.end());
    return prompt;
  };
  EXPECT_EQ(cached(harness, with(0)), 0);
  EXPECT_EQ(cached(harness, with(1)), 0);
  EXPECT_EQ(last_reason, "no_state");
  EXPECT_EQ(cached(harness, with(2)), 150);
  EXPECT_EQ(last_reason, "diverged");
}

TEST_F(OnChainModel, RequestsOfOneBeginningThatComeTogetherComputeItOnce) {
  CoreHarness harness(model.parts(), options(), 8192);
  const auto beginning = text(300);
  for (int i = 0; i < 16; ++i) {
    auto prompt = beginning;
    prompt.push_back(static_cast<TokenId>(3 + i));
    const auto own = text(30);
    prompt.insert(prompt.end(), own.begin(), own.end());
    harness.add(request(prompt, 3));
  }
  harness.run();
  EXPECT_EQ(harness.metrics.computed_tokens.value(), 300u + 16 * (31 + 2));
}

TEST_F(OnChainModel, ALongPromptHasStatesEverySoManyTokens) {
  for (const auto& [cells, found] : {std::pair{256, 1536}, {16, 1024}}) {
    CoreHarness harness(model.parts(), with_cells(options(), cells), 8192);
    harness.context = 8192;
    const auto book = text(3000);
    EXPECT_EQ(cached(harness, book), 0);
    auto other = std::vector<TokenId>(book.begin(), book.begin() + 2000);
    other.push_back(1);
    EXPECT_EQ(cached(harness, other), found) << cells << " cells";
  }
}

TEST_F(OnChainModel, ChoicesOfOnePromptShareItsState) {
  CoreHarness harness(model.parts(), options(), 4096);
  RequestFields fields = request(text(200), 10);
  fields.sampling.n = 8;
  fields.sampling.temperature = 1;
  fields.sampling.seed = 5;
  harness.add(fields);
  harness.run();
  EXPECT_EQ(harness.metrics.computed_tokens.value(), 200u + 8 * 9);
}

TEST_F(OnChainModel, ARetractedSequenceGoesOnWhereItStood) {
  CoreOptions o = options();
  o.conservativeness = 0.0;
  CoreHarness harness(model.parts(), o, 256);
  harness.add(request(text(60), 100));
  harness.add(request(text(60), 100));
  harness.run();
  EXPECT_GT(harness.metrics.preemptions.value(), 0u);
  expect_all_finished(harness);
}

TEST_F(OnChainModel, APinKeepsItsState) {
  CoreHarness harness(model.parts(), with_cells(options(), 8), 4096);
  const auto prompt = text(100);
  cached(harness, prompt);
  const auto held = harness.core.pin({"system", "", prompt, 0});
  ASSERT_TRUE(held.ok());
  for (int i = 0; i < 20; ++i) cached(harness, text(90));
  EXPECT_EQ(cached(harness, prompt), 99);
  EXPECT_TRUE(harness.core.pins().release("system"));
  for (int i = 0; i < 20; ++i) cached(harness, text(90));
  EXPECT_EQ(cached(harness, prompt), 0);
}

TEST_F(OnChainModel, PinsHoldAtMostHalfOfTheCells) {
  CoreHarness harness(model.parts(), with_cells(options(), 8), 4096);
  int pinned = 0;
  for (int i = 0; i < 6; ++i) {
    const auto prompt = text(50);
    cached(harness, prompt);
    if (harness.core.pin({"", "", prompt, 0}).ok()) ++pinned;
  }
  EXPECT_EQ(pinned, 4);
  EXPECT_EQ(cached(harness, text(40)), 0) << "others still run";
}

TEST_F(OnChainModel, AnAbortedRequestGivesItsCellsBack) {
  CoreHarness harness(model.parts(), options(16), 4096);
  for (int i = 0; i < 6; ++i) harness.add(request(text(100), 50));
  for (int i = 0; i < 20; ++i) harness.step();
  harness.core.abort_all({Error::Kind::unavailable, "a test", {}, {}});
  EXPECT_TRUE(harness.core.check().ok());
  EXPECT_TRUE(harness.core.flush_cache());
  EXPECT_EQ(harness.core.status().free_state_cells, harness.core.status().state_cells);
}

INSTANTIATE_TEST_SUITE_P(Goldens, OnGoldenHybrids,
                         ::testing::Values("models/n26-qwen3.5", "models/n26-lfm2", "models/n26-mamba2"),
                         [](const auto& param) {
                           std::string name = param.param + 11;
                           std::ranges::replace_if(name, [](char c) { return !std::isalnum(c); }, '_');
                           return name;
                         });

}  // namespace
}  // namespace espalier::stateful_core_test
