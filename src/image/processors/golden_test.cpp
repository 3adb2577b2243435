// Every image-and-text golden: pixel values from its pictures, equal bit for bit, grids, and what stands for the pictures
// in the text.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <map>

#include "base/json/json.h"
#include "base/json/json_fields.h"
#include "image/decode/decode.h"
#include "image/processors/processor.h"
#include "testing/data.h"
#include "testing/golden_name.h"

namespace espalier::pictures::golden_test {

namespace {

Json read_json(const std::filesystem::path& path) {
  auto json = parse_json(espalier::testing::read_file(path));
  return json.ok() ? *json : Json();
}

// A tensor of a safetensors file; nothing but what these goldens need.
struct GoldenTensor {
  std::vector<std::int64_t> shape;
  std::string type, bytes;

  std::vector<float> floats() const {
    std::vector<float> values(bytes.size() / 4);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  std::vector<std::int64_t> integers() const {
    std::vector<std::int64_t> values;
    std::size_t width = type == "I64" ? 8 : 4;
    for (std::size_t i = 0; i < bytes.size(); i += width) {
      std::int64_t wide = 0;
      std::int32_t narrow = 0;
      std::memcpy(width == 8 ? static_cast<void*>(&wide) : &narrow, bytes.data() + i, width);
      values.push_back(width == 8 ? wide : narrow);
    }
    return values;
  }
};

std::map<std::string, GoldenTensor> read_tensors(const std::filesystem::path& path) {
  std::string file = espalier::testing::read_file(path);
  std::uint64_t head_bytes = 0;
  std::memcpy(&head_bytes, file.data(), 8);
  Json head = *parse_json(std::string_view(file).substr(8, head_bytes));
  std::map<std::string, GoldenTensor> tensors;
  for (const auto& [name, entry] : head.items()) {
    if (name == "__metadata__") continue;
    std::size_t from = entry["data_offsets"][0], to = entry["data_offsets"][1];
    tensors[name] = {entry["shape"].get<std::vector<std::int64_t>>(), entry["dtype"],
                     file.substr(8 + head_bytes + from, to - from)};
  }
  return tensors;
}

std::int64_t product(const std::vector<std::int64_t>& shape, std::size_t from = 0) {
  std::int64_t all = 1;
  for (std::size_t i = from; i < shape.size(); ++i) all *= shape[i];
  return all;
}

// [3, side, patches x side] as the reference has it of MiniCPM-V, from our rows.
std::vector<float> side_by_side(const PixelBlock& block) {
  auto patches = static_cast<std::size_t>(block.shape[0]), side = static_cast<std::size_t>(block.shape[2]);
  std::vector<float> values(block.values.size());
  for (std::size_t p = 0; p < patches; ++p) {
    for (std::size_t c = 0; c < 3; ++c) {
      for (std::size_t y = 0; y < side; ++y) {
        for (std::size_t x = 0; x < side; ++x)
          values[((c * side + y) * patches + p) * side + x] = block.values[((p * 3 + c) * side + y) * side + x];
      }
    }
  }
  return values;
}

// One golden folder.
class PictureGolden : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    folder_ = espalier::testing::golden("models/" + GetParam());
    files_ = {read_json(folder_ / "preprocessor_config.json"),
              read_json(folder_ / "processor_config.json"),
              {},
              read_json(folder_ / "tokenizer_config.json"),
              read_json(folder_ / "config.json")};
    golden_ = read_json(folder_ / "golden.json");
    tensors_ = read_tensors(folder_ / "tensors.safetensors");
    auto made = make_processor(files_);
    ASSERT_TRUE(made.ok()) << made.error().message;
    processor_ = std::move(made).value();
  }

  PixelBlock block_of(const std::string& picture) {
    std::string file = espalier::testing::read_file(folder_ / picture);
    auto decoded = decode_picture(std::as_bytes(std::span(file)));
    EXPECT_TRUE(decoded.ok());
    auto block = processor_->process(*decoded);
    EXPECT_TRUE(block.ok()) << (block.ok() ? "" : block.error().message);
    return std::move(block).value();
  }

