// Towers and the text models behind them against the goldens: features of given pixels, logits and greedy ids of given
// features; and promise 1.
#include <gtest/gtest.h>

#include <cmath>

#include "model/small_pool.h"
#include "model/towers/tower_golden.h"
#include "testing/golden_name.h"

namespace espalier::tower_golden_test {
namespace {

using testing::Pictures;
using testing::run;
using testing::SmallPool;
using testing::TowerGolden;

struct Errors {
  double worst = 0, squares = 0;
  std::size_t count = 0;
  void add(std::span<const float> got, std::span<const float> want) {
    for (std::size_t i = 0; i < want.size(); ++i) {
      const double e = static_cast<double>(got[i]) - static_cast<double>(want[i]);
      worst = std::max(worst, std::abs(e));
      squares += e * e;
    }
    count += want.size();
  }
  double rms() const { return std::sqrt(squares / static_cast<double>(std::max<std::size_t>(1, count))); }
};

double spread(std::span<const float> values) {
  double mean = 0, square = 0;
  for (const float v : values) mean += static_cast<double>(v) / static_cast<double>(values.size());
  for (const float v : values)
    square += std::pow(static_cast<double>(v) - mean, 2) / static_cast<double>(values.size());
  return std::sqrt(square);
}

class EachPictureModel : public ::testing::TestWithParam<std::string> {};

TEST_P(EachPictureModel, GivesTheFeaturesOfGivenPixels) {
  TowerGolden g(GetParam());
  if (!g.spec) GTEST_SKIP() << "left out: " << g.refusal;
  for (const Activations mode : {Activations::f32, Activations::int8}) {
    const auto tower = g.tower(mode);
    ASSERT_TRUE(tower);
    double worst = 0, worst_rms = 0;
    for (const auto& c : g.json["cases"]) {
      const Pictures pictures = g.pictures(c["name"]);
      if (pictures.pictures.empty()) continue;
      std::vector<float> got;
      for (const PictureFeatures& f : run(*tower, pictures.pictures))
        got.insert(got.end(), f.outputs[0].begin(), f.outputs[0].end());
      const auto want = g.floats(c["name"].get<std::string>() + ".image_features");
      ASSERT_EQ(got.size(), want.size()) << c["name"];
      Errors errors;
      errors.add(got, want);
      worst = std::max(worst, errors.worst / spread(want));
      worst_rms = std::max(worst_rms, errors.rms() / spread(want));
    }
    if (mode == Activations::f32)
      EXPECT_LE(worst, 1e-3);
    else
      EXPECT_LE(worst_rms, 0.05);
    std::printf("%-24s features, %s: worst %.1e, root mean square %.1e of their spread\n", GetParam().c_str(),
                mode == Activations::f32 ? "exact" : "default", worst, worst_rms);
  }
}

// The same picture on larger planes; what lies beyond its patches is noise.
Pictures with_margins(const TowerSpec& spec, const TowerPicture& small, int down, int right) {
  Pictures made;
  TowerPicture p = small;
  const int height = p.height * spec.patch, width = p.width * spec.patch;
  p.plane_height = height + down;
  p.plane_width = width + right;
  const float* from = small.pixels.data();
  for (int plane = 0; plane < p.frames * p.tiles * spec.planes; ++plane)
    for (int y = 0; y < p.plane_height; ++y)
      for (int x = 0; x < p.plane_width; ++x)
        made.pixels.push_back(y < height && x < width ? from[(plane * height + y) * width + x] : 1e3f);
  p.pixels = made.pixels;
  made.pictures.push_back(p);
  return made;
}

TEST_P(EachPictureModel, ReadsNoPixelBeyondTheLastWholePatch) {
  TowerGolden g(GetParam());
  if (!g.spec || g.spec->planes == 0) GTEST_SKIP() << "no planes";
  const Pictures pictures = g.pictures("one-image");
  ASSERT_FALSE(pictures.pictures.empty());
  const auto tower = g.tower(Activations::f32);
  ASSERT_TRUE(tower);
  const Pictures wide = with_margins(*g.spec, pictures.pictures[0], 6, 3);
  EXPECT_EQ(run(*tower, wide.pictures)[0].outputs, run(*tower, {&pictures.pictures[0], 1})[0].outputs);
}

TEST_P(EachPictureModel, GivesTheSameBitsAloneInABatchAndInSlices) {
  TowerGolden g(GetParam());
  if (!g.spec) GTEST_SKIP() << "left out: " << g.refusal;
  const Pictures pictures = g.pictures("two-images");
  for (const Activations mode : {Activations::f32, Activations::int8}) {
    const auto tower = g.tower(mode);
    ASSERT_TRUE(tower);
    const auto together = run(*tower, pictures.pictures);
    ASSERT_EQ(together.size(), pictures.pictures.size());
    for (std::size_t i = 0; i < together.size(); ++i) {
      const auto alone = run(*tower, {&pictures.pictures[i], 1}, 1);
      ASSERT_EQ(alone.size(), 1u);
      EXPECT_EQ(alone[0].outputs, together[i].outputs) << "picture " << i;
      for (const int rows : {1, 7, 16}) {
        ASSERT_TRUE(tower->begin({&pictures.pictures[i], 1}).ok());
        while (!tower->advance_rows(rows)) {
        }
        EXPECT_EQ(tower->take()[0].outputs, together[i].outputs) << "picture " << i << ", by " << rows << " rows";
      }
    }
  }
}

// A prompt with its pictures, as the text model takes it.
struct Prompt {
  std::vector<TokenId> tokens;
  std::vector<std::vector<const float*>> given;  // [input][token]
  std::vector<AxisPositions> axes;               // of the first tokens
  std::int64_t shift = 0;                        // behind them
  std::vector<std::int32_t> first, last;         // of spans

