// Decoders against the goldens: logits at every position, greedy continuations, log-probabilities.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "model/arch/table.h"
#include "model/decoder.h"
#include "model/gguf_config.h"
#include "model/hf_config.h"
#include "tensor/decode.h"
#include "tensor/file/gguf.h"
#include "tensor/file/safetensors.h"
#include "testing/data.h"
#include "testing/golden_name.h"

namespace espalier {
namespace {

// Keys and values of one sequence, slots in order.
struct SmallPool {
  std::vector<std::vector<std::byte>> memory;
  std::vector<KvLayer> layers;
  SmallPool(const DecoderSpec& spec, KvType type, int slots) {
    const std::size_t head = static_cast<std::size_t>(kSegmentSlots) *
                             static_cast<std::size_t>(padded_head(spec.attention.head_dim)) *
                             static_cast<std::size_t>(element_bytes(type));
    const std::size_t segment = head * static_cast<std::size_t>(spec.attention.kv_heads);
    const auto segments = static_cast<std::size_t>((slots + kSegmentSlots - 1) / kSegmentSlots);
    for (int i = 0; i < spec.layers; ++i) {
      auto& keys = memory.emplace_back(segment * segments);
      auto* key_bytes = keys.data();
      auto& values = memory.emplace_back(keys.size());
      layers.push_back({type, key_bytes, values.data(), nullptr, nullptr, head, segment, 0});
    }
  }
};

// Runs one sequence in chunks and gives the logits of every position.
std::vector<float> all_logits(Decoder& decoder, const SmallPool& pool, std::span<const TokenId> tokens, int chunk,
                              int from = 0) {
  std::vector<float> out;
  for (int at = from; at < static_cast<int>(tokens.size()); at += chunk) {
    const int count = std::min(chunk, static_cast<int>(tokens.size()) - at);
    std::vector<Slot> slots;
    std::vector<int> rows;
    for (int i = 0; i < count; ++i) {
      slots.push_back(at + i);
      rows.push_back(i);
    }
    const KvRun run{0, at + count};
    const BatchSequence sequence{0, count, at, {&run, 1}};
    const auto logits = decoder.forward(
        {tokens.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(count)), slots, {&sequence, 1}, rows},
        {pool.layers});
    out.insert(out.end(), logits.begin(), logits.end());
  }
  return out;
}

std::span<const float> last_row(const std::vector<float>& logits, int vocabulary) {
  return std::span(logits).last(static_cast<std::size_t>(vocabulary));
}

std::vector<TokenId> greedy(Decoder& decoder, const SmallPool& pool, std::vector<TokenId> tokens, int count) {
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

class EachTextModel : public ::testing::TestWithParam<const char*> {};

TEST_P(EachTextModel, ExactModeMeetsTheFloat32Tolerance) {
  const auto folder = testing::golden(std::string("models/") + GetParam());
  if (folder.empty()) GTEST_SKIP() << "left out: no goldens of " << GetParam() << " here";
  auto file = SafetensorsFile::open_folder(folder);
  ASSERT_TRUE(file.ok()) << file.error().message;
  auto config = load_hf_config(folder);
  ASSERT_TRUE(config.ok()) << config.error().message;
  auto spec = declare(*config);
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  ComputeTeam team(2);
  auto decoder = Decoder::load(*spec, Weights(*file, Weights::Naming::hf), {Activations::f32, 512}, team);
  ASSERT_TRUE(decoder.ok()) << decoder.error().message;

  const auto golden = nlohmann::json::parse(testing::read_file(folder / "golden.json"));
  auto logits_file = SafetensorsFile::open(folder / "logits.safetensors");
  ASSERT_TRUE(logits_file.ok());
  const double std = golden["logit_std"];
  for (std::size_t p = 0; p < golden["prompts"].size(); ++p) {
    const auto& prompt = golden["prompts"][p];
    const std::vector<TokenId> tokens = prompt["tokens"];
    const auto want = decode(*logits_file->find("p" + std::to_string(p) + ".logits"));
    for (int chunk : {512, 16, 1}) {
      SmallPool pool(*spec, KvType::f32, 256);
      const auto got = all_logits(**decoder, pool, tokens, chunk);
      ASSERT_EQ(got.size(), want.size());
      double worst = 0;
      for (std::size_t i = 0; i < got.size(); ++i)
        worst = std::max(worst, std::abs(static_cast<double>(got[i]) - static_cast<double>(want[i])));
      EXPECT_LE(worst / std, 1e-3) << GetParam() << " prompt " << p << " chunk " << chunk;
    }
    SmallPool pool(*spec, KvType::f32, 256);
    EXPECT_EQ(greedy(**decoder, pool, tokens, static_cast<int>(prompt["greedy"].size())),
              prompt["greedy"].get<std::vector<TokenId>>());
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, EachTextModel,
                         ::testing::Values("llama3-tied-gqa", "llama2-untied-mha", "llama-linear-bias",
                                           "mistral-sliding", "qwen2-tied", "qwen2-yarn", "qwen3-tied"),
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
    auto spec = declare(*config);
    ASSERT_TRUE(spec.ok()) << spec.error().message;
    for (Activations mode : {Activations::f32, Activations::int8}) {
      auto decoder = Decoder::load(*spec, Weights(*file, Weights::Naming::gguf), {mode, 512}, team);
      ASSERT_TRUE(decoder.ok()) << decoder.error().message;
      for (std::size_t p = 0; p < entry["prompts"].size(); ++p) {
        const auto& prompt = entry["prompts"][p];
        const std::vector<TokenId> tokens = prompt["tokens"];
        SmallPool pool(*spec, KvType::f32, 256);
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
          SmallPool fresh(*spec, KvType::f32, 256);
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
                         ::testing::Values("gguf-llama3", "gguf-smollm2", "gguf-qwen2", "gguf-qwen3"),
                         testing::golden_name);

}  // namespace
}  // namespace espalier
