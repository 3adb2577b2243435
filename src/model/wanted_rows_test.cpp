// Which rows' logits are wanted changes neither these nor what is stored: rows that nobody asks about only do less.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "model/small_pool.h"
#include "model/weights/dummy_weights.h"
#include "testing/data.h"

namespace espalier::wanted_rows {
namespace {

using testing::SmallPool;

constexpr int kVocabulary = 300, kSequences = 5, kSlots = 512;

// Sequences of random lengths that continue what was stored before, and one that begins.
struct Step {
  std::vector<TokenId> tokens;
  std::vector<Slot> slots;
  std::vector<KvRun> runs;
  std::vector<BatchSequence> sequences;
};

Step next_step(std::vector<int>& lengths, std::mt19937_64& rng) {
  Step step;
  step.runs.resize(kSequences);
  for (int s = 0; s < kSequences; ++s) {
    const int rows = rng() % 2 == 0 ? 1 : 1 + static_cast<int>(rng() % 30),
              first = lengths[static_cast<std::size_t>(s)];
    KvRun& run = step.runs[static_cast<std::size_t>(s)];
    run = {s * (kSlots / kSequences), first + rows};
    step.sequences.push_back({static_cast<int>(step.tokens.size()), rows, first, {&run, 1}});
    for (int i = 0; i < rows; ++i) {
      step.tokens.push_back(static_cast<TokenId>(rng() % kVocabulary));
      step.slots.push_back(run.start + first + i);
    }
    lengths[static_cast<std::size_t>(s)] += rows;
  }
  return step;
}

std::vector<int> some_rows(int rows, std::mt19937_64& rng) {
  const auto of_ten = rng() % 11;  // none, all, or about so many
  std::vector<int> wanted;
  for (int row = 0; row < rows; ++row)
    if (rng() % 10 < of_ten) wanted.push_back(row);
  return wanted;
}

class WantedRows : public ::testing::TestWithParam<std::tuple<DType, int, int>> {};

TEST_P(WantedRows, HaveTheSameBitsInAnyCompany) {
  const auto [type, window, threads] = GetParam();
  std::mt19937_64 rng(testing::seed());
  const ModelSpec spec = testing::SmallSpec{.vocabulary = kVocabulary, .heads = 6, .windows = {7, window}}.make();
  ComputeTeam team(threads);
  const auto dummy = DummyWeights::make(spec, type).value();
  const Weights weights(*dummy, Naming::hf);
  const auto decoder = Decoder::load(spec, weights, {Activations::int8, 256}, team).value();
  SmallPool all_pool(decoder->keeps(), KvType::bf16, kSlots), some_pool(decoder->keeps(), KvType::bf16, kSlots);
  std::vector<int> lengths(kSequences, 0);
  for (int round = 0; round < 3; ++round) {
    const Step step = next_step(lengths, rng);
    std::vector<int> all(step.tokens.size());
    std::iota(all.begin(), all.end(), 0);
    const auto whole = decoder->forward({step.tokens, step.slots, step.sequences, all}, {all_pool.layers});
    const std::vector<float> want(whole.begin(), whole.end());

    const std::vector<int> wanted = some_rows(static_cast<int>(all.size()), rng);
    const auto got = decoder->forward({step.tokens, step.slots, step.sequences, wanted}, {some_pool.layers});
    ASSERT_EQ(got.size(), wanted.size() * kVocabulary);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      EXPECT_TRUE(
          std::ranges::equal(got.subspan(i * kVocabulary, kVocabulary),
                             std::span(want).subspan(static_cast<std::size_t>(wanted[i]) * kVocabulary, kVocabulary)))
          << "round " << round << ", row " << wanted[i];
    EXPECT_EQ(all_pool.memory, some_pool.memory) << "round " << round;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, WantedRows,
                         ::testing::Combine(::testing::Values(DType::q8_0, DType::bf16, DType::f32),
                                            ::testing::Values(0, 9), ::testing::Values(1, 2)));

}  // namespace
}  // namespace espalier::wanted_rows
