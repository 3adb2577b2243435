// LoRA adapters on a device: low-rank products give the bits of the CPU's, of every form of rows; whole models with adapters do in exact
// mode, of every golden, mixed with rows of other adapters and of none.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "device/backend.h"
#include "device/device_pool.h"
#include "kernels/matmul/low_rank.h"
#include "kernels/random_floats.h"
#include "model/adapters/adapter_file.h"
#include "model/config/hf_config.h"
#include "tensor/file/safetensors.h"
#include "testing/data.h"
#include "testing/golden_name.h"

namespace espalier::device {
namespace {

// --- whole models ---

std::vector<std::string> lora_goldens() {
  std::set<std::string> names;
  std::error_code absent;
  for (const auto& root : {testing::data("goldens/lora"), testing::shared("goldens/lora")})
    for (const auto& entry : std::filesystem::directory_iterator(root, absent)) names.insert(entry.path().filename());
  return {names.begin(), names.end()};
}

// Sequences of one batch, each with its own adapter or none.
struct Together {
  std::vector<TokenId> tokens;
  std::vector<Slot> slots;
  std::vector<int> rows;
  std::vector<KvRun> runs;
  std::vector<BatchSequence> sequences;

  void add(std::span<const TokenId> prompt, const LoraAdapter* adapter) {
    const int begin = static_cast<int>(tokens.size()), count = static_cast<int>(prompt.size());
    for (const TokenId token : prompt) {
      rows.push_back(static_cast<int>(tokens.size()));
      slots.push_back(static_cast<Slot>(tokens.size()));
      tokens.push_back(token);
    }
    runs.push_back({begin, count});
    sequences.push_back({.row_begin = begin, .rows = count, .first_position = 0, .runs = {}});
    sequences.back().adapter = adapter;
    sequences.back().rope_length = count;
  }
  std::vector<float> run(Decoder& by, std::span<const KvLayer> layers) {
    for (std::size_t i = 0; i < sequences.size(); ++i) sequences[i].runs = {&runs[i], 1};
    const auto logits = by.forward({tokens, slots, sequences, rows}, {layers});
    return {logits.begin(), logits.end()};
  }
};

// A golden's model on one back end, and adapters of it.
struct Adapted {
  std::unique_ptr<Decoder> decoder;
  std::vector<std::shared_ptr<const LoraAdapter>> adapters;

  Adapted(const SafetensorsFile& file, const ModelConfig& config, Activations mode, Backend* backend,
          ComputeTeam& team) {
    auto loaded = Decoder::load(config.spec, Weights(file, Naming::hf), {mode, 128, backend}, team);
    EXPECT_TRUE(loaded.ok()) << loaded.error().message;
    if (loaded.ok()) decoder = std::move(loaded).value();
  }
  void bind(const std::filesystem::path& folder) {
    const auto bound = decoder->bind(open_adapter(folder).value());
    ASSERT_TRUE(bound.ok()) << bound.error().message;
    adapters.push_back(*bound);
  }
};

struct Golden {
  std::filesystem::path folder, base;
  nlohmann::json golden;
  explicit Golden(const std::string& name) : folder(testing::golden("lora/" + name)) {
    golden = nlohmann::json::parse(testing::read_file(folder / "golden.json"));
    base = testing::golden(golden["base"].get<std::string>());
  }
  std::vector<TokenId> tokens() const { return golden["prompts"][0]["tokens"]; }
  ModelConfig config() const {
    ModelConfig config = load_hf_config(base).value();
    if (golden["prompts"][0].contains("scores") && !config.spec.pooled) config.spec.pooled = PooledOutput{};
    return config;
  }
};

class EachAdapterOnADevice : public ::testing::TestWithParam<std::string> {
 protected:
  // All prompts' logits, in one batch with rows of no adapter before and behind, and what stands behind the pooling of the last.
  static std::vector<float> computed(Adapted& by, const Golden& golden, std::span<const KvLayer> layers) {
    const LoraAdapter* const adapter = by.adapters.front().get();
    std::vector<TokenId> tokens = golden.tokens();
    tokens.resize(std::min<std::size_t>(tokens.size(), 23));
    Together batch;
    batch.add(std::span(tokens).first(2), nullptr);
    batch.add(tokens, adapter);
    batch.add(std::span(tokens).first(3), nullptr);
    batch.add(std::span(tokens).first(5), adapter);
    std::vector<float> out = batch.run(*by.decoder, layers);
    if (by.decoder->pooled_width() == 0) return out;
    const auto width = static_cast<std::size_t>(by.decoder->vocabulary());
    const std::vector<float> rows = out;
    const float* const vectors[] = {rows.data(), rows.data() + 2 * width, rows.data() + 3 * width};
    const LoraAdapter* const with[] = {adapter, nullptr, adapter};
    const auto finished = by.decoder->finish(vectors, with);
    out.insert(out.end(), finished.begin(), finished.end());
    return out;
  }
  ComputeTeam team{2};
};

TEST_P(EachAdapterOnADevice, GivesTheBitsOfTheCpu) {
  const Golden golden(GetParam());
  if (golden.base.empty()) GTEST_SKIP() << "left out: no goldens of its model here";
  const auto file = SafetensorsFile::open_folder(golden.base).value();
  for (const Kind kind : testing::device_kinds()) {
    const auto device = Device::open(kind).value();
    DeviceBackend backend(*device);
    Adapted cpu(file, golden.config(), Activations::f32, nullptr, team),
        there(file, golden.config(), Activations::f32, &backend, team);
    ASSERT_TRUE(cpu.decoder && there.decoder);
    ASSERT_NO_FATAL_FAILURE(cpu.bind(golden.folder));
    ASSERT_NO_FATAL_FAILURE(there.bind(golden.folder));
    testing::SmallPool pool(cpu.decoder->keeps(), KvType::f32, 256);
    const auto want = computed(cpu, golden, pool.layers);
    for (int again = 0; again < 3; ++again) {  // as launches, as they become a graph, and as a graph
      testing::DevicePool own(*device, there.decoder->keeps(), KvType::f32);
      EXPECT_EQ(computed(there, golden, own.pool().layers), want);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, EachAdapterOnADevice, ::testing::ValuesIn(lora_goldens()), testing::golden_name);

}  // namespace
}  // namespace espalier::device
