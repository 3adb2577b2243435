// Towers and the text models behind them against the goldens: features of given pixels, logits and greedy ids of given
// features; and promise 1.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "model/hf_config.h"
#include "model/small_pool.h"
#include "model/towers/table.h"
#include "model/towers/tower.h"
#include "tensor/decode.h"
#include "tensor/file/safetensors.h"
#include "testing/data.h"
#include "testing/golden_name.h"

namespace espalier::tower_golden_test {
namespace {

using testing::SmallPool;

// The image-and-text models among the goldens of both places.
std::vector<std::string> picture_goldens() {
  std::set<std::string> names;
  for (const auto& folder : {testing::shared("goldens/models"), testing::data("goldens/models")}) {
    std::error_code absent;
    for (const auto& entry : std::filesystem::directory_iterator(folder, absent))
      if (const std::string name = entry.path().filename(); name.starts_with("mm-")) names.insert(name);
  }
  return {names.begin(), names.end()};
}

// Some pictures and the floats that they point into.
struct Pictures {
  std::vector<float> pixels;
  std::vector<Picture> pictures;
};

// A golden's folder, its configuration and its tower.
class Golden {
 public:
  explicit Golden(const std::string& name) : folder(testing::golden("models/" + name)) {
    const std::string text = testing::read_file(folder / "config.json");
    config = nlohmann::json::parse(text);
    json = nlohmann::json::parse(testing::read_file(folder / "golden.json"));
    tensors = SafetensorsFile::open(folder / "tensors.safetensors").value();
    file.emplace(SafetensorsFile::open_folder(folder).value());
    weights.emplace(*file, Naming::hf);
    auto read = read_tower_config(text);
    if (read.ok() && *read)
      spec = std::move(**read);
    else
      refusal = read.ok() ? "no tower" : read.error().message;
  }

  std::unique_ptr<Tower> tower(Activations mode) {
    auto made = Tower::load(*spec, *weights, {mode, 4096}, team);
    EXPECT_TRUE(made.ok()) << made.error().message;
    return made.ok() ? std::move(made).value() : nullptr;
  }
  std::unique_ptr<Decoder> decoder(Activations mode) {
    auto text = load_hf_config(folder);
    EXPECT_TRUE(text.ok()) << text.error().message;
    if (!text.ok()) return nullptr;
    auto made = Decoder::load(text->spec, *weights, {mode, 512}, team);
    EXPECT_TRUE(made.ok()) << made.error().message;
    return made.ok() ? std::move(made).value() : nullptr;
  }

  const Tensor* tensor(const std::string& name) const { return tensors->find(name); }
  std::vector<float> floats(const std::string& name) const { return decode(*tensor(name)); }
  std::vector<std::int64_t> integers(const std::string& name) const {
    const Tensor* t = tensor(name);
    std::vector<std::int64_t> out(t->data.size() / sizeof(std::int64_t));
    std::memcpy(out.data(), t->data.data(), t->data.size());
    return out;
  }
  Pictures pictures(const std::string& of) const;

  std::filesystem::path folder;
  nlohmann::json config, json;
  std::optional<SafetensorsFile> tensors, file;
  std::optional<Weights> weights;
  std::optional<TowerSpec> spec;
  std::string refusal;
  ComputeTeam team{2};

