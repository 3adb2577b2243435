// Decoders against the goldens: logits at every position, greedy continuations, log-probabilities.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "model/config/gguf_config.h"
#include "model/config/hf_config.h"
#include "model/decoder.h"
#include "model/golden_distance.h"
#include "model/small_pool.h"
#include "tensor/decode.h"
#include "tensor/file/gguf.h"
#include "tensor/file/safetensors.h"
#include "testing/data.h"
#include "testing/golden_name.h"

namespace espalier::decoder_golden_test {
namespace {

using testing::all_logits;
using testing::SmallPool;

std::span<const float> last_row(const std::vector<float>& logits, int vocabulary) {
  return std::span(logits).last(static_cast<std::size_t>(vocabulary));
}

// Where angles depend on the text's length, every token reads the whole text again under its new length, as the engine
// does in exact mode (engine/run/rope_lengths.h).
bool length_decides(const Decoder& decoder) {
  return std::ranges::any_of(decoder.program().ropes, [](const RopeSpec& rope) { return rope.long_after > 0; });
}

std::vector<TokenId> greedy(Decoder& decoder, SmallPool& pool, std::vector<TokenId> tokens, int count) {
  const auto prompt = tokens.size();
  const bool again = length_decides(decoder);
  int from = 0;
  for (int i = 0; i < count; ++i) {
    const auto logits = all_logits(decoder, pool, tokens, 512, from);
    const auto row = last_row(logits, decoder.vocabulary());
    from = again ? 0 : static_cast<int>(tokens.size());
    tokens.push_back(static_cast<TokenId>(std::max_element(row.begin(), row.end()) - row.begin()));
  }
  return {tokens.begin() + static_cast<std::ptrdiff_t>(prompt), tokens.end()};
}

// A golden checkpoint's folder, and what is expected of it. `folder` is empty where it is not here.
struct GoldenFolder {
  explicit GoldenFolder(const std::string& golden_name)
      : name(golden_name), folder(testing::golden("models/" + golden_name)) {
    if (folder.empty()) return;
    golden = nlohmann::json::parse(testing::read_file(folder / "golden.json"));
    logits = SafetensorsFile::open(folder / "logits.safetensors").value();
  }

  // Null, and the test has failed, when it cannot be had. `file` outlives it.
  template <class File>
  std::unique_ptr<Decoder> load(const Result<File>& file, const Result<ModelConfig>& config, Naming naming,
                                Activations mode) {
    EXPECT_TRUE(file.ok()) << file.error().message;
    EXPECT_TRUE(config.ok()) << config.error().message;
    if (!file.ok() || !config.ok()) return nullptr;
    auto decoder = Decoder::load(config->spec, Weights(*file, naming), {mode, 512}, team);
    EXPECT_TRUE(decoder.ok()) << decoder.error().message;
    return decoder.ok() ? std::move(decoder).value() : nullptr;
  }
  std::vector<float> logits_of(std::size_t prompt) const {
    return decode(*logits->find("p" + std::to_string(prompt) + ".logits"));
  }

