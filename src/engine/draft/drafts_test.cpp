// Drafts of every source on real (tiny) models: the answers are those without drafts, and what is drafted comes true as
// often as it should.
#include "engine/draft/drafts.h"

#include <gtest/gtest.h>

#include "engine/step/core_requests.h"

namespace espalier::drafts_test {
namespace {

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

CoreOptions drafting(DraftSource source, CoreOptions o = options(), int forced = 5) {
  o.drafts = source;
  o.draft_limits.forced = forced;
  return o;
}

class DraftedOrNot : public ::testing::TestWithParam<std::tuple<const char*, const char*, Activations, KvType>> {
 protected:
  void SetUp() override {
    if (!target.decoder || !other.decoder) GTEST_SKIP() << "left out: no goldens here";
    ASSERT_EQ(target.vocabulary, other.vocabulary);
    plain = burst(target, options(), 8192, type());
  }
  KvType type() const { return std::get<KvType>(GetParam()); }

  // The forty requests with drafts of `draft`, twice over; the second time its tree knows them. What it accepted of a
  // hundred.
  double answers_alike(GoldenModel& draft, CoreOptions o, int slots, int draft_slots, const char* how) {
    const bool cache = o.radix_cache;
    CoreHarness harness(target, std::move(o), slots, type());
    harness.attach_draft_model(draft, draft_slots, cache);
    for (int round = 0; round < 2; ++round) {
      for (auto& fields : forty_requests(target.vocabulary)) harness.add(fields);
      harness.run();
    }
    EXPECT_EQ(Answers(harness.answers.begin(), harness.answers.begin() + 40), plain) << how;
    EXPECT_EQ(Answers(harness.answers.begin() + 40, harness.answers.end()), plain) << how;
    retractions += harness.metrics.preemptions.value();
    EXPECT_TRUE(harness.core.flush_cache());
    EXPECT_EQ(harness.draft_model()->used_slots(), 0) << how;
    const double drafted = static_cast<double>(harness.metrics.drafted_tokens.value());
    EXPECT_GT(drafted, 0) << how;
    return 100 * static_cast<double>(harness.metrics.accepted_tokens.value()) / drafted;
  }

  GoldenModel target{std::get<0>(GetParam()), std::get<Activations>(GetParam()), 2};
  GoldenModel other{std::get<1>(GetParam()), std::get<Activations>(GetParam()), 2};
  Answers plain;
  std::uint64_t retractions = 0;
};

// What a request predicts gives drafts where the engine makes none itself.
TEST_P(DraftedOrNot, FromWhatRequestsPredict) {
  auto requests = forty_requests(target.vocabulary);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].prediction = plain[i][0].tokens;
    if (i % 3 == 1) requests[i].prediction.erase(requests[i].prediction.begin());
    if (i % 3 == 2) requests[i].prediction.clear();
  }
  CoreHarness harness(target, drafting(DraftSource::none), 8192, type());
  for (auto& fields : requests) harness.add(fields);
  harness.run();
  EXPECT_EQ(harness.answers, plain);
  EXPECT_GT(harness.metrics.accepted_tokens.value(), 0u);
}

// The same requests twice over, so that the second time the tree and the finished texts know what follows.
TEST_P(DraftedOrNot, FromTexts) {
  for (DraftSource source : {DraftSource::ngram, DraftSource::tree}) {
    CoreHarness harness(target, drafting(source), 8192, type());
    for (int round = 0; round < 2; ++round) {
      for (auto& fields : forty_requests(target.vocabulary)) harness.add(fields);
      harness.run();
    }
    EXPECT_EQ(Answers(harness.answers.begin(), harness.answers.begin() + 40), plain);
    EXPECT_EQ(Answers(harness.answers.begin() + 40, harness.answers.end()), plain);
    if (source == DraftSource::tree) {
      EXPECT_GT(harness.metrics.accepted_tokens.value(), 100u);
    }
  }
}

TEST_P(DraftedOrNot, ByTheModelItselfWhichIsAlwaysRight) {
  GoldenModel twin(std::get<0>(GetParam()), std::get<Activations>(GetParam()), 2);
  CoreHarness harness(target, drafting(DraftSource::model), 8192, KvType::f32);
  harness.attach_draft_model(twin, 8192);
  for (auto& fields : forty_requests(target.vocabulary)) {  // alone, for the model reads one text at a time
    fields.sampling.n = 1;
    harness.add(fields);
    harness.run();
  }
  EXPECT_GT(harness.metrics.accepted_tokens.value(), 300u);
  EXPECT_EQ(harness.metrics.accepted_tokens.value(), harness.metrics.drafted_tokens.value());
}

TEST_P(DraftedOrNot, ByAModelThatIsMostlyWrong) {
  const double right = answers_alike(other, drafting(DraftSource::model), 8192, 8192, "one burst");
  EXPECT_LT(right, 50);
  answers_alike(other, drafting(DraftSource::model, options(512, false)), 8192, 8192, "cache off");
  answers_alike(other, drafting(DraftSource::model, options(16)), 8192, 8192, "chunks of 16");
  answers_alike(other, drafting(DraftSource::model, options(), 1), 8192, 8192, "one guess at a time");
}