  void add(TokenId token) {
    const auto at = static_cast<std::int32_t>(tokens.size());
    tokens.push_back(token);
    for (auto& input : given) input.push_back(nullptr);
    first.push_back(at);
    last.push_back(at);
  }
};

// Where the pictures' place-holders begin, and their grids.
std::vector<PicturePlace> places_of(const TowerGolden& g, const nlohmann::json& c) {
  const std::vector<TokenId> tokens = c["tokens"];
  const std::vector<int> counts = c["tokens_per_image"];
  std::vector<PicturePlace> places;
  auto at = tokens.begin();
  for (const TowerPicture& p : g.pictures(c["name"]).pictures) {
    at = std::find(at, tokens.end(), g.json["image_token_id"].get<TokenId>());
    places.push_back({at - tokens.begin(), p.frames, p.height / g.spec->merge, p.width / g.spec->merge});
    at += counts[places.size() - 1];
  }
  return places;
}

Prompt prompt_of(const TowerGolden& g, const nlohmann::json& c, const std::vector<PictureFeatures>& features) {
  Prompt p;
  const TokenId place = g.json["image_token_id"];
  if (!features.empty()) p.given.resize(features[0].outputs.size());
  std::size_t picture = 0;
  int row = 0;
  for (const TokenId token : c["tokens"]) {
    p.add(token);
    if (token != place || picture >= features.size()) continue;
    const PictureFeatures& f = features[picture];
    for (std::size_t i = 0; i < p.given.size(); ++i)
      p.given[i].back() = f.outputs[i].data() + std::ptrdiff_t{row} * f.width;
    if (p.tokens.size() > 1 && row > 0 && p.tokens[p.tokens.size() - 2] == place) p.first.back() = *(p.first.end() - 2);
    if (++row == f.rows) ++picture, row = 0;
  }
  for (std::size_t i = p.tokens.size() - 1; i-- > 0;)
    if (p.first[i + 1] <= static_cast<std::int32_t>(i)) p.last[i] = p.last[i + 1];
  if (g.spec->axes) {
    AxisPlan plan = g.spec->axes(static_cast<std::int64_t>(p.tokens.size()), places_of(g, c));
    p.axes = std::move(plan.axes);
    p.shift = plan.shift;
  }
  return p;
}

// Logits of all tokens from `from` on, in chunks that cut no span.
std::vector<float> logits(Decoder& decoder, SmallPool& pool, const Prompt& p, std::int64_t chunk,
                          std::int64_t from = 0) {
  std::vector<float> out;
  const auto all = static_cast<std::int64_t>(p.tokens.size());
  for (std::int64_t at = from, end = 0; at < all; at = end) {
    end = std::min(all, at + chunk);
    end = std::max<std::int64_t>(end, p.last[static_cast<std::size_t>(end - 1)] + 1);
    const auto begin = static_cast<std::size_t>(at), rows = static_cast<std::size_t>(end - at);
    std::vector<Slot> slots;
    std::vector<int> wanted;
    for (std::int64_t i = at; i < end; ++i) {
      slots.push_back(static_cast<Slot>(i));
      wanted.push_back(static_cast<int>(i - at));
    }
    std::vector<std::span<const float* const>> given;
    for (const auto& input : p.given) given.push_back(std::span(input).subspan(begin, rows));
    const KvRun run{0, static_cast<std::int32_t>(end)};
    BatchSequence s{0, static_cast<int>(rows), at, {&run, 1}};
    if (!pool.state.empty()) {
      s.state_in = at > 0 ? pool.state.data() : nullptr;
      s.state_out = pool.state.data();
    }
    if (begin + rows <= p.axes.size()) s.axes = std::span(p.axes).subspan(begin, rows);
    s.axis_shift = p.shift;
    s.span_first = std::span(p.first).subspan(begin, rows);
    s.span_last = std::span(p.last).subspan(begin, rows);
    Batch batch{std::span(p.tokens).subspan(begin, rows), slots, {&s, 1}, wanted};
    batch.given = given;
    const auto got = decoder.forward(batch, {pool.layers});
    out.insert(out.end(), got.begin(), got.end());
  }
  return out;
}

std::vector<TokenId> greedy(Decoder& decoder, SmallPool& pool, Prompt p, std::vector<float> row, int count,
                            const std::vector<TokenId>& never) {
  std::vector<TokenId> ids;
  const auto vocabulary = static_cast<std::size_t>(decoder.vocabulary());
  while (true) {
    row.erase(row.begin(), row.end() - static_cast<std::ptrdiff_t>(vocabulary));
    for (const TokenId id : never) row[static_cast<std::size_t>(id)] = -INFINITY;
    ids.push_back(static_cast<TokenId>(std::ranges::max_element(row) - row.begin()));
    if (static_cast<int>(ids.size()) == count) return ids;
    p.add(ids.back());
    row = logits(decoder, pool, p, 1, static_cast<std::int64_t>(p.tokens.size()) - 1);
  }
}

TEST_P(EachPictureModel, GivesTheLogitsOfGivenFeatures) {
  TowerGolden g(GetParam());
  if (!g.spec) GTEST_SKIP() << "left out: " << g.refusal;
  const auto tower = g.tower(Activations::f32);
  const auto decoder = g.decoder(Activations::f32);
  ASSERT_TRUE(tower && decoder);
  double worst = 0;
  bool same = true;
  for (const auto& c : g.json["cases"]) {
    const Pictures pictures = g.pictures(c["name"]);
    const auto features = run(*tower, pictures.pictures);
    const Prompt prompt = prompt_of(g, c, features);
    SmallPool pool(decoder->keeps(), KvType::f32, 512), other(decoder->keeps(), KvType::f32, 512);
    const auto want = g.floats(c["name"].get<std::string>() + ".logits");
    const auto got = logits(*decoder, pool, prompt, 512);
    ASSERT_EQ(got.size(), want.size());
    EXPECT_EQ(logits(*decoder, other, prompt, 13), got) << "in chunks, " << c["name"];
    Errors errors;
    errors.add(got, want);
    worst = std::max(worst, errors.worst / g.json.value("logit_std", spread(want)));
    const auto ids =
        greedy(*decoder, pool, prompt, got, static_cast<int>(c["greedy"].size()), g.json["never_generate"]);
    EXPECT_EQ(ids, c["greedy"].get<std::vector<TokenId>>()) << c["name"];
    same &= ids == c["greedy"].get<std::vector<TokenId>>();
  }
  EXPECT_LE(worst, 1e-3);
  std::printf("%-24s logits: worst %.1e of their spread, greedy ids %s\n", GetParam().c_str(), worst,
              same ? "the same" : "differ");
}

// The root mean square error of the default decoder behind a tower, as a share of the logits' spread; the worst case's.
double default_error(TowerGolden& g, Tower& tower, Decoder& decoder) {
  double worst = 0;
  for (const auto& c : g.json["cases"]) {
    const auto want = g.floats(c["name"].get<std::string>() + ".logits");
    const Pictures pictures = g.pictures(c["name"]);
    const auto features = run(tower, pictures.pictures);
    SmallPool pool(decoder.keeps(), KvType::bf16, 512);
    Errors errors;
    errors.add(logits(decoder, pool, prompt_of(g, c, features), 512), want);
    worst = std::max(worst, errors.rms() / g.json.value("logit_std", spread(want)));
  }
  return worst;
}

// With a default tower, too, a sparse model (mm-glm5-next) chooses other image tokens to attend to where two of them are
// nearly as good, so that its error may be half as large again as that of the reference in bf16.
TEST_P(EachPictureModel, StaysNearTheLogitsInDefaultMode) {
  TowerGolden g(GetParam());
  if (!g.spec) GTEST_SKIP() << "left out: " << g.refusal;
  const auto exact = g.tower(Activations::f32), tower = g.tower(Activations::int8);
  const auto decoder = g.decoder(Activations::int8);
  ASSERT_TRUE(exact && tower && decoder);
  const auto own = g.json.value("bf16_reference", nlohmann::json::object()).value("rms", 0.0);
  const double usual = g.has_experts() ? 0.2 : 0.15;
  const double of_decoder = default_error(g, *exact, *decoder), of_both = default_error(g, *tower, *decoder);
  EXPECT_LE(of_decoder, std::max(usual, 1.3 * own));
  EXPECT_LE(of_both, std::max(usual, 1.5 * own));
  std::printf("%-24s logits, default: root mean square %.1e of their spread, %.1e behind an exact tower\n",
              GetParam().c_str(), of_both, of_decoder);
}

TEST_P(EachPictureModel, PlacesTokensOnTheAxes) {
  TowerGolden g(GetParam());
  if (!g.spec) GTEST_SKIP() << "left out: " << g.refusal;
  for (const auto& c : g.json["cases"]) {
    const std::string name = c["name"].get<std::string>() + ".mrope_position_ids";
    if (g.tensor(name) == nullptr) continue;
    const std::vector<TokenId> tokens = c["tokens"];
    const AxisPlan plan = g.spec->axes(static_cast<std::int64_t>(tokens.size()), places_of(g, c));
    const auto ids = g.integers(name);
    for (std::size_t i = 0; i < tokens.size(); ++i)
      for (std::size_t axis = 0; axis < 3; ++axis)
        EXPECT_EQ(plan.axes[i][axis], ids[axis * tokens.size() + i]) << c["name"] << " token " << i;
    EXPECT_EQ(plan.shift, c["mrope_delta"].get<std::int64_t>());
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, EachPictureModel, ::testing::ValuesIn(testing::picture_goldens()),
                         testing::golden_name);

}  // namespace
}  // namespace espalier::tower_golden_test