  std::string name;
  std::filesystem::path folder;
  nlohmann::json golden;
  std::optional<SafetensorsFile> logits;
  ComputeTeam team{2};
};

class EachTextModel : public ::testing::TestWithParam<std::string> {};

TEST_P(EachTextModel, ExactModeMeetsTheFloat32Tolerance) {
  GoldenFolder g(GetParam());
  if (g.folder.empty()) GTEST_SKIP() << "left out: no goldens of " << GetParam() << " here";
  auto file = SafetensorsFile::open_folder(g.folder);
  auto config = load_hf_config(g.folder);
  const auto decoder = g.load(file, config, Naming::hf, Activations::f32);
  ASSERT_TRUE(decoder);
  const double std = g.golden["logit_std"];
  double worst_of_all = 0;
  for (std::size_t p = 0; p < g.golden["prompts"].size(); ++p) {
    const auto& prompt = g.golden["prompts"][p];
    const std::vector<TokenId> tokens = prompt["tokens"];
    const auto want = g.logits_of(p);
    for (int chunk : {512, 16, 1}) {
      SmallPool pool(decoder->keeps(), KvType::f32, 256);
      const auto got = all_logits(*decoder, pool, tokens, chunk);
      ASSERT_EQ(got.size(), want.size());
      double worst = 0;
      for (std::size_t i = 0; i < got.size(); ++i)
        worst = std::max(worst, std::abs(static_cast<double>(got[i]) - static_cast<double>(want[i])));
      EXPECT_LE(worst / std, 1e-3) << GetParam() << " prompt " << p << " chunk " << chunk;
      worst_of_all = std::max(worst_of_all, worst / std);
    }
    SmallPool pool(decoder->keeps(), KvType::f32, 256);
    EXPECT_EQ(greedy(*decoder, pool, tokens, static_cast<int>(prompt["greedy"].size())),
              prompt["greedy"].get<std::vector<TokenId>>());
  }
  std::printf("%-24s worst error %.1e of the logits' spread\n", GetParam().c_str(), worst_of_all);
}

TEST_P(EachTextModel, DefaultModeStaysNearTheReference) {
  GoldenFolder g(GetParam());
  if (g.folder.empty()) GTEST_SKIP() << "left out: no goldens of " << GetParam() << " here";
  auto file = SafetensorsFile::open_folder(g.folder);
  auto config = load_hf_config(g.folder);
  const auto decoder = g.load(file, config, Naming::hf, Activations::int8);
  ASSERT_TRUE(decoder);
  testing::GoldenDistance distance;
  for (std::size_t p = 0; p < g.golden["prompts"].size(); ++p) {
    const std::vector<TokenId> tokens = g.golden["prompts"][p]["tokens"];
    SmallPool pool(decoder->keeps(), KvType::bf16, 256);
    const auto got = all_logits(*decoder, pool, tokens, 512);
    const auto want = g.logits_of(p);
    ASSERT_EQ(got.size(), want.size());
    distance.add(got, want, static_cast<std::size_t>(decoder->vocabulary()), g.golden["logit_std"]);
  }
  const auto bounds = testing::GoldenBounds::of(GetParam(), g.golden, decoder->program());
  if (!bounds.mean_alone) {
    EXPECT_LE(distance.p95(), bounds.p95);
  }
  EXPECT_LE(distance.root_mean_square(), bounds.root_mean_square);
  std::printf("%-24s default mode: p95 %.3f, root mean square %.3f of the logits' spread\n", GetParam().c_str(),
              distance.p95(), distance.root_mean_square());
}

INSTANTIATE_TEST_SUITE_P(Goldens, EachTextModel, ::testing::ValuesIn(testing::text_goldens()), testing::golden_name);

// GGUF files of checkpoints that have goldens, with the same weights: made as llama.cpp's converter makes them
// (tools/goldens/make_gguf_families.py).
std::vector<std::string> gguf_families() {
  std::vector<std::string> names;
  std::error_code absent;
  for (const auto& entry : std::filesystem::directory_iterator(testing::data("goldens/gguf-families"), absent))
    names.push_back(entry.path().stem());
  std::ranges::sort(names);
  return names;
}

class EachFamilyInGguf : public ::testing::TestWithParam<std::string> {};

TEST_P(EachFamilyInGguf, GivesItsCheckpointsLogits) {
  GoldenFolder g(GetParam());
  if (g.folder.empty()) GTEST_SKIP() << "left out: no goldens of " << GetParam() << " here";
  auto file = GgufFile::open(testing::data("goldens/gguf-families") / (GetParam() + ".gguf"));
  ASSERT_TRUE(file.ok()) << file.error().message;
  auto config = read_gguf_config(*file);
  const auto decoder = g.load(file, config, Naming::gguf, Activations::f32);
  ASSERT_TRUE(decoder);
  for (std::size_t p = 0; p < g.golden["prompts"].size(); ++p) {
    const std::vector<TokenId> tokens = g.golden["prompts"][p]["tokens"];
    const auto want = g.logits_of(p);
    SmallPool pool(decoder->keeps(), KvType::f32, 256);
    const auto got = all_logits(*decoder, pool, tokens, 512);
    ASSERT_EQ(got.size(), want.size());
    double worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i)
      worst = std::max(worst, std::abs(static_cast<double>(got[i]) - static_cast<double>(want[i])));
    EXPECT_LE(worst / g.golden["logit_std"].get<double>(), 1e-3) << GetParam() << " prompt " << p;
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, EachFamilyInGguf, ::testing::ValuesIn(gguf_families()), testing::golden_name);

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
          // Where a choice of experts or positions hangs on rounding, the reference's own bf16 run says how much.
          const auto own = golden.value("bf16_reference", nlohmann::json::object()).value("rms", 0.0);
          EXPECT_LE(rms, std::max(0.15, 1.3 * own)) << name << " int8, prompt " << p;
        }
      }
    }
  }
  EXPECT_GT(seen, 0);
}

INSTANTIATE_TEST_SUITE_P(Goldens, EachGgufModel,
                         ::testing::Values("gguf-llama3", "gguf-smollm2", "gguf-qwen2", "gguf-qwen3", "gguf-gemma2",
                                           "gguf-gemma3", "gguf-mixtral", "gguf-qwen3moe", "gguf-deepseek2",
                                           "gguf-deepseek2-old", "gguf-glm4-moe-lite", "gguf-mistral4",
                                           "gguf-deepseek32", "gguf-glm-dsa", "gguf-deepseek4", "gguf-minimax-m3"),
                         testing::golden_name);

}  // namespace
}  // namespace espalier::decoder_golden_test
