// Whole models on the emulated device against the CPU: the same bits, of every golden, whatever the batch.
#include <gtest/gtest.h>

#include <memory>

#include "device/backend.h"
#include "model/config/hf_config.h"
#include "model/small_pool.h"
#include "tensor/file/safetensors.h"
#include "testing/data.h"
#include "testing/golden_name.h"

namespace espalier::device {
namespace {

using testing::all_logits;
using testing::SmallPool;

// Keys and values of one golden's text, on the CPU or a device that shares its memory, and the logits of every position.
struct Computed {
  std::vector<float> logits;
  std::vector<std::vector<std::byte>> kept;
  std::vector<float> state;
};

Computed compute(Decoder& decoder, KvType type, std::span<const TokenId> tokens, int chunk) {
  SmallPool pool(decoder.keeps(), type, 256);
  Computed out;
  out.logits = all_logits(decoder, pool, tokens, chunk);
  out.kept = pool.memory;
  out.state = pool.state;
  return out;
}

class EachTextModelOnADevice : public ::testing::TestWithParam<std::string> {
 protected:
  // Null where there is no golden.
  std::unique_ptr<Decoder> load(const std::filesystem::path& folder, const SafetensorsFile& file, Activations mode,
                                Backend* backend) {
    auto config = load_hf_config(folder);
    EXPECT_TRUE(config.ok()) << config.error().message;
    auto decoder = Decoder::load(config->spec, Weights(file, Naming::hf), {mode, 64, backend}, team);
    EXPECT_TRUE(decoder.ok()) << decoder.error().message;
    return decoder.ok() ? std::move(decoder).value() : nullptr;
  }

  ComputeTeam team{2};
};

TEST_P(EachTextModelOnADevice, GivesTheBitsOfTheCpu) {
  const auto folder = testing::golden("models/" + GetParam());
  if (folder.empty()) GTEST_SKIP() << "left out: no goldens of " << GetParam() << " here";
  auto device = Device::open(Kind::emu);
  ASSERT_TRUE(device.ok()) << device.error().message;
  DeviceBackend backend(**device);
  auto file = SafetensorsFile::open_folder(folder);
  ASSERT_TRUE(file.ok()) << file.error().message;
  const auto cpu = load(folder, *file, Activations::f32, nullptr), emu = load(folder, *file, Activations::f32, &backend);
  ASSERT_TRUE(cpu && emu);
  const auto golden = nlohmann::json::parse(testing::read_file(folder / "golden.json"));
  const std::vector<TokenId> tokens = golden["prompts"][0]["tokens"];
  const Computed want = compute(*cpu, KvType::f32, tokens, 64);
  for (const int chunk : {64, 7, 1}) {
    const Computed got = compute(*emu, KvType::f32, tokens, chunk);
    EXPECT_EQ(got.logits, want.logits) << "chunks of " << chunk;
    EXPECT_EQ(got.kept, want.kept) << "chunks of " << chunk;
    EXPECT_EQ(got.state, want.state) << "chunks of " << chunk;
    if (HasFailure()) break;
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, EachTextModelOnADevice, ::testing::ValuesIn(testing::text_goldens()),
                         testing::golden_name);

}  // namespace
}  // namespace espalier::device
