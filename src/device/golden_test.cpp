// Whole models on a device against the CPU in exact mode: the same bits, of every golden, whatever the batch; and what the device
// keeps of the text too. In the default mode near the reference, as the CPU is, and the same bits whatever the batch.
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "device/backend.h"
#include "device/device_pool.h"
#include "device/tested_devices.h"
#include "model/config/hf_config.h"
#include "model/golden_distance.h"
#include "model/quant/quantised_file.h"
#include "tensor/decode.h"
#include "tensor/file/safetensors.h"
#include "testing/data.h"
#include "testing/golden_name.h"

namespace espalier::device {
namespace {

using testing::all_logits;
using testing::DevicePool;
using testing::SmallPool;

constexpr int kMostRows = 64;
constexpr double kMoreThanTheCpu = 1.3;  // how much further from a reference a device may be

// Else some of it: every fourth golden in the default mode, and not row by row.
const bool kAll = testing::all_models();

nlohmann::json read_golden(const std::filesystem::path& folder) {
  return nlohmann::json::parse(testing::read_file(folder / "golden.json"));
}
// A prompt of a golden.
struct Prompt {
  std::vector<TokenId> tokens;
  std::string logits;  // the name of what is expected

  // Of those that are one batch.
  static Prompt longest(const nlohmann::json& golden) {
    Prompt out;
    for (std::size_t i = 0; i < golden["prompts"].size(); ++i) {
      const std::vector<TokenId> tokens = golden["prompts"][i]["tokens"];
      if (tokens.size() > out.tokens.size() && tokens.size() <= kMostRows)
        out = {tokens, "p" + std::to_string(i) + ".logits"};
    }
    return out;
  }
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
    const std::vector<TokenId> tokens = Prompt::longest(read_golden(folder)).tokens;
    SmallPool pool(cpu->keeps(), KvType::f32, 256);
    const auto want = all_logits(*cpu, pool, tokens, kMostRows);
    for (const int chunk : kAll ? std::vector{kMostRows, 7, 1} : std::vector{kMostRows, 7}) {
      DevicePool own(*device, there->keeps(), KvType::f32);
      EXPECT_EQ(all_logits(*there, own.pool(), tokens, chunk), want) << "chunks of " << chunk;
      EXPECT_EQ(own.kept(), pool.memory) << "chunks of " << chunk;
      EXPECT_EQ(own.state(), pool.state) << "chunks of " << chunk;
      if (HasFailure()) return;
    }
  }

  // In the default mode; where one prompt is harder than the bounds for all, as near as the CPU.
  void expect_to_be_near_the_reference(const std::filesystem::path& folder, Kind kind) {
    const auto device = Device::open(kind).value();
    DeviceBackend backend(*device);
    const auto file = SafetensorsFile::open_folder(folder).value();
    const auto cpu = load(folder, file, nullptr, Activations::int8),
               there = load(folder, file, &backend, Activations::int8);
    ASSERT_TRUE(cpu && there);
    const auto golden = read_golden(folder);
    const Prompt prompt = Prompt::longest(golden);
    DevicePool whole(*device, there->keeps(), KvType::bf16);
    const auto at_once = all_logits(*there, whole.pool(), prompt.tokens, kMostRows);
    for (const int chunk : kAll ? std::vector{33, 7, 1} : std::vector{7}) {
      DevicePool own(*device, there->keeps(), KvType::bf16);
      EXPECT_EQ(all_logits(*there, own.pool(), prompt.tokens, chunk), at_once) << "chunks of " << chunk;
      EXPECT_EQ(own.kept(), whole.kept()) << "chunks of " << chunk;
      EXPECT_EQ(own.state(), whole.state()) << "chunks of " << chunk;
      if (HasFailure()) return;
    }
    const auto want = decode(*SafetensorsFile::open(folder / "logits.safetensors").value().find(prompt.logits));
    ASSERT_EQ(at_once.size(), want.size());
    SmallPool pool(cpu->keeps(), KvType::bf16, 256);
    const auto vocabulary = static_cast<std::size_t>(cpu->vocabulary());
    testing::GoldenDistance distance, of_cpu;
    distance.add(at_once, want, vocabulary, golden["logit_std"]);
    of_cpu.add(all_logits(*cpu, pool, prompt.tokens, kMostRows), want, vocabulary, golden["logit_std"]);
    const auto bounds = testing::GoldenBounds::of(GetParam(), golden, cpu->program());
    if (!bounds.mean_alone) {
      EXPECT_LE(distance.p95(), std::max(bounds.p95, kMoreThanTheCpu * of_cpu.p95()));
    }
    EXPECT_LE(distance.root_mean_square(),
              std::max(bounds.root_mean_square, kMoreThanTheCpu * of_cpu.root_mean_square()));
    std::printf("%-24s default mode: p95 %.3f, root mean square %.3f of the logits' spread (CPU %.3f, %.3f)\n",
                GetParam().c_str(), distance.p95(), distance.root_mean_square(), of_cpu.p95(),
                of_cpu.root_mean_square());
  }

