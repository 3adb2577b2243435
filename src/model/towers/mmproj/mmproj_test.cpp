// Towers out of llama.cpp's files: features equal those of the checkpoint that a file is made of. Files are made here as
// llama.cpp's converter makes them (conversion/ there), or taken from ESPALIER_MMPROJ_GOLDENS (a folder of <golden>.gguf).
#include "model/towers/mmproj/mmproj.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <random>

#include "model/program/builder.h"
#include "model/towers/mmproj/mmproj_recipes.h"
#include "model/towers/tower_golden.h"
#include "testing/temp_folder.h"

namespace espalier::mmproj_test {
namespace {

using testing::TowerGolden;

// --- writing ---

struct Stored {
  std::string name;
  Shape shape;
  std::vector<float> values;
};

std::vector<float> rows_in_pairs(const std::vector<float>& from, std::int64_t rows, std::int64_t heads) {
  std::vector<float> to;
  const std::int64_t dim = rows / heads, width = static_cast<std::int64_t>(from.size()) / rows;
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t i = 0; i < dim / 2; ++i)
      for (std::int64_t half = 0; half < 2; ++half) {
        const auto row = from.begin() + (h * dim + half * dim / 2 + i) * width;
        to.insert(to.end(), row, row + width);
      }
  return to;
}

// Of queries and keys: pairs that turn by one axis, then those of the other, instead of in turns.
std::vector<float> axes_apart(const std::vector<float>& from, std::int64_t rows, std::int64_t heads) {
  std::vector<float> to;
  const std::int64_t dim = rows / 3 / heads, width = static_cast<std::int64_t>(from.size()) / rows;
  const auto put_row = [&](std::int64_t row) {
    to.insert(to.end(), from.begin() + row * width, from.begin() + (row + 1) * width);
  };
  for (std::int64_t h = 0; h < 2 * heads; ++h)
    for (const std::int64_t axis : {0, 1})
      for (std::int64_t pair = 0; pair < dim / 4; ++pair)
        for (const std::int64_t i : {0, 1}) put_row(h * dim + pair * 4 + axis * 2 + i);
  for (std::int64_t row = rows / 3 * 2; row < rows; ++row) put_row(row);
  return to;
}

// First halves of three axes and then second ones become both halves of an axis, then those of the next.
std::vector<float> by_thirds(const std::vector<float>& from, std::int64_t rows, std::int64_t heads) {
  std::vector<float> to;
  const std::int64_t dim = rows / heads, third = dim / 6, width = static_cast<std::int64_t>(from.size()) / rows;
  const auto put_row = [&](std::int64_t row) {
    to.insert(to.end(), from.begin() + row * width, from.begin() + (row + 1) * width);
  };
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t axis = 0; axis < 3; ++axis)
      for (std::int64_t half = 0; half < 2; ++half)
        for (std::int64_t i = 0; i < third; ++i) put_row(h * dim + half * 3 * third + axis * third + i);
    for (std::int64_t i = 6 * third; i < dim; ++i) put_row(h * dim + i);
  }
  return to;
}

// Every third of a tensor's values, of its first dimension.
std::vector<Stored> thirds(const Stored& whole) {
  std::vector<Stored> out;
  const auto each = whole.values.size() / 3;
  for (std::size_t i = 0; i < 3; ++i) {
    Stored& one = out.emplace_back(whole);
    one.name.replace(one.name.find("attn_qkv"), 8, std::array{"attn_q", "attn_k", "attn_v"}[i]);
    one.shape[0] /= 3;
    one.values.assign(whole.values.begin() + static_cast<std::ptrdiff_t>(i * each),
                      whole.values.begin() + static_cast<std::ptrdiff_t>((i + 1) * each));
  }
  return out;
}

std::vector<Stored> frames(const Stored& whole) {
  std::vector<Stored> out(2, {whole.name, {whole.shape[0], whole.shape[1], whole.shape[3], whole.shape[4]}, {}});
  out[1].name += ".1";
  const std::int64_t plane = whole.shape[3] * whole.shape[4];
  for (auto at = whole.values.begin(); at != whole.values.end(); at += 2 * plane)
    for (std::ptrdiff_t i = 0; i < 2; ++i)
      out[static_cast<std::size_t>(i)].values.insert(out[static_cast<std::size_t>(i)].values.end(), at + i * plane,
                                                     at + (i + 1) * plane);
  return out;
}

Stored channels_first(const Stored& whole) {
  const std::int64_t channels = 3, pixels = whole.shape[1] / channels;
  const auto side = static_cast<std::int64_t>(std::lround(std::sqrt(static_cast<double>(pixels))));
  Stored out{whole.name, {whole.shape[0], channels, side, side}, whole.values};
  for (std::int64_t o = 0; o < whole.shape[0]; ++o)
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t p = 0; p < pixels; ++p)
        out.values[static_cast<std::size_t>((o * channels + c) * pixels + p)] =
            whole.values[static_cast<std::size_t>((o * pixels + p) * channels + c)];
  return out;
}