 private:
  void add_grids(const std::string& of, Pictures& to) const;
  void add_planes(const std::string& of, const Shape& shape, Pictures& to) const;
  Picture cropped(Picture p, std::int64_t from, std::int64_t height, std::int64_t width, Pictures& to) const;
};

// Patches by a list of grids.
void Golden::add_grids(const std::string& of, Pictures& to) const {
  const auto grids = integers(of + ".image_grid_thw");
  const float* at = to.pixels.data();
  for (std::size_t i = 0; i < grids.size(); i += 3) {
    Picture p;
    p.frames = static_cast<int>(grids[i]);
    p.height = static_cast<int>(grids[i + 1]);
    p.width = static_cast<int>(grids[i + 2]);
    p.pixels = {at, static_cast<std::size_t>(p.patches() * spec->patch_width)};
    at += p.pixels.size();
    to.pictures.push_back(p);
  }
}

// Planes: a picture each, but where a list of sizes gives fewer pictures than there are planes: tiles of these.
void Golden::add_planes(const std::string& of, const Shape& shape, Pictures& to) const {
  const std::int64_t height = shape[shape.size() - 2], width = shape.back(), plane = 3 * height * width;
  const auto pixels = static_cast<std::int64_t>(to.pixels.size());
  to.pixels.reserve(static_cast<std::size_t>(2 * pixels));
  const bool sized = tensor(of + ".image_sizes") != nullptr;
  const auto sizes = sized ? integers(of + ".image_sizes") : std::vector<std::int64_t>();
  const std::int64_t all = pixels / plane;
  const std::int64_t count = sized && shape.size() == 5 ? shape[0] : all;
  for (std::int64_t i = 0; i < count; ++i) {
    Picture p;
    p.height = static_cast<int>(height / spec->patch);
    p.width = static_cast<int>(width / spec->patch);
    p.tiles = static_cast<int>(all / count);
    if (sized) {
      p.original_height = static_cast<int>(sizes[static_cast<std::size_t>(2 * i)]);
      p.original_width = static_cast<int>(sizes[static_cast<std::size_t>(2 * i + 1)]);
    }
    if (spec->tiles) p.tiles = spec->tiles(p);
    if (sized && shape.size() == 4) {
      to.pictures.push_back(cropped(p, i * plane, height, width, to));
      continue;
    }
    const float* at = to.pixels.data() + i * (all / count) * plane;
    p.pixels = {at, static_cast<std::size_t>(p.tiles * plane)};
    to.pictures.push_back(p);
  }
}

// A picture without the padding that its batch gave it. Pixels are appended: room for them was made before.
Picture Golden::cropped(Picture p, std::int64_t from, std::int64_t height, std::int64_t width, Pictures& to) const {
  const std::size_t begin = to.pixels.size();
  for (std::int64_t c = 0; c < 3; ++c)
    for (std::int64_t y = 0; y < p.original_height; ++y)
      for (std::int64_t x = 0; x < p.original_width; ++x)
        to.pixels.push_back(to.pixels[static_cast<std::size_t>(from + (c * height + y) * width + x)]);
  p.height = p.original_height / spec->patch;
  p.width = p.original_width / spec->patch;
  p.pixels = std::span(to.pixels).subspan(begin);
  return p;
}

Pictures Golden::pictures(const std::string& of) const {
  Pictures made;
  const Tensor* pixels = tensor(of + ".pixel_values");
  if (pixels == nullptr) return made;
  made.pixels = decode(*pixels);
  if (tensor(of + ".image_grid_thw") != nullptr)
    add_grids(of, made);
  else
    add_planes(of, pixels->shape, made);
  return made;
}

std::vector<PictureFeatures> run(Tower& tower, std::span<const Picture> pictures, int stages = 1 << 20) {
  const auto begun = tower.begin(pictures);
  EXPECT_TRUE(begun.ok()) << begun.error().message;
  if (!begun.ok()) return {};
  while (!tower.advance(stages)) {
  }
  return tower.take();
}

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
  Golden g(GetParam());
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

TEST_P(EachPictureModel, GivesTheSameBitsAloneInABatchAndInSlices) {
  Golden g(GetParam());
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

Prompt prompt_of(const Golden& g, const nlohmann::json& c, const std::vector<PictureFeatures>& features) {
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
  const std::string name = c["name"].get<std::string>() + ".mrope_position_ids";
  if (g.tensor(name) != nullptr) {
    const auto ids = g.integers(name);
    for (std::size_t i = 0; i < p.tokens.size(); ++i)
      for (std::size_t axis = 0; axis < 3; ++axis)
        if (axis == 0)
          p.axes.push_back({static_cast<std::int32_t>(ids[i]), 0, 0});
        else
          p.axes.back()[axis] = static_cast<std::int32_t>(ids[axis * p.tokens.size() + i]);
    p.shift = c["mrope_delta"];
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
  Golden g(GetParam());
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

TEST_P(EachPictureModel, PlacesTokensOnTheAxes) {
  Golden g(GetParam());
  const TokenId place = g.json["image_token_id"];
  if (!g.spec) GTEST_SKIP() << "left out: " << g.refusal;
  for (const auto& c : g.json["cases"]) {
    const std::string name = c["name"].get<std::string>() + ".mrope_position_ids";
    if (g.tensor(name) == nullptr) continue;
    const std::vector<TokenId> tokens = c["tokens"];
    std::vector<PicturePlace> places;
    auto at = tokens.begin();
    for (const Picture& p : g.pictures(c["name"]).pictures) {
      at = std::find(at, tokens.end(), place);
      places.push_back({at - tokens.begin(), p.frames, p.height / g.spec->merge, p.width / g.spec->merge});
      at += std::ptrdiff_t{p.frames} * places.back().height * places.back().width;
    }
    const AxisPlan plan = axis_positions(static_cast<std::int64_t>(tokens.size()), places);
    const auto ids = g.integers(name);
    for (std::size_t i = 0; i < tokens.size(); ++i)
      for (std::size_t axis = 0; axis < 3; ++axis)
        EXPECT_EQ(plan.axes[i][axis], ids[axis * tokens.size() + i]) << c["name"] << " token " << i;
    EXPECT_EQ(plan.shift, c["mrope_delta"].get<std::int64_t>());
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, EachPictureModel, ::testing::ValuesIn(picture_goldens()), testing::golden_name);

}  // namespace
}  // namespace espalier::tower_golden_test