  std::filesystem::path folder_;
  ProcessorFiles files_;
  Json golden_;
  std::map<std::string, GoldenTensor> tensors_;
  std::unique_ptr<const Processor> processor_;
};

// Where the values of each of our rows lie in the golden, which may have more (padding) behind them.
std::vector<float> without_padding(const GoldenTensor& golden, const PixelBlock& block, std::int64_t& at) {
  std::vector<float> all = golden.floats(), part;
  auto take = [&](std::int64_t from, std::int64_t count) {
    part.insert(part.end(), all.begin() + from, all.begin() + from + count);
  };
  if (golden.shape.size() == 3 && !block.tile_grids.empty()) {  // [tiles, patches of the budget, values]
    for (Size tile : block.tile_grids) {
      take(at, static_cast<std::int64_t>(tile.height) * tile.width * golden.shape[2]);
      at += golden.shape[1] * golden.shape[2];
    }
  } else if (golden.shape.size() == 4 && block.shape[0] == 1 &&
             (golden.shape[2] != block.shape[2] || golden.shape[3] != block.shape[3])) {
    for (std::int64_t row = 0; row < 3 * golden.shape[2]; ++row) {  // [pictures, 3, largest height, largest width]
      if (row % golden.shape[2] < block.shape[2]) take(at + row * golden.shape[3], block.shape[3]);
    }
    at += product(golden.shape, 1);
  } else {
    take(at, product(block.shape));
    at += golden.shape.size() == 5 && golden.shape[0] > 1 ? product(golden.shape, 1)
          : golden.shape.size() == 3                      ? product(golden.shape, 1)
                                                          : product(block.shape);
  }
  return part;
}

TEST_P(PictureGolden, PixelValuesEqualTheReferenceBitForBit) {
  for (const Json& a_case : golden_["cases"]) {
    if (a_case["images"].empty()) continue;
    std::string name = a_case["name"];
    const GoldenTensor& expected = tensors_.at(name + ".pixel_values");
    std::int64_t at = 0;
    if (tensors_.contains(name + ".target_sizes") && a_case["images"].size() > 1)
      continue;  // patches of both side by side
    for (const Json& picture : a_case["images"]) {
      PixelBlock block = block_of(picture);
      EXPECT_EQ(product(block.shape), static_cast<std::int64_t>(block.values.size()));
      if (tensors_.contains(name + ".target_sizes")) block.values = side_by_side(block);
      EXPECT_EQ(block.values, without_padding(expected, block, at)) << name << " " << picture;
    }
    EXPECT_EQ(at, product(expected.shape)) << name;
  }
}

TEST_P(PictureGolden, GridsAndSizesEqualTheReference) {
  for (const Json& a_case : golden_["cases"]) {
    std::string name = a_case["name"];
    std::vector<std::int64_t> grids, tiles, originals, resized;
    for (const Json& picture : a_case["images"]) {
      PixelBlock block = block_of(picture);
      for (int n : {block.grid.time, block.grid.height, block.grid.width}) grids.push_back(n);
      for (Size tile : block.tile_grids) tiles.insert(tiles.end(), {tile.height, tile.width});
      originals.insert(originals.end(), {block.original.height, block.original.width});
      resized.insert(resized.end(), {block.resized.height, block.resized.width});
    }
    auto expect = [&](const char* tensor, const std::vector<std::int64_t>& ours) {
      auto found = tensors_.find(name + tensor);
      if (found != tensors_.end()) {
        EXPECT_EQ(found->second.integers(), ours) << name << tensor;
      }
    };
    bool llava = files_.preprocessor["image_processor_type"].get<std::string>().starts_with("Llava");
    expect(".image_grid_thw", grids);
    expect(".spatial_shapes", tiles);
    expect(".target_sizes", tiles);
    expect(".image_sizes", llava ? originals : resized);
  }
}

// The ids of a text of special tokens and line breaks.
std::vector<int> ids_of(const Json& tokenizer, std::string text) {
  std::vector<int> ids;
  while (!text.empty()) {
    std::size_t best = 0;
    int id = -1;
    auto offer = [&](std::string_view token, int its_id) {
      if (!token.empty() && token.size() > best && text.starts_with(token)) {
        best = token.size();
        id = its_id;
      }
    };
    for (const Json& added : tokenizer["added_tokens"]) offer(added["content"].get<std::string>(), added["id"]);
    if (id < 0) {
      offer("\n", tokenizer["model"]["vocab"].value("\u010A", -1));
      if (text.starts_with("\n\n") && tokenizer["model"]["vocab"].contains("\u010A\u010A"))
        offer("\n\n", tokenizer["model"]["vocab"]["\u010A\u010A"]);
    }
    if (id < 0) return {};
    ids.push_back(id);
    text.erase(0, best);
  }
  return ids;
}

TEST_P(PictureGolden, PlaceholdersAreThoseOfTheReference) {
  Json tokenizer = read_json(folder_ / "tokenizer.json");
  int image_id = golden_["image_token_id"];
  for (const Json& a_case : golden_["cases"]) {
    std::vector<int> tokens = a_case["tokens"];
    std::size_t from = 0;
    for (std::size_t i = 0; i < a_case["images"].size(); ++i) {
      Placeholders places = processor_->placeholders(block_of(a_case["images"][i]));
      EXPECT_EQ(places.image_tokens(), a_case["tokens_per_image"][i].get<int>());
      if (GetParam() == "mm-gemma3") continue;  // the golden has no line breaks around its marks
      std::vector<int> block;
      for (const PlaceholderPiece& piece : places.pieces) {
        std::vector<int> ids = ids_of(tokenizer, piece.text);
        EXPECT_EQ(ids.empty(), piece.text.empty()) << piece.text;
        block.insert(block.end(), ids.begin(), ids.end());
        block.insert(block.end(), static_cast<std::size_t>(piece.image_tokens), image_id);
      }
      auto found =
          std::search(tokens.begin() + static_cast<std::ptrdiff_t>(from), tokens.end(), block.begin(), block.end());
      ASSERT_NE(found, tokens.end()) << a_case["name"] << " picture " << i << ": " << places.text("_");
      from = static_cast<std::size_t>(found - tokens.begin()) + block.size();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, PictureGolden, ::testing::ValuesIn(espalier::testing::picture_goldens()),
                         espalier::testing::golden_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(PictureGolden);

TEST(PictureGoldens, SayWhetherTheyAreHere) {
  if (!std::filesystem::exists(espalier::testing::shared("goldens/models")))
    GTEST_SKIP() << "../shared/goldens is not here: most goldens of pictures were left out";
}

}  // namespace

}  // namespace espalier::pictures::golden_test