  ComputeTeam team{2};
};

TEST_P(EachTextModelOnADevice, GivesTheBitsOfTheCpu) {
  const auto folder = testing::golden("models/" + GetParam());
  if (folder.empty()) GTEST_SKIP() << "left out: no goldens of " << GetParam() << " here";
  if (!testing::takes_model(GetParam(), 1)) GTEST_SKIP() << "left out: few models with ThreadSanitizer";
  for (const Kind kind : testing::device_kinds()) expect_the_bits_of_the_cpu(folder, kind);
}

TEST_P(EachTextModelOnADevice, DefaultModeStaysNearTheReferenceWithTheSameBitsInAnyBatch) {
  const auto folder = testing::golden("models/" + GetParam());
  if (folder.empty()) GTEST_SKIP() << "left out: no goldens of " << GetParam() << " here";
  const std::string name = GetParam();
  if (!testing::takes_model(name, 4)) GTEST_SKIP() << "left out: of the long tests";
  for (const Kind kind : testing::device_kinds()) expect_to_be_near_the_reference(folder, kind);
}

INSTANTIATE_TEST_SUITE_P(Goldens, EachTextModelOnADevice, ::testing::ValuesIn(testing::text_goldens()),
                         testing::golden_name);

// Checkpoints whose weights are small floats.
class ModelOfSmallFloatsOnADevice : public ::testing::TestWithParam<std::string> {};

TEST_P(ModelOfSmallFloatsOnADevice, IsTheCpusInExactModeAndNearItWithTheSameBitsInAnyBatchElse) {
  const auto folder = testing::golden("quant/" + GetParam());
  if (folder.empty()) GTEST_SKIP() << "left out: no golden here";
  const auto config = load_hf_config(folder).value();
  const auto file = QuantisedFile::open(std::make_unique<SafetensorsFile>(SafetensorsFile::open_folder(folder).value()),
                                        config.quantisation)
                        .value();
  const auto golden = read_golden(folder);
  const std::vector<TokenId> tokens = Prompt::longest(golden).tokens;
  ComputeTeam team(2);
  const auto load = [&](Activations mode, Backend* backend) {
    return Decoder::load(config.spec, Weights(*file, Naming::hf), {mode, kMostRows, backend}, team).value();
  };
  const auto cpu = load(Activations::f32, nullptr);
  SmallPool pool(cpu->keeps(), KvType::f32, 256);
  const auto want = all_logits(*cpu, pool, tokens, kMostRows);
  for (const Kind kind : testing::device_kinds()) {
    const auto device = Device::open(kind).value();
    DeviceBackend backend(*device);
    const auto exact = load(Activations::f32, &backend), there = load(Activations::int8, &backend);
    DevicePool of_exact(*device, exact->keeps(), KvType::f32), whole(*device, there->keeps(), KvType::bf16);
    EXPECT_EQ(all_logits(*exact, of_exact.pool(), tokens, 7), want);
    const auto at_once = all_logits(*there, whole.pool(), tokens, kMostRows);
    for (const int chunk : {9, 1}) {
      DevicePool own(*device, there->keeps(), KvType::bf16);
      EXPECT_EQ(all_logits(*there, own.pool(), tokens, chunk), at_once) << "chunks of " << chunk;
    }
    testing::GoldenDistance distance;
    distance.add(at_once, want, static_cast<std::size_t>(cpu->vocabulary()), golden["logit_std"]);
    const testing::GoldenBounds bounds;
    EXPECT_LE(distance.p95(), bounds.p95);
    EXPECT_LE(distance.root_mean_square(), bounds.root_mean_square);
    std::printf("%-24s default mode: p95 %.3f, root mean square %.3f of the logits' spread\n", GetParam().c_str(),
                distance.p95(), distance.root_mean_square());
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, ModelOfSmallFloatsOnADevice,
                         ::testing::Values("q-fp8-block", "q-ct-fp8-tensor", "bnb"), testing::golden_name);

}  // namespace
}  // namespace espalier::device