TEST_P(DraftedOrNot, WithPoolsThatRunFull) {
  GoldenModel twin(std::get<0>(GetParam()), std::get<Activations>(GetParam()), 2);
  CoreOptions eager = options(64);
  eager.conservativeness = 0.0;  // admits as if nobody would say anything, so that the pool runs full
  answers_alike(twin, drafting(DraftSource::model, eager), 260, 8192, "retracted");
  EXPECT_GT(retractions, 0u);
  answers_alike(twin, drafting(DraftSource::model), 8192, 150, "hardly room for drafts");
  answers_alike(other, drafting(DraftSource::model, eager), 260, 150, "both");
}

INSTANTIATE_TEST_SUITE_P(
    Models, DraftedOrNot,
    ::testing::Values(std::tuple("models/llama3-tied-gqa", "models/mistral-sliding", Activations::f32, KvType::f32),
                      std::tuple("models/llama3-tied-gqa", "models/qwen2-tied", Activations::int8, KvType::bf16),
                      std::tuple("models/mistral-sliding", "models/qwen3-tied", Activations::f32, KvType::f16),
                      std::tuple("models/qwen3-tied", "models/mistral-sliding", Activations::int8, KvType::i8),
                      std::tuple("gguf/gguf-smollm2/gguf-smollm2-Q8_0.gguf", "gguf/gguf-smollm2/gguf-smollm2-Q4_0.gguf",
                                 Activations::int8, KvType::bf16)));

class DraftsOnTinyModel : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!model.decoder || !other.decoder) GTEST_SKIP() << "left out: no goldens here";
  }
  GoldenModel model{"models/llama3-tied-gqa", Activations::f32}, other{"models/qwen2-tied", Activations::f32};
  std::mt19937_64 rng{testing::seed()};
  std::vector<TokenId> prompt(int n) { return random_tokens(rng, n, model.vocabulary); }
};

TEST_F(DraftsOnTinyModel, RandomArrivalsAndDeparturesKeepEveryInvariant) {
  CoreOptions o = options(48);
  o.conservativeness = 0.1;
  o.max_running = 9;
  CoreHarness harness(model, drafting(DraftSource::model, o, 3), 400);
  harness.attach_draft_model(other, 300);
  const auto system = prompt(40);
  random_arrivals(harness, rng, 400, [&](int) {
    RequestFields fields = random_request(rng, rng() % 2 ? system : std::vector<TokenId>{}, 90, model.vocabulary);
    fields.sampling.temperature = rng() % 2 ? 0 : 1;
    return fields;
  });
  harness.run();
  expect_all_finished(harness);
  EXPECT_GT(harness.metrics.drafted_tokens.value(), 0u);
  EXPECT_TRUE(harness.core.flush_cache());
  EXPECT_EQ(harness.draft_model()->used_slots(), 0);
}

TEST_F(DraftsOnTinyModel, ASequenceWithoutRoomInTheDraftPoolGoesOnWithout) {
  CoreHarness plain(model, options(), 2048), drafted(model, drafting(DraftSource::model), 2048);
  GoldenModel twin("models/llama3-tied-gqa", Activations::f32);
  drafted.attach_draft_model(twin, 100);
  const auto text = prompt(90);
  for (CoreHarness* harness : {&plain, &drafted}) {
    harness->add(request(text, 40));
    harness->run();
  }
  EXPECT_EQ(drafted.answers, plain.answers);
  const auto accepted = drafted.metrics.accepted_tokens.value();
  EXPECT_GT(accepted, 3u);
  EXPECT_LT(accepted, 30u);
}

// Left to itself, without forced lengths: whatever the clock makes it do, the answers stay.
TEST_F(DraftsOnTinyModel, AdaptiveLengthsChangeNoAnswer) {
  GoldenModel twin("models/llama3-tied-gqa", Activations::f32);
  const Answers plain = one_by_one(model, KvType::f32);
  CoreHarness harness(model, drafting(DraftSource::model, options(), 0), 8192);
  harness.attach_draft_model(twin, 8192);
  for (int round = 0; round < 3; ++round) {
    for (auto& fields : forty_requests(model.vocabulary)) harness.add(fields);
    harness.run();
    EXPECT_EQ(Answers(harness.answers.end() - 40, harness.answers.end()), plain);
  }
}

TEST(DraftAcceptance, StartWithTheMakersOwnFigureAndLearn) {
  DraftAcceptance acceptance;
  EXPECT_DOUBLE_EQ(acceptance.of(0.6, true), 0.6);
  for (int i = 0; i < 500; ++i) acceptance.learn(0.6, true, i % 4 == 0);
  EXPECT_NEAR(acceptance.of(0.6, true), 0.25, 0.03);
  EXPECT_DOUBLE_EQ(acceptance.of(0.6, false), 0.6);  // sampled ones are another class
  EXPECT_DOUBLE_EQ(acceptance.of(0.9, true), 0.9);
  EXPECT_GE(acceptance.of(1.0, true), 0.99);  // the end of the range
}

TEST(DraftTimeCredit, RestsWhenTheAllowanceIsLostAndTriesAgainAfterAHundredTimesTheLoss) {
  DraftTimeCredit ledger(1);
  EXPECT_TRUE(ledger.may_try());
  ledger.lost(1.5);
  EXPECT_FALSE(ledger.may_try());
  ledger.decoded(49);
  EXPECT_FALSE(ledger.may_try());
  ledger.decoded(2);
  EXPECT_TRUE(ledger.may_try());
  EXPECT_FALSE(ledger.may_spend(0.5));
  ledger.won(100);
  EXPECT_TRUE(ledger.may_spend(4.9));
  EXPECT_FALSE(ledger.may_spend(5.1));  // long success is not staked whole
}

}  // namespace
}  // namespace espalier::drafts_test