std::vector<Stored> converted(const Recipe& recipe, const Tensor& tensor, const Json& vision) {
  Stored one{tensor.name, tensor.shape, decode(tensor)};
  for (const auto& [from, to] : recipe.names)
    if (const auto at = one.name.find(from); at != std::string::npos) one.name.replace(at, from.size(), to);
  if (!one.name.starts_with("v.") && !one.name.starts_with("mm.")) return {};
  if (one.name.starts_with("v.deepstack.")) {
    const std::size_t number = static_cast<std::size_t>(one.name[12] - '0');
    one.name.replace(12, 1, std::to_string(vision["deepstack_visual_indexes"][number].get<int>()));
  }
  if (one.name == "mm.soft_emb_norm.weight")
    for (float& value : one.values) value += 1.0f;
  const bool turned = one.name.find("attn_q.") != std::string::npos || one.name.find("attn_k.") != std::string::npos;
  if (recipe.pairs && turned)
    one.values = rows_in_pairs(one.values, one.shape[0], vision["num_attention_heads"].get<std::int64_t>());
  if (recipe.thirds && turned)
    one.values = by_thirds(one.values, one.shape[0], vision["num_attention_heads"].get<std::int64_t>());
  if (recipe.axes && one.name.find("attn_qkv") != std::string::npos)
    one.values = axes_apart(one.values, one.shape[0], vision["num_attention_heads"].get<std::int64_t>());
  if (recipe.own_row && one.name == "v.position_embd.weight") {
    one.values.erase(one.values.begin(), one.values.begin() + one.shape[1]);
    --one.shape[0];
  }
  if (recipe.split && one.name.find("attn_qkv") != std::string::npos) return thirds(one);
  if (one.name == "v.patch_embd.weight" && one.shape.size() == 5) return frames(one);
  if (one.name == "v.patch_embd.weight" && recipe.pixels_last) return {channels_first(one)};
  return {one};
}

template <class T>
T either(const Json& object, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (object.contains(name)) return (object[name].is_array() ? object[name][0] : object[name]).get<T>();
  return T{};
}

std::string file_of(const Recipe& recipe, const TowerGolden& g) {
  const Json& vision = g.config["vision_config"];
  GgufWriter writer;
  writer.put("general.architecture", "clip");
  writer.put(recipe.projector == "gemma4v" ? "clip.vision.projector_type" : "clip.projector_type", recipe.projector);
  const Json& text = g.config.contains("text_config") ? g.config["text_config"] : g.config;
  put(writer, "projection_dim", text["hidden_size"].get<int>());
  put(writer, "embedding_length", either<int>(vision, {"embed_dim", "hidden_size"}));
  put(writer, "feed_forward_length", 1);  // of some files it is another number than that of the layers
  put(writer, "block_count", static_cast<std::int64_t>(g.spec->body.layers.size()));
  put(writer, "attention.head_count", either<int>(vision, {"num_heads", "num_attention_heads"}));
  put(writer, "patch_size", either<int>(vision, {"patch_size"}));
  const int image = either<int>(vision, {"image_size"});
  put(writer, "image_size", image > 0 ? image : 224);
  writer.put("clip.vision.attention.layer_norm_epsilon", g.spec->body.norm.eps);
  if (recipe.projector.starts_with("glm")) writer.put("clip.use_silu", true);
  if (recipe.keys) recipe.keys(writer, g.config, vision);
  std::string bytes;
  for (const Tensor& tensor : g.file->tensors())
    for (const Stored& one : converted(recipe, tensor, vision)) {
      writer.declare(one.name, DType::f32, one.shape);
      const std::size_t size = one.values.size() * sizeof(float);
      bytes.append(reinterpret_cast<const char*>(one.values.data()), size);
      bytes.append(writer.padding(size), '\0');
    }
  return writer.head() + bytes;
}

std::filesystem::path stored(const Recipe& recipe, const TowerGolden& g, const testing::TempFolder& folder) {
  if (const char* ready = std::getenv("ESPALIER_MMPROJ_GOLDENS")) {
    const auto path = std::filesystem::path(ready) / (recipe.golden.substr(3) + ".gguf");
    if (std::filesystem::exists(path)) return path;
    std::printf("%s is not there; a file is made\n", path.c_str());
  }
  return folder.write("mmproj.gguf", file_of(recipe, g));
}

class EachProjector : public ::testing::TestWithParam<Recipe> {};

