// The tower of a GGUF model: which file is taken, and what becomes of one that cannot be used.
#include "engine/load/tower_file.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "tensor/file/gguf_writer.h"
#include "testing/data.h"
#include "testing/temp_folder.h"

namespace espalier::tower_file_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Keys of a small Gemma 3 tower, without its tensors.
std::string tower(std::uint32_t text_width, std::uint32_t image = 56) {
  GgufWriter writer;
  writer.put("general.architecture", "clip");
  writer.put("clip.projector_type", "gemma3");
  const auto put = [&](const char* key, std::uint32_t value) { writer.put(std::string("clip.vision.") + key, value); };
  put("embedding_length", 8);
  put("block_count", 1);
  put("attention.head_count", 2);
  put("patch_size", 14);
  put("image_size", image);
  put("projection_dim", text_width);
  put("projector.scale_factor", 2);
  writer.put("clip.vision.attention.layer_norm_epsilon", 1e-6f);
  writer.declare("v.post_ln.weight", DType::f32, {8});
  return writer.head() + std::string(32, '\0');
}

class TowerFile : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto golden = testing::golden("gguf/gguf-llama3");
    if (golden.empty()) GTEST_SKIP() << "left out: no goldens here";
    model = folder.path() / "m-Q4_1.gguf";
    fs::copy(golden / "gguf-llama3-Q4_1.gguf", model);
    options.model_path = model.string();
  }
  Error refusal() const {
    auto files = open_model_files(options);
    EXPECT_FALSE(files.ok());
    return files.ok() ? Error{} : files.error();
  }
  std::string taken() const {
    auto files = open_model_files(options);
    EXPECT_TRUE(files.ok()) << files.error().message;
    if (!files.ok()) return "refused";
    EXPECT_EQ(files->tower.has_value(), !files->tower_path.empty());
    EXPECT_EQ(files->config.spec.takes_given, files->tower.has_value());
    return fs::path(files->tower_path).filename();
  }

  testing::TempFolder folder;
  fs::path model;
  EngineOptions options;
};

TEST_F(TowerFile, LiesBesideTheModelOrIsNamed) {
  EXPECT_EQ(taken(), "");
  const auto named = folder.write("elsewhere/tower.gguf", tower(256));
  folder.write("mmproj-m-F32.gguf", tower(256));
  EXPECT_EQ(taken(), "mmproj-m-F32.gguf");
  options.tower_path = named.string();
  EXPECT_EQ(taken(), "tower.gguf");
  options.skip_tower = true;
  EXPECT_THAT(refusal().message, HasSubstr("exclude each other"));
  options.tower_path.clear();
  EXPECT_EQ(taken(), "");
}

TEST_F(TowerFile, OfAnotherWidthIsNotTheModels) {
  const auto other = folder.write("mmproj-m-F16.gguf", tower(64));
  EXPECT_EQ(taken(), "");
  options.tower_path = other.string();
  EXPECT_THAT(refusal().message, HasSubstr("gives rows of 64 values, but the text model's have 256"));
  EXPECT_EQ(refusal().field, "mmproj");
}

TEST_F(TowerFile, ThatIsNamedMustBeThere) {
  options.tower_path = (folder.path() / "nothing.gguf").string();
  EXPECT_EQ(refusal().kind, Error::Kind::not_found);
  options.tower_path = model.string();
  EXPECT_THAT(refusal().message, HasSubstr("clip.projector_type is missing"));
}

TEST_F(TowerFile, OfAHubsCacheMayLieAtTheTopOfItsRepository) {
  const fs::path snapshot = folder.path() / "models--a--b" / "snapshots" / "1234";
  fs::create_directories(snapshot / "BF16");
  fs::copy(model, snapshot / "BF16" / "m-BF16.gguf");
  EXPECT_EQ(tower_file_beside(snapshot / "BF16" / "m-BF16.gguf"), std::nullopt);
  folder.write("models--a--b/snapshots/1234/mmproj-BF16.gguf", tower(256));
  EXPECT_EQ(tower_file_beside(snapshot / "BF16" / "m-BF16.gguf"), snapshot / "mmproj-BF16.gguf");
  folder.write("models--a--b/snapshots/1234/BF16/mmproj-F32.gguf", tower(256));
  EXPECT_EQ(tower_file_beside(snapshot / "BF16" / "m-BF16.gguf"), snapshot / "BF16" / "mmproj-F32.gguf");
  // Not so in other folders.
  fs::create_directories(folder.path() / "all" / "m");
  fs::copy(model, folder.path() / "all" / "m" / "m.gguf");
  folder.write("all/mmproj-F16.gguf", tower(256));
  EXPECT_EQ(tower_file_beside(folder.path() / "all" / "m" / "m.gguf"), std::nullopt);
}

TEST_F(TowerFile, OfImpossibleSizesIsNotTaken) {
  options.tower_path = folder.write("tower.gguf", tower(256, 14 << 16)).string();
  EXPECT_EQ(refusal().field, "clip.vision.image_size");
  EXPECT_THAT(refusal().message, HasSubstr("8192"));
}

}  // namespace
}  // namespace espalier::tower_file_test
