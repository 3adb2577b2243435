// Whole models on the devices of several ranks: in exact mode the bits of the CPU, in the default mode those of one device, whatever
// the number of ranks, of stages, and of tokens at once.
#include "device/ranks.h"

#include <gtest/gtest.h>

#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "device/backend.h"
#include "device/device_pool.h"
#include "device/tested_devices.h"
#include "model/config/hf_config.h"
#include "ranks/group.h"
#include "tensor/file/safetensors.h"
#include "testing/data.h"
#include "testing/golden_name.h"

namespace espalier::device::ranks_test {
namespace {

using testing::all_logits;
using testing::DevicePool;
using testing::SmallPool;

constexpr int kMostRows = 64;
const bool kAll = testing::all_models();

// How a group is cut.
struct Group {
  int size, chunk;
  bool experts_by_id = false;
  int stages = 1;
};

class EachTextModelOnDevicesOfRanks : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Decoder> load(DecoderOptions options, ComputeTeam& team) const {
    options.max_rows = kMostRows;
    auto decoder = Decoder::load(config.spec, Weights(*file, Naming::hf), options, team);
    EXPECT_TRUE(decoder.ok()) << decoder.error().message;
    return decoder.ok() ? std::move(decoder).value() : nullptr;
  }

  static std::vector<float> logits_on(const Device& device, Decoder& decoder, KvType type,
                                      const std::vector<TokenId>& tokens, int chunk) {
    DevicePool pool(device, decoder.keeps(), type);
    return all_logits(decoder, pool.pool(), tokens, chunk);
  }

  // What the first rank gives.
  std::vector<float> logits_of(const Group& of, Activations mode, KvType type, const std::vector<TokenId>& tokens) {
    espalier::ranks::GroupOptions options;
    options.on_loss = [](const Error& why, bool) { ADD_FAILURE() << why.message; };
    const auto group = espalier::ranks::thread_group(of.size, options);
    std::vector<float> first;
    const auto compute = [&](espalier::ranks::Collective& rank) {
      ComputeTeam team(1);
      const auto device = Device::open(Kind::emu).value();
      DeviceBackend backend(*device);
      const auto decoder = load({mode, kMostRows, &backend, &rank, of.experts_by_id, of.stages}, team);
      if (decoder == nullptr) return rank.end("it cannot be loaded");
      const std::uint64_t told = rank.figures().bytes_received;
      const auto logits = logits_on(*device, *decoder, type, tokens, of.chunk);
      if (rank.rank() != 0) return;
      first = logits;
      received = rank.figures().bytes_received - told;
    };
    std::vector<std::jthread> threads;
    for (const auto& rank : group) threads.emplace_back([&compute, &rank] { compute(*rank); });
    threads.clear();
    return first;
  }

  void open(const std::filesystem::path& folder) {
    config = load_hf_config(folder).value();
    file = std::make_unique<SafetensorsFile>(SafetensorsFile::open_folder(folder).value());
  }

  ModelConfig config;
  std::unique_ptr<SafetensorsFile> file;
  std::uint64_t received = 0;  // by the first rank, of logits_of()
};

std::size_t differing(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return a.size() + b.size();
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += a[i] != b[i];
  return count;
}

TEST_P(EachTextModelOnDevicesOfRanks, GivesTheBitsOfOne) {
  const auto folder = testing::golden("models/" + GetParam());
  if (folder.empty()) GTEST_SKIP() << "left out: no goldens of " << GetParam() << " here";
  const std::string name = GetParam();
  const int drawn = testing::number_of(name);
  if (!testing::takes_model(name, 4)) GTEST_SKIP() << "left out: of the long tests";
  open(folder);
  const auto golden = nlohmann::json::parse(testing::read_file(folder / "golden.json"));
  std::vector<TokenId> tokens = golden["prompts"][0]["tokens"];
  tokens.resize(std::min<std::size_t>(tokens.size(), kAll ? kMostRows : 24));

  ComputeTeam team(1);
  const auto device = Device::open(Kind::emu).value();
  DeviceBackend backend(*device);
  const auto cpu = load({Activations::f32, kMostRows}, team),
             alone = load({Activations::int8, kMostRows, &backend}, team);
  ASSERT_TRUE(cpu && alone);
  SmallPool pool(cpu->keeps(), KvType::f32, 256);
  const auto exact = all_logits(*cpu, pool, tokens, kMostRows);
  const auto usual = logits_on(*device, *alone, KvType::bf16, tokens, kMostRows);
  const std::vector<Group> groups = {{2, 7}, {2, kMostRows, true}, {4, kMostRows, false, 2}, {8, 16}, {4, 7, true, 2}};
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (!kAll && (static_cast<std::size_t>(drawn / 4) + i) % 2 != 0) continue;
    const Group& of = groups[i];
    if (testing::kFewModels && of.size > 4) continue;  // ThreadSanitizer has room for 8,128 threads, and fibers are
    EXPECT_EQ(differing(logits_of(of, Activations::f32, KvType::f32, tokens), exact), 0u)
        << "exact, " << of.size << " ranks, " << of.stages << " stages, experts by id: " << of.experts_by_id;
    EXPECT_EQ(differing(logits_of(of, Activations::int8, KvType::bf16, tokens), usual), 0u)
        << of.size << " ranks, " << of.stages << " stages, experts by id: " << of.experts_by_id;
  }
}

using DevicesOfRanks = EachTextModelOnDevicesOfRanks;

TEST_P(DevicesOfRanks, BringRowsThatAreOnlyMultipliedInHalfOfTheBytes) {
  const auto folder = testing::golden("models/" + GetParam());
  if (folder.empty()) GTEST_SKIP() << "left out: no goldens of " << GetParam() << " here";
  open(folder);
  const std::vector<TokenId> tokens = {3, 4, 5, 6};
  logits_of({2, 4}, Activations::f32, KvType::f32, tokens);
  const std::uint64_t of_floats = received;
  logits_of({2, 4}, Activations::int8, KvType::bf16, tokens);
  const double share = static_cast<double>(received) / static_cast<double>(of_floats);
  EXPECT_LT(share, 0.85);  // two of a layer's four gathers, and not the logits
  EXPECT_GT(share, 0.5);
}

INSTANTIATE_TEST_SUITE_P(Goldens, DevicesOfRanks, ::testing::Values("llama3-tied-gqa"), testing::golden_name);
INSTANTIATE_TEST_SUITE_P(Goldens, EachTextModelOnDevicesOfRanks, ::testing::ValuesIn(testing::text_goldens()),
                         testing::golden_name);

}  // namespace
}  // namespace espalier::device::ranks_test
