#include "engine/memory/compaction.h"

#include <gtest/gtest.h>

#include <map>

namespace espalier::compaction_test {
namespace {

// Knows which token lies in which slot.
class Memory final : public StepRunner {
 public:
  std::vector<Outcome> run(const StepPlan&) override { return {}; }
  void copy(const ExtentList& from, const ExtentList& to) override {
    ASSERT_EQ(from.length(), to.length());
    for (int i = 0; i < from.length(); ++i) token_in[to.slot_at(i)] = token_in.at(from.slot_at(i));
  }
  std::map<Slot, TokenId> token_in;
};

class CompactionTest : public ::testing::Test {
 protected:
  static constexpr int kPiece = 16, kPieces = 128, kLength = 512;

  // The tree holds a text of kLength tokens in pieces of kPiece slots, each followed by a free one.
  void SetUp() override {
    std::vector<OwnedSlots> pieces;
    for (int i = 0; i < kPieces; ++i) pieces.push_back(*pool_.allocate(kPiece));
    OwnedSlots scattered;
    for (std::size_t i = 0; i < kLength / kPiece; ++i) scattered.append(std::move(pieces[2 * i]));
    for (int i = 0; i < kLength; ++i) text_.push_back(i);
    const ExtentList slots = tree_.insert({"", text_}, std::move(scattered)).extents;
    for (int i = 0; i < kLength; ++i) memory_.token_in[slots.slot_at(i)] = i;
  }

  void run_sequence(int output) {
    RequestFields fields;
    fields.prompt = text_;
    fields.sampling.max_new_tokens = output;
    auto s = std::make_unique<Sequence>();
    s->request = std::make_shared<const Request>(Request::make(std::move(fields), {1000, 4096, 2048, true, 0}).value());
    s->tokens = text_;
    Match match = tree_.match({"", text_});
    s->held.begin(std::move(match.pin), std::move(match.extents));
    running_.push_back(std::move(s));
  }

  void step() {
    compaction_.step(running_);
    const auto sound = tree_.check();
    EXPECT_TRUE(sound.ok()) << sound.error().message;
    EXPECT_EQ(pool_.used_slots(), kLength);
    for (const auto& s : running_)
      for (int i = 0; i < kLength; ++i) ASSERT_EQ(memory_.token_in.at(s->held.slot_at(i)), i);
  }

  EngineMetrics metrics_;
  Memory memory_;
  SlotAllocator pool_{kPiece * kPieces};
  RadixTree tree_{pool_};
  Compaction compaction_{{}, tree_, pool_, memory_, metrics_};
  std::vector<TokenId> text_;
  std::vector<std::unique_ptr<Sequence>> running_;
};

TEST_F(CompactionTest, ShortExtentsBecomeOneExtentForAllWhoShareThem) {
  run_sequence(100);
  run_sequence(100);
  EXPECT_EQ(running_[0]->held.extents(), kLength / kPiece);
  step();
  EXPECT_EQ(running_[0]->held.extents(), 1);
  EXPECT_EQ(running_[1]->held.extents(), 1);
  EXPECT_EQ(metrics_.moved_tokens.value(), static_cast<std::uint64_t>(kLength));
  step();
  EXPECT_EQ(metrics_.moved_tokens.value(), static_cast<std::uint64_t>(kLength)) << "moved for nothing";
}

TEST_F(CompactionTest, NothingIsMovedForTheLastFewTokens) {
  run_sequence(20);
  step();
  EXPECT_EQ(metrics_.moved_tokens.value(), 0u);
}

TEST_F(CompactionTest, NothingIsMovedWithoutRoom) {
  const OwnedSlots others = *pool_.allocate(pool_.free_slots() - kLength / 2);
  run_sequence(100);
  compaction_.step(running_);
  EXPECT_EQ(metrics_.moved_tokens.value(), 0u);
}

}  // namespace
}  // namespace espalier::compaction_test
