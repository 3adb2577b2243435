// Whole models on a device against the CPU in exact mode: the same bits, of every golden, whatever the batch; and what the device
// keeps of the text too.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "device/backend.h"
#include "device/random_panels.h"
#include "model/config/hf_config.h"
#include "model/small_pool.h"
#include "tensor/file/safetensors.h"
#include "testing/data.h"
#include "testing/golden_name.h"

namespace espalier::device {
namespace {

using testing::all_logits;
using testing::SmallPool;

constexpr int kMostRows = 64;

// What was computed of one text: logits of every position, and what is kept.
struct Computed {
  std::vector<float> logits, state;
  std::vector<std::vector<std::byte>> kept;
};

// A pool in a device's memory.
class DevicePool {
 public:
  DevicePool(const Device& device, const Keeps& keeps, KvType type) : device_(device), pool_(keeps, type, 256) {
    for (std::size_t i = 0; i < pool_.memory.size(); ++i) there_.push_back(testing::on_device(device, pool_.memory[i]));
    for (std::size_t field = 0; field < pool_.layers.size(); ++field) {
      KvLayer& layer = pool_.layers[field];
      layer.keys = there_[2 * field].data();
      if (layer.values != nullptr) layer.values = there_[2 * field + 1].data();
    }
    if (pool_.state.empty()) return;
    state_ = testing::on_device(device, pool_.state);
    pool_.state_elsewhere = state_.as<float>();
  }
  SmallPool& pool() { return pool_; }
  void bring(Computed& to) const {
    for (const Memory& memory : there_) to.kept.push_back(testing::from_device<std::byte>(device_, memory));
    to.state = testing::from_device<float>(device_, state_);
  }

 private:
  const Device& device_;
  SmallPool pool_;
  std::vector<Memory> there_;
  Memory state_;
};

class EachTextModelOnADevice : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Decoder> load(const std::filesystem::path& folder, const SafetensorsFile& file, Backend* backend,
                                Activations mode = Activations::f32) {
    auto config = load_hf_config(folder);
    EXPECT_TRUE(config.ok()) << config.error().message;
    auto decoder = Decoder::load(config->spec, Weights(file, Naming::hf), {mode, kMostRows, backend}, team);
    EXPECT_TRUE(decoder.ok()) << decoder.error().message;
    return decoder.ok() ? std::move(decoder).value() : nullptr;
  }

  void expect_the_bits_of_the_cpu(const std::filesystem::path& folder, Kind kind) {
    const auto device = Device::open(kind).value();
    DeviceBackend backend(*device);
    const auto file = SafetensorsFile::open_folder(folder).value();
    const auto cpu = load(folder, file, nullptr), there = load(folder, file, &backend);
    ASSERT_TRUE(cpu && there);
    const auto golden = nlohmann::json::parse(testing::read_file(folder / "golden.json"));
    const std::vector<TokenId> tokens = cut_to_fit(golden["prompts"][0]["tokens"]);
    Computed want;
    SmallPool pool(cpu->keeps(), KvType::f32, 256);
    want.logits = all_logits(*cpu, pool, tokens, kMostRows);
    for (const int chunk : {kMostRows, 7, 1}) {
      Computed got;
      DevicePool own(*device, there->keeps(), KvType::f32);
      got.logits = all_logits(*there, own.pool(), tokens, chunk);
      own.bring(got);
      EXPECT_EQ(got.logits, want.logits) << "chunks of " << chunk;
      EXPECT_EQ(got.kept, pool.memory) << "chunks of " << chunk;
      EXPECT_EQ(got.state, pool.state) << "chunks of " << chunk;
      if (HasFailure()) return;
    }
  }

  static std::vector<TokenId> cut_to_fit(std::vector<TokenId> tokens) {
    tokens.resize(std::min<std::size_t>(tokens.size(), kMostRows));
    return tokens;
  }
  std::vector<TokenId> longest_prompt(const std::filesystem::path& folder) const {
    const auto golden = nlohmann::json::parse(testing::read_file(folder / "golden.json"));
    std::vector<TokenId> longest;
    for (const auto& prompt : golden["prompts"]) {
      std::vector<TokenId> tokens = prompt["tokens"];
      if (tokens.size() > longest.size()) longest = std::move(tokens);
    }
    return cut_to_fit(std::move(longest));
  }
  // Outside of exact mode, with keys and values of bf16: close to the CPU, and the same bits in every chunk.
  void expect_the_same_in_every_chunk(const std::filesystem::path& folder, Kind kind) {
    const auto device = Device::open(kind).value();
    DeviceBackend backend(*device);
    const auto file = SafetensorsFile::open_folder(folder).value();
    const auto cpu = load(folder, file, nullptr), there = load(folder, file, &backend, Activations::int8);
    ASSERT_TRUE(cpu && there);
    const std::vector<TokenId> tokens = longest_prompt(folder);
    SmallPool pool(cpu->keeps(), KvType::bf16, 256);
    const std::vector<float> want = all_logits(*cpu, pool, tokens, kMostRows);
    std::vector<float> whole;
    for (const int chunk : {kMostRows, 7, 1}) {
      DevicePool own(*device, there->keeps(), KvType::bf16);
      const std::vector<float> got = all_logits(*there, own.pool(), tokens, chunk);
      if (whole.empty()) whole = got;
      ASSERT_EQ(got, whole) << "chunks of " << chunk;
    }
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      difference += std::pow(static_cast<double>(whole[i]) - static_cast<double>(want[i]), 2);
      size += std::pow(static_cast<double>(want[i]), 2);
    }
    EXPECT_NE(difference, 0) << "attention was not by tensor cores";
    EXPECT_LT(std::sqrt(difference / size), 2e-2);
  }

  ComputeTeam team{2};
};

TEST_P(EachTextModelOnADevice, GivesTheBitsOfTheCpu) {
  const auto folder = testing::golden("models/" + GetParam());
  if (folder.empty()) GTEST_SKIP() << "left out: no goldens of " << GetParam() << " here";
  for (const Kind kind : testing::device_kinds()) expect_the_bits_of_the_cpu(folder, kind);
}

class SomeTextModelsOnADevice : public EachTextModelOnADevice {};

TEST_P(SomeTextModelsOnADevice, GiveTheSameBitsInEveryChunkOutsideOfExactMode) {
  const auto folder = testing::golden("models/" + GetParam());
  if (folder.empty()) GTEST_SKIP() << "left out: no goldens of " << GetParam() << " here";
  for (const Kind kind : testing::device_kinds()) expect_the_same_in_every_chunk(folder, kind);
}

INSTANTIATE_TEST_SUITE_P(Goldens, SomeTextModelsOnADevice,
                         ::testing::Values("llama3-tied-gqa", "gemma3-caps", "mistral-sliding", "bloom"),
                         testing::golden_name);

INSTANTIATE_TEST_SUITE_P(Goldens, EachTextModelOnADevice, ::testing::ValuesIn(testing::text_goldens()),
                         testing::golden_name);

}  // namespace
}  // namespace espalier::device
