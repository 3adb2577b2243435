// Encoders, embedders and scorers against the goldens: rows of the last layer, pooled vectors, scores; alone and together.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "model/blocks/attention/attention.h"
#include "model/config/gguf_config.h"
#include "model/config/hf_config.h"
#include "model/decoder.h"
#include "model/small_pool.h"
#include "tensor/decode.h"
#include "tensor/file/gguf.h"
#include "tensor/file/safetensors.h"
#include "testing/data.h"

namespace espalier::pooled_golden_test {
namespace {

using testing::all_logits;
using testing::SmallPool;

class EachPooledModel : public ::testing::TestWithParam<std::string> {};

double worst_of(std::span<const float> got, std::span<const float> want) {
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(got[i]) - static_cast<double>(want[i])));
  return worst;
}

double spread_of(std::span<const float> values) {
  double squares = 0;
  for (const float v : values) squares += static_cast<double>(v) * static_cast<double>(v);
  return std::sqrt(squares / static_cast<double>(values.size()));
}

// The row that the pooling makes of all rows; of one that reads all, their mean.
std::vector<float> pooled_row(std::span<const float> rows, std::size_t width, Pooling how) {
  const std::size_t count = rows.size() / width;
  if (how == Pooling::first) return {rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(width)};
  if (how == Pooling::last) return {rows.end() - static_cast<std::ptrdiff_t>(width), rows.end()};
  std::vector<float> mean(width);
  for (std::size_t i = 0; i < rows.size(); ++i) mean[i % width] += rows[i];
  for (float& v : mean) v /= static_cast<float>(count);
  return mean;
}

TEST_P(EachPooledModel, RowsAndScoresAreTheReferences) {
  const auto folder = testing::golden("models/" + GetParam());
  if (folder.empty()) GTEST_SKIP() << "left out: no goldens of " << GetParam() << " here";
  const auto golden = nlohmann::json::parse(testing::read_file(folder / "golden.json"));
  auto file = SafetensorsFile::open_folder(folder);
  ASSERT_TRUE(file.ok()) << file.error().message;
  auto tensors = SafetensorsFile::open(folder / "tensors.safetensors");
  ASSERT_TRUE(tensors.ok());
  auto config = load_hf_config(folder);
  ASSERT_TRUE(config.ok()) << config.error().message;
  if (!config->spec.pooled) config->spec.pooled = PooledOutput{};
  for (const Activations mode : {Activations::f32, Activations::int8}) {
    ComputeTeam team(2);
    auto decoder = Decoder::load(config->spec, Weights(*file, Naming::hf), {mode, 512}, team);
    ASSERT_TRUE(decoder.ok()) << decoder.error().message;
    double worst = 0;
    const KvType kv = mode == Activations::f32 ? KvType::f32 : KvType::bf16;
    for (std::size_t p = 0; p < golden["prompts"].size(); ++p) {
      const std::vector<TokenId> tokens = golden["prompts"][p]["tokens"];
      SmallPool pool((*decoder)->keeps(), kv, 256);
      const auto rows = all_logits(**decoder, pool, tokens, 512);
      const auto width = static_cast<std::size_t>((*decoder)->vocabulary());
      if (golden["kind"] == "embedding") {
        const auto want = decode(*tensors->find("p" + std::to_string(p) + ".hidden"));
        ASSERT_EQ(rows.size(), want.size());
        worst = std::max(worst, worst_of(rows, want) / spread_of(want));
      } else {
        const std::vector<float> want = golden["prompts"][p]["scores"];
        const auto vector = pooled_row(rows, width, config->spec.pooled->pooling);
        const float* one = vector.data();
        worst = std::max(worst, worst_of((*decoder)->finish({&one, 1}), want));
      }
    }
    std::printf("%-28s %-5s worst error %.1e\n", GetParam().c_str(), mode == Activations::f32 ? "exact" : "int8",
                worst);
    EXPECT_LE(worst, mode == Activations::f32 ? 1e-4 : 0.5);
  }
}

// A file that llama.cpp's converter has made of one of them.
TEST(EncoderInGguf, GivesTheRowsOfItsFolder) {
  const auto path = testing::data("goldens/gguf/gguf-emb-minilm/minilm-f16.gguf");
  const auto folder = testing::golden("models/emb-text-minilm");
  ASSERT_FALSE(folder.empty());
  auto file = GgufFile::open(path);
  ASSERT_TRUE(file.ok()) << file.error().message;
  auto config = read_gguf_config(*file);
  ASSERT_TRUE(config.ok()) << config.error().message;
  ASSERT_TRUE(config->spec.pooled);
  EXPECT_EQ(config->spec.pooled->pooling, Pooling::mean);
  EXPECT_EQ(config->head, Head::none);
  ComputeTeam team(2);
  auto decoder = Decoder::load(config->spec, Weights(*file, Naming::gguf), {Activations::f32, 512}, team);
  ASSERT_TRUE(decoder.ok()) << decoder.error().message;
  const auto golden = nlohmann::json::parse(testing::read_file(folder / "golden.json"));
  auto tensors = SafetensorsFile::open(folder / "tensors.safetensors");
  for (std::size_t p = 0; p < golden["prompts"].size(); ++p) {
    const std::vector<TokenId> tokens = golden["prompts"][p]["tokens"];
    SmallPool pool((*decoder)->keeps(), KvType::f32, 256);
    const auto rows = all_logits(**decoder, pool, tokens, 512);
    const auto want = decode(*tensors->find("p" + std::to_string(p) + ".hidden"));
    ASSERT_EQ(rows.size(), want.size());
    EXPECT_LE(worst_of(rows, want) / spread_of(want), 1e-4) << p;
  }
}

TEST(DistanceBuckets, EveryDistanceHasOneOfThem) {
  for (int count = 4; count <= 256; ++count) {
    const DistanceBuckets buckets{count};
    for (int distance = -buckets.reach(); distance < buckets.reach() + 16; ++distance) {
      ASSERT_GE(buckets.of(distance), 0) << count << " buckets, distance " << distance;
      ASSERT_LT(buckets.of(distance), count) << count << " buckets, distance " << distance;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, EachPooledModel,
                         ::testing::Values("emb-bert", "emb-distilbert", "emb-embeddinggemma", "emb-gte", "emb-mistral",
                                           "emb-modernbert", "emb-mpnet", "emb-nomic-bert", "emb-qwen2", "emb-qwen3",
                                           "emb-text-bge-m3", "emb-text-gemma", "emb-text-minilm",
                                           "emb-text-modernbert", "emb-text-mpnet", "emb-text-nomic", "emb-text-qwen3",
                                           "emb-xlm-roberta", "rerank-text-bert", "rerank-text-modernbert",
                                           "rerank-text-xlm-roberta", "reward-distilbert", "reward-llama",
                                           "reward-mpnet", "reward-roberta", "reward-modernbert-reranker",
                                           "reward-qwen3-reranker", "reward-xlm-roberta-reranker"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace espalier::pooled_golden_test
