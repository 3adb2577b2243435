// Requests with pictures through a core, with doubles of a model and a tower: what a picture gives is a number of its
// pixels, the model chains the numbers of all tokens and rows, so every answer is known beforehand. One row that is
// lost, taken from another picture or computed at another place changes all that follows.
#include <gtest/gtest.h>

#include <random>

#include "engine/pictures/tower_queue.h"
#include "engine/step/chain_model.h"
#include "engine/step/core_requests.h"
#include "image/processors/processor.h"

namespace espalier::pictures_core_test {
namespace {

using testing::ChainModel;
using testing::CoreHarness;

constexpr TokenId kImage = 2;  // the token that stands for a row

float feature(float pixel, int row) {
  return pixel * 1000 + static_cast<float>(row);
}

TowerSpec tower_spec() {
  TowerSpec spec;
  spec.patch_width = 1;
  spec.layout = [](std::span<const TowerPicture> pictures) {
    TowerLayout layout;
    for (const TowerPicture& p : pictures) {
      layout.patches.resize(layout.patches.size() + static_cast<std::size_t>(p.patches()));
      layout.features.push_back(static_cast<int>(p.patches()));
    }
    return layout;
  };
  return spec;
}

// A tower that takes some turns, and may fail.
class NumberTower final : public FeatureMaker {
 public:
  int rows_of(std::span<const TowerPicture> pictures) const override {
    int rows = 0;
    for (const TowerPicture& p : pictures) rows += static_cast<int>(p.patches());
    return rows;
  }
  Result<> begin(std::span<const TowerPicture> pictures) override {
    if (fails) return Error{Error::Kind::out_of_memory, "no memory for pictures", {}, {}};
    pictures_.assign(pictures.begin(), pictures.end());
    turns_ = 3;
    return success();
  }
  bool advance_rows(int) override { return --turns_ <= 0; }
  std::vector<PictureFeatures> take() override {
    std::vector<PictureFeatures> made;
    for (const TowerPicture& p : pictures_) {
      ++computed;
      PictureFeatures& f = made.emplace_back(PictureFeatures{static_cast<int>(p.patches()), 1, {{}}});
      for (int row = 0; row < f.rows; ++row) f.outputs[0].push_back(feature(p.pixels[0], row));
    }
    return made;
  }
  int outputs() const override { return 1; }

  int computed = 0;
  bool fails = false;

 private:
  std::vector<TowerPicture> pictures_;
  int turns_ = 0;
};

// Picture number `number`, of 4 to 40 patches.
PictureInput picture(int number, int first) {
  auto block = std::make_shared<pictures::PixelBlock>();
  block->grid = {1, 1 + number % 5, 4 + number % 4};
  const int rows = block->grid.height * block->grid.width;
  block->values.assign(static_cast<std::size_t>(rows), static_cast<float>(number + 1));
  PictureInput input;
  input.pixels = block;
  input.content = {mix_bits(static_cast<std::uint64_t>(number)), 7};
  input.spans = {{first, rows}};
  return input;
}

void add_picture(RequestFields& fields, int number) {
  const PictureInput added = picture(number, static_cast<int>(fields.prompt.size()));
  fields.prompt.insert(fields.prompt.end(), static_cast<std::size_t>(added.spans[0].count), kImage);
  fields.pictures.push_back(added);
}

// What the model says after this prompt, by the definition.
std::vector<TokenId> expected(const RequestFields& fields, bool axes) {
  const auto tokens = static_cast<std::int64_t>(fields.prompt.size());
  std::vector<PicturePlace> places;
  std::vector<std::uint64_t> numbers;
  for (const TokenId token : fields.prompt) numbers.push_back(ChainModel::number_of(token));
  for (const PictureInput& p : fields.pictures) {
    places.push_back({p.spans[0].first, p.pixels->grid.time, p.pixels->grid.height, p.pixels->grid.width});
    for (int row = 0; row < p.spans[0].count; ++row)
      numbers[static_cast<std::size_t>(p.spans[0].first) + static_cast<std::size_t>(row)] =
          ChainModel::number_of(feature(p.pixels->values[0], row));
  }
  const AxisPlan plan =
      axis_positions(tokens, axes ? std::span<const PicturePlace>(places) : std::span<const PicturePlace>());
  std::uint64_t value = ChainModel::start();
  for (std::size_t i = 0; i < numbers.size(); ++i) value = ChainModel::chained(value, numbers[i], plan.axes[i]);
  std::vector<TokenId> said;
  for (int i = 0; i < *fields.sampling.max_new_tokens; ++i) {
    said.push_back(ChainModel::likeliest(value));
    value = ChainModel::chained(value, ChainModel::number_of(said.back()), {});
  }
  return said;
}

class PicturesInACore : public ::testing::TestWithParam<bool> {
 protected:
  PicturesInACore() : spec(tower_spec()) {}

  // both_ways: no chunk may cut a picture.
  std::unique_ptr<CoreHarness> core(CoreOptions options, int slots, bool both_ways) {
    options.longest_span = both_ways ? 64 : 0;
    options.vocabulary = ChainModel::kVocabulary;
    auto harness = std::make_unique<CoreHarness>(model.parts(), std::move(options), slots);
    spec.axes = {};
    if (GetParam()) spec.axes = axis_positions;
    harness->picture_rules = {&spec, ChainModel::kVocabulary, both_ways, 64, 1000};
    queue = std::make_unique<TowerQueue>(tower, shelf_bytes, harness->metrics.pictures);
    harness->core.attach(*queue);
    return harness;
  }
  void expect_answers(const CoreHarness& harness, std::span<const RequestFields> asked) {
    for (std::size_t i = 0; i < asked.size(); ++i)
      for (const auto& answer : harness.answers[i])
        if (answer.finish.reason != FinishReason::abort) {
          EXPECT_EQ(answer.tokens, expected(asked[i], GetParam())) << "request " << i;
        }
  }

