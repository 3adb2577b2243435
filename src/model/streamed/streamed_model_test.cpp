#include "model/streamed/streamed_model.h"

#include <gtest/gtest.h>

#include <map>

#include "model/config/hf_config.h"
#include "model/decoder.h"
#include "model/small_pool.h"
#include "tensor/file/safetensors.h"
#include "testing/data.h"

namespace espalier::streamed_model_test {
namespace {

struct Golden {
  Result<ModelConfig> config;
  std::unique_ptr<SafetensorsFile> file;
  std::unique_ptr<Weights> weights;

  explicit Golden(const std::string& name) : config(load_hf_config(testing::golden("models/" + name))) {
    auto opened = SafetensorsFile::open_folder(testing::golden("models/" + name));
    if (!opened.ok()) return;
    file = std::make_unique<SafetensorsFile>(std::move(opened).value());
    weights = std::make_unique<Weights>(*file, Naming::hf);
  }
};

std::vector<TokenId> some_tokens(int count) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back((i * 37 + 11) % 250 + 3);
  return tokens;
}

class EveryKind : public ::testing::TestWithParam<const char*> {};

TEST_P(EveryKind, GivesTheLogitsOfTheWholeModel) {
  const Golden golden(GetParam());
  ASSERT_TRUE(golden.config.ok() && golden.weights);
  ComputeTeam team(2);
  const auto tokens = some_tokens(48);
  constexpr int kLength = 24;
  auto streamed = StreamedModel::open(golden.config->spec, *golden.weights, team);
  ASSERT_TRUE(streamed.ok()) << streamed.error().message;
  ASSERT_TRUE((*streamed)->begin(tokens, kLength).ok());
  EXPECT_GT((*streamed)->sections(), 1);
  for (int s = 0; s < (*streamed)->sections(); ++s) {
    const auto ran = (*streamed)->run(s);
    ASSERT_TRUE(ran.ok()) << ran.error().message;
  }
  std::vector<float> got;
  ASSERT_TRUE((*streamed)->logits(0, 48, got).ok());
  auto decoder = Decoder::load(golden.config->spec, *golden.weights, {Activations::f32, 64}, team);
  ASSERT_TRUE(decoder.ok()) << decoder.error().message;
  std::vector<float> want;
  for (int part = 0; part < 2; ++part) {
    testing::SmallPool pool((*decoder)->keeps(), KvType::f32, kLength);
    const auto logits = testing::all_logits(
        **decoder, pool, std::span(tokens).subspan(static_cast<std::size_t>(part) * kLength, kLength), kLength);
    want.insert(want.end(), logits.begin(), logits.end());
  }
  EXPECT_EQ(got, want);
}

INSTANTIATE_TEST_SUITE_P(Models, EveryKind,
                         ::testing::Values("llama3-tied-gqa", "qwen3-tied", "gemma3-text", "qwen2moe-legacy",
                                           "falcon-7b", "deepseek-v3", "n26-mamba2"));

TEST(StreamedModel, ShowsTheRowsThatEachMatrixMultiplies) {
  const Golden golden("llama3-tied-gqa");
  ASSERT_TRUE(golden.weights);
  ComputeTeam team(1);
  auto model = StreamedModel::open(golden.config->spec, *golden.weights, team);
  ASSERT_TRUE(model.ok());
  ASSERT_TRUE((*model)->begin(some_tokens(32), 16).ok());
  std::map<MatrixId, int> rows;
  for (int s = 0; s < (*model)->sections(); ++s)
    ASSERT_TRUE((*model)
                    ->run(s,
                          [&](MatrixId id, const float* values, std::int64_t stride, int count) {
                            EXPECT_NE(values, nullptr);
                            EXPECT_GE(stride, (*model)->matrices()[static_cast<std::size_t>(id)].inputs);
                            rows[id] += count;
                          })
                    .ok());
  const auto matrices = static_cast<int>((*model)->matrices().size());
  for (int id = 0; id < matrices; ++id) EXPECT_EQ(rows[id], id == (*model)->head() ? 0 : 32) << id;
}

TEST(StreamedModel, AModelThatPoolsIsRefused) {
  const Golden golden("emb-distilbert");
  ASSERT_TRUE(golden.weights);
  ComputeTeam team(1);
  EXPECT_FALSE(StreamedModel::open(golden.config->spec, *golden.weights, team).ok());
}

}  // namespace
}  // namespace espalier::streamed_model_test
