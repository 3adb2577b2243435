// Every architecture on several ranks: the bits are those of one rank, whatever the number of ranks and the chunks.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "model/config/gguf_config.h"
#include "model/config/hf_config.h"
#include "model/decoder.h"
#include "model/ranks/gathers.h"
#include "model/ranks/split_program.h"
#include "model/small_pool.h"
#include "ranks/group.h"
#include "tensor/file/gguf.h"
#include "tensor/file/safetensors.h"
#include "testing/data.h"
#include "testing/golden_name.h"

namespace espalier::split_golden_test {
namespace {

using testing::all_logits;
using testing::SmallPool;

constexpr int kSlots = 256;

// What a rank needs to load a decoder.
struct Checkpoint {
  std::shared_ptr<const TensorFile> file;
  ModelSpec spec;
  Naming naming = Naming::hf;

  std::unique_ptr<Decoder> load(Activations mode, ComputeTeam& team, ranks::Collective* group,
                                bool experts_by_id = false, int stages = 1) const {
    DecoderOptions options{.activations = mode, .max_rows = 512};
    options.group = group;
    options.experts_by_id = experts_by_id;
    options.stages = stages;
    const Weights weights(*file, naming);
    auto decoder = Decoder::load(spec, weights, options, team);
    EXPECT_TRUE(decoder.ok()) << decoder.error().message;
    return decoder.ok() ? std::move(decoder).value() : nullptr;
  }
};

// What one rank gives for some texts, in chunks.
std::vector<float> logits_of(Decoder& decoder, KvType type, const std::vector<std::vector<TokenId>>& texts, int chunk) {
  std::vector<float> all;
  for (const auto& tokens : texts) {
    SmallPool pool(decoder.keeps(), type, kSlots);
    const auto logits = all_logits(decoder, pool, tokens, chunk);
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

// Whether one rank of `size` keeps and reads less than all have.
struct Share {
  std::size_t weights = 0;                 // bytes of the largest
  std::uint64_t exchanges = 0, bytes = 0;  // of all steps
};

std::vector<float> first_rank_of(const Checkpoint& checkpoint, int size, Activations mode, KvType type,
                                 const std::vector<std::vector<TokenId>>& texts, int chunk, bool experts_by_id,
                                 int stages, Share& share) {
  ranks::GroupOptions options;
  options.on_loss = [](const Error& why, bool) { ADD_FAILURE() << why.message; };
  const auto group = ranks::thread_group(size, options);
  std::vector<float> given;
  std::mutex mutex;
  const auto compute = [&](ranks::Collective& rank) {
    ComputeTeam team(1);
    const auto decoder = checkpoint.load(mode, team, &rank, experts_by_id, stages);
    if (decoder == nullptr) return rank.end("it cannot be loaded");
    const ranks::CollectiveFigures loaded = rank.figures();
    const auto logits = logits_of(*decoder, type, texts, chunk);
    const std::lock_guard lock(mutex);
    share.weights = std::max(share.weights, decoder->weight_bytes());
    if (rank.rank() != 0) return;
    given = logits;
    const ranks::CollectiveFigures now = rank.figures();
    share.exchanges = now.exchanges - loaded.exchanges;
    share.bytes = now.bytes_sent + now.bytes_received - loaded.bytes_sent - loaded.bytes_received;
  };
  std::vector<std::jthread> threads;
  for (const auto& rank : group) threads.emplace_back([&compute, &rank] { compute(*rank); });
  threads.clear();
  return given;
}

// What is told of a program before it is computed comes true.
void expect_told(const Share& share, const Program& program, const std::vector<std::vector<TokenId>>& texts) {
  std::int64_t rows = 0;
  for (const auto& tokens : texts) rows += static_cast<std::int64_t>(tokens.size());
  const GatherWork work = gathers_of(program, 2, RowFormat::f32);
  const std::int64_t of_others = work.logit_bytes / 4 - even_columns(program.vocabulary, 2).front().size();
  EXPECT_EQ(static_cast<std::int64_t>(share.exchanges), work.gathers * static_cast<std::int64_t>(texts.size()));
  EXPECT_EQ(static_cast<std::int64_t>(share.bytes), rows * (work.row_bytes + work.end_bytes + 4 * of_others));
}

void expect_same_bits(const Checkpoint& checkpoint, const std::vector<std::vector<TokenId>>& texts) {
  for (const auto& [mode, type] : {std::pair{Activations::f32, KvType::f32}, {Activations::int8, KvType::bf16}}) {
    ComputeTeam team(1);
    const auto alone = checkpoint.load(mode, team, nullptr);
    ASSERT_TRUE(alone);
    const auto want = logits_of(*alone, type, texts, 512);
    for (const auto& [size, chunk, experts_by_id, stages] : {std::tuple{2, 512, false, 1},
                                                             {2, 16, true, 1},
                                                             {3, 7, false, 1},
                                                             {4, 512, false, 1},
                                                             {8, 16, false, 1},
                                                             {8, 512, true, 1},
                                                             {2, 16, false, 2},
                                                             {6, 512, false, 2},
                                                             {4, 16, true, 2},
                                                             {6, 512, true, 3},
                                                             {8, 7, true, 2}}) {
      Share share;
      const auto got = first_rank_of(checkpoint, size, mode, type, texts, chunk, experts_by_id, stages, share);
      ASSERT_EQ(got.size(), want.size());
      std::size_t differ = 0;
      for (std::size_t i = 0; i < got.size(); ++i) differ += got[i] != want[i];
      EXPECT_EQ(differ, 0u) << "of " << got.size() << " logits on " << size << " ranks in " << stages
                            << " stages, mode " << static_cast<int>(mode);
      EXPECT_LT(share.weights, alone->weight_bytes()) << size << " " << stages;
      EXPECT_GT(share.exchanges, 0u);
      if (mode == Activations::f32 && size == 2 && chunk == 512) expect_told(share, alone->program(), texts);
      if (mode == Activations::int8 && size == 4)
        std::printf(
            "4 ranks: a rank has %.2f of the weights, a step has %.1f exchanges a layer\n",
            static_cast<double>(share.weights) / static_cast<double>(alone->weight_bytes()),
            static_cast<double>(share.exchanges) / static_cast<double>(texts.size() * checkpoint.spec.layers.size()));
    }
  }
}

class EachTextModelOnRanks : public ::testing::TestWithParam<std::string> {};

TEST_P(EachTextModelOnRanks, GivesTheBitsOfOne) {
  const auto folder = testing::golden("models/" + GetParam());
  if (folder.empty()) GTEST_SKIP() << "left out: no goldens of " << GetParam() << " here";
  auto file = SafetensorsFile::open_folder(folder);
  auto config = load_hf_config(folder);
  ASSERT_TRUE(file.ok() && config.ok());
  const auto golden = nlohmann::json::parse(testing::read_file(folder / "golden.json"));
  std::vector<std::vector<TokenId>> texts;
  for (const auto& prompt : golden["prompts"]) texts.push_back(prompt["tokens"]);
  expect_same_bits({std::make_shared<SafetensorsFile>(std::move(file).value()), config->spec, Naming::hf}, texts);
}

INSTANTIATE_TEST_SUITE_P(Goldens, EachTextModelOnRanks, ::testing::ValuesIn(testing::text_goldens()),
                         testing::golden_name);

}  // namespace
}  // namespace espalier::split_golden_test
