// Whole models on a device against the CPU in exact mode: the same bits, of every golden, whatever the batch; and what the device
// keeps of the text too.
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "device/backend.h"
#include "device/device_pool.h"
#include "model/config/hf_config.h"
#include "tensor/file/safetensors.h"
#include "testing/data.h"
#include "testing/golden_name.h"

namespace espalier::device {
namespace {

using testing::all_logits;
using testing::DevicePool;
using testing::SmallPool;

constexpr int kMostRows = 64;

class EachTextModelOnADevice : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Decoder> load(const std::filesystem::path& folder, const SafetensorsFile& file, Backend* backend) {
    auto config = load_hf_config(folder);
    EXPECT_TRUE(config.ok()) << config.error().message;
    auto decoder = Decoder::load(config->spec, Weights(file, Naming::hf), {Activations::f32, kMostRows, backend}, team);
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
    std::vector<TokenId> tokens = golden["prompts"][0]["tokens"];
    tokens.resize(std::min<std::size_t>(tokens.size(), kMostRows));
    SmallPool pool(cpu->keeps(), KvType::f32, 256);
    const auto want = all_logits(*cpu, pool, tokens, kMostRows);
    for (const int chunk : {kMostRows, 7, 1}) {
      DevicePool own(*device, there->keeps(), KvType::f32);
      EXPECT_EQ(all_logits(*there, own.pool(), tokens, chunk), want) << "chunks of " << chunk;
      EXPECT_EQ(own.kept(), pool.memory) << "chunks of " << chunk;
      EXPECT_EQ(own.state(), pool.state) << "chunks of " << chunk;
      if (HasFailure()) return;
    }
  }

  ComputeTeam team{2};
};

TEST_P(EachTextModelOnADevice, GivesTheBitsOfTheCpu) {
  const auto folder = testing::golden("models/" + GetParam());
  if (folder.empty()) GTEST_SKIP() << "left out: no goldens of " << GetParam() << " here";
  for (const Kind kind : testing::device_kinds()) expect_the_bits_of_the_cpu(folder, kind);
}

INSTANTIATE_TEST_SUITE_P(Goldens, EachTextModelOnADevice, ::testing::ValuesIn(testing::text_goldens()),
                         testing::golden_name);

}  // namespace
}  // namespace espalier::device
