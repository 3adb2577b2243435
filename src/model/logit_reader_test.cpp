// Logits that are read tile by tile are those of the whole rows, whoever takes which row.
#include "model/logit_reader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>

#include "model/small_pool.h"
#include "model/weights/dummy_weights.h"
#include "testing/data.h"

namespace espalier::logit_reader_test {
namespace {

using testing::SmallPool;

// Takes the rows that it is told to, and remembers what came.
class Remembers final : public LogitReader {
 public:
  Remembers(std::vector<bool> taken, int vocabulary)
      : taken_(std::move(taken)),
        vocabulary_(vocabulary),
        rows_(taken_.size() * static_cast<std::size_t>(vocabulary)) {}
  bool takes(int row) const override { return taken_[static_cast<std::size_t>(row)]; }
  void read(int row, int first, std::span<const float> logits) override {
    EXPECT_EQ(first % kLogitTile, 0);
    EXPECT_TRUE(takes(row));
    std::copy(logits.begin(), logits.end(), rows_.begin() + static_cast<std::ptrdiff_t>(row) * vocabulary_ + first);
    columns_ += static_cast<int>(logits.size());
  }
  std::span<const float> row(int index) const {
    return std::span(rows_).subspan(static_cast<std::size_t>(index) * static_cast<std::size_t>(vocabulary_),
                                    static_cast<std::size_t>(vocabulary_));
  }
  int columns() const { return columns_; }

 private:
  std::vector<bool> taken_;
  int vocabulary_;
  std::vector<float> rows_;
  std::atomic<int> columns_{0};
};

class TilesOfLogits : public ::testing::TestWithParam<std::tuple<DType, int>> {};

TEST_P(TilesOfLogits, AreThoseOfTheWholeRows) {
  const auto [type, threads] = GetParam();
  constexpr int kVocabulary = 2 * kLogitTile + 77, kRows = 70;  // more rows than are computed together
  std::mt19937_64 rng(testing::seed());
  const ModelSpec spec = testing::SmallSpec{.vocabulary = kVocabulary}.make();
  ComputeTeam team(threads);
  const auto dummy = DummyWeights::make(spec, type).value();
  const Weights weights(*dummy, Naming::hf);
  const auto decoder = Decoder::load(spec, weights, {Activations::int8, 128}, team).value();
  SmallPool pool(decoder->keeps(), KvType::f32, 128);
  std::vector<TokenId> tokens;
  std::vector<Slot> slots;
  std::vector<int> wanted;
  std::vector<bool> taken;
  for (int i = 0; i < kRows; ++i) {
    tokens.push_back(static_cast<TokenId>(rng() % kVocabulary));
    slots.push_back(i);
    if (i % 9 == 4) continue;
    wanted.push_back(i);
    taken.push_back(rng() % 3 != 0);
  }
  const KvRun run{0, kRows};
  const BatchSequence sequence{0, kRows, 0, {&run, 1}};
  const auto whole_rows = decoder->forward({tokens, slots, {&sequence, 1}, wanted}, {pool.layers});
  const std::vector<float> whole(whole_rows.begin(), whole_rows.end());

  Remembers reader(taken, kVocabulary);
  const auto kept = decoder->forward({tokens, slots, {&sequence, 1}, wanted, &reader}, {pool.layers});
  EXPECT_EQ(reader.columns(), std::ranges::count(taken, true) * kVocabulary);
  for (int i = 0; i < static_cast<int>(wanted.size()); ++i) {
    const auto want = std::span(whole).subspan(static_cast<std::size_t>(i) * kVocabulary, kVocabulary);
    const std::span<const float> got =
        reader.takes(i) ? reader.row(i) : kept.subspan(static_cast<std::size_t>(i) * kVocabulary, kVocabulary);
    EXPECT_TRUE(std::ranges::equal(got, want)) << "row " << i;
    for (int first = 0; first < kVocabulary; first += kLogitTile) {
      std::vector<float> again(static_cast<std::size_t>(std::min(kLogitTile, kVocabulary - first)));
      decoder->logits_again(i, first, again);
      EXPECT_TRUE(std::ranges::equal(again, want.subspan(static_cast<std::size_t>(first), again.size())))
          << "row " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Weights, TilesOfLogits,
                         ::testing::Combine(::testing::Values(DType::q8_0, DType::q4_0, DType::bf16, DType::f32),
                                            ::testing::Values(1, 3)));

}  // namespace
}  // namespace espalier::logit_reader_test