  TowerSpec spec;
  NumberTower tower;
  std::size_t shelf_bytes = 4096;
  std::unique_ptr<TowerQueue> queue;  // outlives the core
  ChainModel model;
};

RequestFields greeting(int number) {
  RequestFields fields = testing::request({5, 6, 7}, 6);
  add_picture(fields, number);
  fields.prompt.insert(fields.prompt.end(), {8, 9});
  return fields;
}

TEST_P(PicturesInACore, ThatTwoRequestsShareAreComputedOnce) {
  const auto harness = core(testing::options(), 600, false);
  const RequestFields asked[] = {greeting(3), greeting(3), greeting(4)};
  for (const RequestFields& fields : asked) harness->add(fields);
  harness->run();
  expect_answers(*harness, asked);
  EXPECT_EQ(tower.computed, 2);
  EXPECT_EQ(
      harness->answers[0][0].finish.usage.pictures_computed + harness->answers[1][0].finish.usage.pictures_computed, 1);
}

TEST_P(PicturesInACore, ThatTheTreeHasNeedNoTower) {
  shelf_bytes = 0;
  const auto harness = core(testing::options(), 600, false);
  RequestFields longer = greeting(3);
  harness->add(longer);
  harness->run();
  longer.prompt.insert(longer.prompt.end(), {11, 12, 13});
  harness->add(longer);
  harness->run();
  EXPECT_EQ(tower.computed, 1);
  const Usage usage = harness->answers[1][0].finish.usage;
  EXPECT_EQ(usage.image_tokens, longer.pictures[0].spans[0].count);
  EXPECT_EQ(usage.cached_image_tokens, usage.image_tokens);
  EXPECT_EQ(usage.pictures_computed, 0);
  EXPECT_EQ(harness->answers[1][0].tokens, expected(longer, GetParam()));
}

// Both pictures have as many tokens, and stand at the same place.
TEST_P(PicturesInACore, AreNeverTakenForOneAnother) {
  const auto harness = core(testing::options(), 600, false);
  RequestFields one = greeting(3), other = greeting(23);
  ASSERT_EQ(one.prompt, other.prompt);
  harness->add(one);
  harness->run();
  harness->add(other);
  harness->run();
  EXPECT_EQ(harness->answers[0][0].tokens, expected(one, GetParam()));
  EXPECT_EQ(harness->answers[1][0].tokens, expected(other, GetParam()));
  EXPECT_EQ(harness->answers[1][0].finish.usage.cached_image_tokens, 0);
}

TEST_P(PicturesInACore, ThatAreLongerThanAChunkAreComputedWhole) {
  const auto harness = core(testing::options(16), 600, true);
  const RequestFields asked[] = {greeting(19), greeting(14)};
  ASSERT_GT(asked[0].pictures[0].spans[0].count, 16);
  for (const RequestFields& fields : asked) harness->add(fields);
  harness->run();
  expect_answers(*harness, asked);
}

TEST_P(PicturesInACore, ThatCannotBeComputedEndTheirRequestAlone) {
  const auto harness = core(testing::options(), 600, false);
  tower.fails = true;
  harness->add(greeting(3));
  harness->add(testing::request({5, 6, 7, 8}, 5));
  harness->run();
  EXPECT_EQ(harness->answers[0][0].finish.reason, FinishReason::error);
  EXPECT_EQ(harness->answers[0][0].finish.error.message, "no memory for pictures");
  EXPECT_EQ(harness->answers[1][0].finish.reason, FinishReason::length);
  tower.fails = false;
  harness->add(greeting(3));
  harness->run();
  EXPECT_EQ(harness->answers[2][0].tokens, expected(greeting(3), GetParam()));
}

// Conversations about a few pictures, that share beginnings, come, are cancelled and given up for lack of room.
TEST_P(PicturesInACore, RandomRequestsAreAnsweredAsTheModelDefines) {
  std::mt19937_64 rng(testing::seed());
  const auto below = [&](int n) { return static_cast<int>(rng() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 12; ++round) {
    CoreOptions options = testing::options(round % 3 == 0 ? 16 : 64);
    options.drafts = round % 2 == 0 ? DraftSource::tree : DraftSource::none;
    options.draft_limits.forced = 3;
    options.state_cells = 12;
    shelf_bytes = 400 * static_cast<std::size_t>(below(2));
    const auto harness = core(options, 260, round % 4 < 2);
    std::vector<RequestFields> asked;
    testing::random_arrivals(*harness, rng, 150, [&](int) {
      RequestFields fields = testing::request({5, 6, static_cast<TokenId>(7 + below(2))}, 1 + below(12));
      for (int parts = 1 + below(3); parts > 0; --parts) {
        if (below(4) > 0) add_picture(fields, below(6));
        for (int words = below(5); words > 0; --words) fields.prompt.push_back(static_cast<TokenId>(5 + below(3)));
      }
      fields.sampling.n = 1 + below(2);
      asked.push_back(fields);
      return fields;
    });
    harness->run();
    expect_answers(*harness, asked);
    testing::expect_all_finished(*harness);
  }
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutAxes, PicturesInACore, ::testing::Bool(),
                         [](const auto& made) { return std::string(made.param ? "WithAxes" : "WithoutAxes"); });

}  // namespace
}  // namespace espalier::pictures_core_test
