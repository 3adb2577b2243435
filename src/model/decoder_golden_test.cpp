// Decoders against the goldens: logits at every position, greedy continuations, log-probabilities.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "model/decoder.h"
#include "model/gguf_config.h"
#include "model/hf_config.h"
#include "model/small_pool.h"
#include "tensor/decode.h"
#include "tensor/file/gguf.h"
#include "tensor/file/safetensors.h"
#include "testing/data.h"
#include "testing/golden_name.h"

namespace espalier {
namespace {

using testing::all_logits;
using testing::SmallPool;

std::span<const float> last_row(const std::vector<float>& logits, int vocabulary) {
  return std::span(logits).last(static_cast<std::size_t>(vocabulary));
}

std::vector<TokenId> greedy(Decoder& decoder, SmallPool& pool, std::vector<TokenId> tokens, int count) {
  const auto prompt = tokens.size();
  int from = 0;
  for (int i = 0; i < count; ++i) {
    const auto logits = all_logits(decoder, pool, tokens, 512, from);
    const auto row = last_row(logits, decoder.vocabulary());
    from = static_cast<int>(tokens.size());
    tokens.push_back(static_cast<TokenId>(std::max_element(row.begin(), row.end()) - row.begin()));
  }
  return {tokens.begin() + static_cast<std::ptrdiff_t>(prompt), tokens.end()};
}

class EachTextModel : public ::testing::TestWithParam<std::string> {};

TEST_P(EachTextModel, ExactModeMeetsTheFloat32Tolerance) {
  const auto folder = testing::golden(std::string("models/") + GetParam());
  if (folder.empty()) GTEST_SKIP() << "left out: no goldens of " << GetParam() << " here";
  auto file = SafetensorsFile::open_folder(folder);
  ASSERT_TRUE(file.ok()) << file.error().message;
  auto config = load_hf_config(folder);
  if (!config.ok() && config.error().message.find("which is not supported") != std::string::npos)
    GTEST_SKIP() << "left out: no architecture for " << GetParam() << " yet";
  ASSERT_TRUE(config.ok()) << config.error().message;
  ComputeTeam team(2);
  const Weights weights(*file, Naming::hf);
  auto decoder = Decoder::load(config->spec, weights, {Activations::f32, 512}, team);
  ASSERT_TRUE(decoder.ok()) << decoder.error().message;

  const auto golden = nlohmann::json::parse(testing::read_file(folder / "golden.json"));
  auto logits_file = SafetensorsFile::open(folder / "logits.safetensors");
  ASSERT_TRUE(logits_file.ok());
  const double std = golden["logit_std"];
  double worst_of_all = 0;
  for (std::size_t p = 0; p < golden["prompts"].size(); ++p) {
    const auto& prompt = golden["prompts"][p];
    const std::vector<TokenId> tokens = prompt["tokens"];
    const auto want = decode(*logits_file->find("p" + std::to_string(p) + ".logits"));
    for (int chunk : {512, 16, 1}) {
      SmallPool pool((*decoder)->keeps(), KvType::f32, 256);
      const auto got = all_logits(**decoder, pool, tokens, chunk);
      ASSERT_EQ(got.size(), want.size());
      double worst = 0;
      for (std::size_t i = 0; i < got.size(); ++i)
        worst = std::max(worst, std::abs(static_cast<double>(got[i]) - static_cast<double>(want[i])));
      EXPECT_LE(worst / std, 1e-3) << GetParam() << " prompt " << p << " chunk " << chunk;
      worst_of_all = std::max(worst_of_all, worst / std);
    }
    SmallPool pool((*decoder)->keeps(), KvType::f32, 256);
    EXPECT_EQ(greedy(**decoder, pool, tokens, static_cast<int>(prompt["greedy"].size())),
              prompt["greedy"].get<std::vector<TokenId>>());
  }
  std::printf("%-24s worst error %.1e of the logits' spread\n", GetParam().c_str(), worst_of_all);
}

INSTANTIATE_TEST_SUITE_P(Goldens, EachTextModel,
                         ::testing::ValuesIn(testing::text_goldens()),
                         testing::golden_name);

class EachGgufModel : public ::testing::TestWithParam<const char*> {};

TEST_P(EachGgufModel, EveryFileMeetsItsTolerance) {
  const auto folder = testing::golden(std::string("gguf/") + GetParam());
  if (folder.empty()) GTEST_SKIP() << "left out: no goldens of " << GetParam() << " here";
  const auto golden = nlohmann::json::parse(testing::read_file(folder / "golden.json"));
  auto logits_file = SafetensorsFile::open(folder / "logits.safetensors");
  ASSERT_TRUE(logits_file.ok());
  ComputeTeam team(2);
  int seen = 0;
  for (const auto& [name, entry] : golden["files"].items()) {
    if (!std::filesystem::exists(folder / name)) continue;
    ++seen;
    auto file = GgufFile::open(folder / name);
    ASSERT_TRUE(file.ok()) << file.error().message;
    auto config = read_gguf_config(*file);
    ASSERT_TRUE(config.ok()) << config.error().message;
    for (Activations mode : {Activations::f32, Activations::int8}) {
      const Weights weights(*file, Naming::gguf);
      auto decoder = Decoder::load(config->spec, weights, {mode, 512}, team);
      ASSERT_TRUE(decoder.ok()) << decoder.error().message;
      for (std::size_t p = 0; p < entry["prompts"].size(); ++p) {
        const auto& prompt = entry["prompts"][p];
        const std::vector<TokenId> tokens = prompt["tokens"];
        SmallPool pool((*decoder)->keeps(), KvType::f32, 256);
        const auto logits = all_logits(**decoder, pool, tokens, 512);
        const auto got = last_row(logits, decoder.value()->vocabulary());
        const std::string type = entry["type"];
        const auto want = decode(*logits_file->find(type + ".p" + std::to_string(p) + ".last"));
        double worst = 0, square = 0, mean = 0, variance = 0;
        for (std::size_t i = 0; i < want.size(); ++i) {
          const double difference = static_cast<double>(got[i]) - static_cast<double>(want[i]);
          worst = std::max(worst, std::abs(difference));
          square += difference * difference;
          mean += static_cast<double>(want[i]) / static_cast<double>(want.size());
        }
        for (float w : want) variance += std::pow(static_cast<double>(w) - mean, 2) / static_cast<double>(want.size());
        const double std = std::sqrt(variance), rms = std::sqrt(square / static_cast<double>(want.size())) / std;
        if (mode == Activations::f32) {
          EXPECT_LE(worst / std, 1e-3) << name << " prompt " << p;
          SmallPool fresh((*decoder)->keeps(), KvType::f32, 256);
          const int safe = prompt["greedy_safe_len"];
          auto ids = prompt["greedy"].get<std::vector<TokenId>>();
          ids.resize(static_cast<std::size_t>(safe));
          EXPECT_EQ(greedy(**decoder, fresh, tokens, safe), ids) << name;
        } else {
          EXPECT_LE(rms, 0.15) << name << " int8, prompt " << p;
        }
      }
    }
  }
  EXPECT_GT(seen, 0);
}

INSTANTIATE_TEST_SUITE_P(Goldens, EachGgufModel,
                         ::testing::Values("gguf-llama3", "gguf-smollm2", "gguf-qwen2", "gguf-qwen3", "gguf-qwen3moe"),
                         testing::golden_name);

}  // namespace
}  // namespace espalier