TEST_P(EachProjector, GivesTheFeaturesOfTheCheckpoint) {
  const Recipe recipe = GetParam();
  if (!std::filesystem::exists(testing::golden("models/" + recipe.golden)))
    GTEST_SKIP() << recipe.golden << " is not there";
  TowerGolden g(recipe.golden);
  ASSERT_TRUE(g.spec) << g.refusal;
  const testing::TempFolder folder;
  const auto file = GgufFile::open(stored(recipe, g, folder));
  ASSERT_TRUE(file.ok()) << file.error().message;
  const auto mmproj = MmprojFile::read(*file);
  ASSERT_TRUE(mmproj.ok()) << mmproj.error().message;
  const Weights weights(**mmproj, Naming::hf);
  const auto made = Tower::load((*mmproj)->spec(), weights, {Activations::f32, 4096}, g.team);
  ASSERT_TRUE(made.ok()) << made.error().message;
  const testing::Pictures pictures = g.pictures("two-images");
  const auto got = testing::run(**made, pictures.pictures),
             want = testing::run(*g.tower(Activations::f32), pictures.pictures);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].outputs.size(), want[i].outputs.size());
    for (std::size_t k = 0; k < got[i].outputs.size(); ++k)
      EXPECT_THAT(got[i].outputs[k], ::testing::Pointwise(::testing::FloatNear(2e-4f), want[i].outputs[k]));
  }
}

INSTANTIATE_TEST_SUITE_P(Recipes, EachProjector, ::testing::ValuesIn(recipes()), [](const auto& test) {
  std::string name = test.param.golden;
  for (char& c : name)
    if (c == '-' || c == '.') c = '_';
  return name;
});

// --- refusals ---

// Changed bytes of a file's head are refused, or the file is read; nothing else happens.
TEST(Mmproj, ChangedBytesAreRefusedOrRead) {
  std::mt19937_64 rng(testing::seed());
  for (const Recipe& recipe : recipes()) {
    if (!std::filesystem::exists(testing::golden("models/" + recipe.golden))) continue;
    const TowerGolden g(recipe.golden);
    const std::string whole = file_of(recipe, g);
    for (int i = 0; i < 40; ++i) {
      std::string bytes = whole;
      for (int n = 0; n < 3; ++n) bytes[rng() % 4000] = static_cast<char>(rng());
      const testing::TempFolder folder;
      const auto file = GgufFile::open(folder.write("mmproj.gguf", bytes));
      if (!file.ok()) continue;
      const auto read = MmprojFile::read(*file);
      if (!read.ok()) {
        EXPECT_FALSE(read.error().message.empty());
        continue;
      }
      const Weights weights(**read, Naming::hf);
      (void)Builder::build((*read)->spec(), &weights);
    }
  }
}

std::string refusal(const std::function<void(GgufWriter&)>& fill) {
  GgufWriter writer;
  fill(writer);
  writer.declare("v.post_ln.weight", DType::f32, {8});
  const testing::TempFolder folder;
  auto file = GgufFile::open(folder.write("mmproj.gguf", writer.head() + std::string(32, '\0')));
  if (!file.ok()) return file.error().message;
  const auto read = MmprojFile::read(*file);
  return read.ok() ? "accepted" : read.error().message;
}

TEST(Mmproj, RefusesWhatIsNoTowerOrHasAnUnknownProjector) {
  EXPECT_THAT(refusal([](GgufWriter& w) { w.put("general.architecture", "llama"); }),
              ::testing::HasSubstr("mmproj.gguf: clip.projector_type is missing, so this is no file of a tower"));
  EXPECT_THAT(refusal([](GgufWriter& w) { w.put("clip.projector_type", "ldp"); }),
              ::testing::AllOf(::testing::HasSubstr("projectors of type \"ldp\" are not supported here"),
                               ::testing::HasSubstr("qwen3vl_merger")));
}

TEST(Mmproj, NamesTheKeyThatIsMissingOrImpossible) {
  EXPECT_THAT(refusal([](GgufWriter& w) { w.put("clip.projector_type", "gemma3"); }),
              ::testing::HasSubstr("clip.vision.embedding_length"));
  const auto with_heads = [](std::uint32_t heads) {
    return refusal([&](GgufWriter& w) {
      w.put("clip.projector_type", "gemma3");
      for (const char* key : {"embedding_length", "patch_size", "image_size", "projection_dim"}) put(w, key, 64);
      put(w, "block_count", 1);
      put(w, "attention.head_count", heads);
      w.put("clip.vision.attention.layer_norm_epsilon", 1e-6f);
    });
  };
  EXPECT_THAT(with_heads(5), ::testing::HasSubstr("5 heads must divide the tower's width"));
}

}  // namespace
}  // namespace espalier::mmproj_test
