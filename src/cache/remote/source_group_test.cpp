#include "cache/remote/source_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "cache/testing/test_tokens.h"

namespace espalier::source_group_test {
namespace {

using namespace std::chrono_literals;
using testing::counting;
using ::testing::ElementsAre;

// A place that has the blocks from the first on, and says who was asked what.
struct Place {
  int has = 0;
  bool fails = false;
  std::vector<std::string> asked;
  std::vector<std::chrono::nanoseconds> times;  // that it had
};

class PlaceSource final : public BlockSource {
 public:
  explicit PlaceSource(Place& place) : place_(place) {}
  Result<std::vector<bool>> find(const BlockChain& chain, int first, Time until) override {
    place_.asked.emplace_back("find");
    place_.times.push_back(until - std::chrono::steady_clock::now());
    if (place_.fails) return Error{Error::Kind::network, "it is gone", {}, {}};
    std::vector<bool> there;
    for (int b = first; b < chain.blocks(); ++b) there.push_back(b < place_.has);
    return there;
  }
  Result<Read> read(const BlockChain&, int first, std::span<std::byte> into, Time) override {
    place_.asked.emplace_back("read");
    if (place_.fails) return Error{Error::Kind::network, "it is gone", {}, {}};
    return Read{std::clamp(place_.has - first, 0, static_cast<int>(into.size())), {}};
  }
  Result<Kept> keep(const BlockChain&, int, std::span<const std::byte> blocks, Time) override {
    place_.asked.emplace_back("keep");
    return Kept{static_cast<int>(blocks.size()), 0, {}};
  }

 private:
  Place& place_;
};

class SourceGroups : public ::testing::Test {
 protected:
  // As each thread has one: of the same places, with the same health.
  std::unique_ptr<SourceGroup> group() {
    std::vector<SourceGroup::Member> members;
    for (std::size_t i = 0; i < places_.size(); ++i)
      members.push_back({std::make_unique<PlaceSource>(places_[i]), health_[i]});
    return std::make_unique<SourceGroup>(std::move(members), choices_);
  }
  static BlockSource::Time soon() { return std::chrono::steady_clock::now() + 20s; }
  static int found(SourceGroup& group, const BlockChain& chain, int first = 0) {
    const auto there = group.find(chain, first, soon());
    return there.ok() ? static_cast<int>(std::ranges::count(*there, true)) : -1;
  }

  const BlockNamer namer_{"model", ""};
  const BlockChain chain_ = namer_.chain("", counting(1, 160)), other_ = namer_.chain("", counting(2, 160));
  std::vector<Place> places_ = std::vector<Place>(3);
  Gauge state_;
  std::vector<std::shared_ptr<RemoteHealth>> health_ = {std::make_shared<RemoteHealth>("a", state_),
                                                        std::make_shared<RemoteHealth>("b", state_),
                                                        std::make_shared<RemoteHealth>("c", state_)};
  const std::shared_ptr<SharedChoices> choices_ = std::make_shared<SharedChoices>();
  std::vector<std::byte> into_ = std::vector<std::byte>(10);  // a block takes one byte
};

TEST_F(SourceGroups, TheLongestWinsAndIsReadFromByAnotherThreadsGroup) {
  places_[0].has = 3;
  places_[1].has = 7;
  places_[2].has = 5;
  const auto asks = group(), reads = group();
  EXPECT_EQ(found(*asks, chain_), 7);
  EXPECT_EQ(reads->read(chain_, 0, into_, soon())->blocks, 7);
  EXPECT_THAT(places_[0].asked, ElementsAre("find"));
  EXPECT_THAT(places_[1].asked, ElementsAre("find", "read"));
  EXPECT_THAT(places_[2].asked, ElementsAre("find"));
}

TEST_F(SourceGroups, EachSequenceIsReadWhereItWasFoundLast) {
  const auto both = group();
  places_[2].has = 4;
  EXPECT_EQ(found(*both, chain_), 4);
  places_[1].has = 6;
  EXPECT_EQ(found(*both, other_), 6);
  EXPECT_EQ(both->read(chain_, 0, into_, soon())->blocks, 4);
  EXPECT_EQ(both->read(other_, 0, into_, soon())->blocks, 6);
  EXPECT_EQ(found(*both, chain_), 6);
  EXPECT_EQ(both->read(chain_, 0, into_, soon())->blocks, 6);
  EXPECT_EQ(both->read(namer_.chain("", counting(9, 160)), 0, into_, soon())->blocks, 0)
      << "the first, of what nobody found";
  EXPECT_THAT(places_[0].asked, ::testing::Contains("read"));
}

TEST_F(SourceGroups, WhoHasAllEndsTheSearch) {
  places_[0].has = 10;
  places_[1].has = 10;
  EXPECT_EQ(found(*group(), chain_), 10);
  EXPECT_THAT(places_[1].asked, ElementsAre());
}

TEST_F(SourceGroups, OneThatFailsIsLeftAloneAndTheOthersGoOn) {
  places_[0].fails = true;
  places_[1].has = 2;
  const auto asks = group();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(found(*asks, chain_), 2);
  EXPECT_THAT(places_[0].asked, ElementsAre("find")) << "once, for now";
  places_[1].fails = places_[2].fails = true;
  EXPECT_EQ(found(*asks, chain_), -1);
  const auto down = asks->find(chain_, 0, soon());
  ASSERT_FALSE(down.ok());
  EXPECT_EQ(down.error().kind, Error::Kind::unavailable);
  EXPECT_THAT(places_[2].asked, ::testing::SizeIs(4));
  for (Place& place : places_) place.fails = false;
  places_[0].has = 5;
  const auto start = std::chrono::steady_clock::now();
  while (found(*asks, chain_) != 5 && std::chrono::steady_clock::now() - start < 20s) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(found(*asks, chain_), 5) << "it is asked again after a while";
}

TEST_F(SourceGroups, AReadThatFailsIsAMissAndItsPlaceIsLeftAlone) {
  places_[1].has = 6;
  const auto both = group();
  EXPECT_EQ(found(*both, chain_), 6);
  places_[1].fails = true;
  const auto read = both->read(chain_, 0, into_, soon());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->blocks, 0);
  EXPECT_EQ(found(*both, chain_), 0);
  EXPECT_THAT(places_[1].asked, ElementsAre("find", "read"));
}

TEST_F(SourceGroups, OneThatDoesNotAnswerLeavesTimeToTheOthers) {
  EXPECT_EQ(found(*group(), chain_), 0);
  for (const Place& place : places_) ASSERT_EQ(place.times.size(), 1u);
  EXPECT_LT(places_[0].times[0], 7s);
  EXPECT_LT(places_[1].times[0], 11s);
  EXPECT_GT(places_[2].times[0], 11s);
}

TEST_F(SourceGroups, TheFirstKeeps) {
  EXPECT_EQ(group()->keep(chain_, 0, into_, soon())->written, 10);
  EXPECT_THAT(places_[0].asked, ElementsAre("keep"));
  EXPECT_THAT(places_[1].asked, ElementsAre());
}

TEST_F(SourceGroups, ManySequencesAreRememberedAndTheOldestForgotten) {
  std::vector<BlockChain> chains;
  for (int i = 0; i < 300; ++i) {
    chains.push_back(namer_.chain("", counting(1000 * i, 16)));
    choices_->note(chains.back().names.back(), 2);
  }
  EXPECT_EQ(choices_->of(chains.back().names.back()), 2u);
  EXPECT_EQ(choices_->of(chains[100].names.back()), 2u);
  EXPECT_EQ(choices_->of(chains[0].names.back()), 0u);
}

}  // namespace
}  // namespace espalier::source_group_test
