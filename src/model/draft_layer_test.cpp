// The layer that predicts further tokens against a plain computation of it (tools/goldens/make_nextn.py): its logits at every
// position, what it guesses from its own guesses, and that the model's logits are the same bits with it as without.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "model/config/gguf_config.h"
#include "model/config/hf_config.h"
#include "model/decoder.h"
#include "model/small_pool.h"
#include "model/weights/check.h"
#include "tensor/decode.h"
#include "tensor/file/gguf.h"
#include "tensor/file/safetensors.h"
#include "testing/data.h"
#include "testing/golden_name.h"

namespace espalier::draft_layer_test {
namespace {

using testing::all_logits;
using testing::SmallPool;

// Rows of known tokens at positions [first, first + tokens.size()) of a text whose slots are its positions.
std::span<float> draft_rows(Decoder& decoder, SmallPool& pool, std::span<const TokenId> tokens, int first) {
  std::vector<Slot> slots;
  std::vector<int> rows;
  for (int i = 0; i < static_cast<int>(tokens.size()); ++i) {
    slots.push_back(first + i);
    rows.push_back(i);
  }
  const KvRun run{0, first + static_cast<int>(tokens.size())};
  const BatchSequence sequence{0, static_cast<int>(tokens.size()), first, {&run, 1}};
  return decoder.draft_layer()->forward({tokens, slots, {&sequence, 1}, rows}, {pool.layers});
}

TokenId largest(std::span<const float> row) {
  return static_cast<TokenId>(std::max_element(row.begin(), row.end()) - row.begin());
}

class EachDraftLayer : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::string name = GetParam();
    folder = testing::data("goldens/nextn/" + name.substr(0, name.find(".gguf")));
    golden = nlohmann::json::parse(testing::read_file(folder / "nextn.json"));
    if (name.ends_with(".gguf")) return open_gguf(testing::data("goldens/nextn/" + name));
    auto opened = SafetensorsFile::open_folder(folder);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    file = std::make_unique<SafetensorsFile>(std::move(opened).value());
    auto read = load_hf_config(folder);
    ASSERT_TRUE(read.ok()) << read.error().message;
    config = std::move(read).value();
  }
  void open_gguf(const std::filesystem::path& path) {
    auto opened = GgufFile::open(path);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    auto read = read_gguf_config(*opened);
    ASSERT_TRUE(read.ok()) << read.error().message;
    config = std::move(read).value();
    file = std::make_unique<GgufFile>(std::move(opened).value());
    naming = Naming::gguf;
  }
  std::unique_ptr<Decoder> load(bool drafts, Activations mode = Activations::f32) {
    config.spec.drafts = drafts;
    auto decoder = Decoder::load(config.spec, Weights(*file, naming), {mode, 512}, team);
    EXPECT_TRUE(decoder.ok()) << decoder.error().message;
    return std::move(decoder).value();
  }
  std::vector<TokenId> prompt(std::size_t i) const {
    return golden["prompts"][i]["tokens"].get<std::vector<TokenId>>();
  }

  ComputeTeam team{2};
  std::filesystem::path folder;
  std::unique_ptr<TensorFile> file;
  Naming naming = Naming::hf;
  nlohmann::json golden;
  ModelConfig config;
};

TEST_P(EachDraftLayer, MeetsThePlainComputationAtEveryPositionHoweverThePromptWasCut) {
  auto decoder = load(true);
  auto expected = SafetensorsFile::open(folder / "nextn.safetensors");
  ASSERT_TRUE(expected.ok());
  const double std = golden["logit_std"];
  double worst = 0;
  for (std::size_t p = 0; p < golden["prompts"].size(); ++p) {
    const auto tokens = prompt(p);
    const auto wanted = decode(*expected->find("p" + std::to_string(p) + ".nextn"));
    std::vector<float> first;
    for (const int chunk : {512, 16, 1}) {
      SmallPool pool(decoder->keeps(), KvType::f32, 512);
      all_logits(*decoder, pool, tokens, chunk);
      const auto logits = draft_rows(*decoder, pool, std::span(tokens).subspan(1), 1);
      ASSERT_EQ(logits.size(), wanted.size());
      for (std::size_t i = 0; i < wanted.size(); ++i)
        worst = std::max(worst, static_cast<double>(std::abs(logits[i] - wanted[i])) / std);
      if (first.empty()) first.assign(logits.begin(), logits.end());
      EXPECT_TRUE(std::ranges::equal(logits, first)) << "chunks of " << chunk;
    }
  }
  EXPECT_LT(worst, 1e-4) << GetParam();
  std::printf("%s: worst error %.2g of the logits' deviation\n", GetParam().c_str(), worst);
}

TEST_P(EachDraftLayer, GoesOnFromItsOwnGuesses) {
  auto decoder = load(true);
  for (std::size_t p = 0; p < golden["prompts"].size(); ++p) {
    const auto tokens = prompt(p);
    SmallPool pool(decoder->keeps(), KvType::f32, 512);
    all_logits(*decoder, pool, tokens, 512);
    std::vector<TokenId> guesses;
    TokenId last = golden["prompts"][p]["greedy"][0];
    for (int at = static_cast<int>(tokens.size()); guesses.size() < golden["prompts"][p]["guesses"].size(); ++at) {
      last = largest(draft_rows(*decoder, pool, {&last, 1}, at));
      guesses.push_back(last);
    }
    EXPECT_EQ(guesses, golden["prompts"][p]["guesses"].get<std::vector<TokenId>>());
  }
}

TEST_P(EachDraftLayer, LeavesTheModelsLogitsTheSameBitsAlsoBehindGuessesThatWereRefused) {
  for (const auto& [mode, type] : {std::pair(Activations::f32, KvType::f32), std::pair(Activations::int8, KvType::bf16),
                                   std::pair(Activations::int8, KvType::f16)}) {
    auto without = load(false, mode), with = load(true, mode);
    ASSERT_EQ(without->draft_layer(), nullptr);
    const auto tokens = prompt(2);
    const auto half = static_cast<int>(tokens.size()) / 2;
    SmallPool plain(without->keeps(), type, 512), pool(with->keeps(), type, 512);
    const auto expected = all_logits(*without, plain, tokens, 512);
    auto logits = all_logits(*with, pool, std::span(tokens).first(static_cast<std::size_t>(half)), 512);
    TokenId guess = tokens[static_cast<std::size_t>(half)];
    for (int at = half; at < half + 3; ++at) guess = largest(draft_rows(*with, pool, {&guess, 1}, at));
    const auto rest = all_logits(*with, pool, tokens, 512, half);
    logits.insert(logits.end(), rest.begin(), rest.end());
    EXPECT_EQ(logits, expected);
  }
}

TEST_P(EachDraftLayer, RowsOfManySequencesAreTheSameBitsAsAlone) {
  auto decoder = load(true, Activations::int8);
  const auto tokens = prompt(3);
  const int n = static_cast<int>(tokens.size());
  SmallPool pool(decoder->keeps(), KvType::bf16, 512);
  all_logits(*decoder, pool, tokens, 64);
  const auto all = draft_rows(*decoder, pool, std::span(tokens).subspan(1), 1);
  const std::vector<float> together(all.begin(), all.end());
  const auto vocabulary = static_cast<std::size_t>(decoder->vocabulary());
  for (const int at : {n - 1, n / 2, 1}) {  // backwards: what a row writes is read only behind it
    SmallPool fresh(decoder->keeps(), KvType::bf16, 512);
    all_logits(*decoder, fresh, tokens, 64);
    const auto alone = draft_rows(*decoder, fresh, std::span(tokens).subspan(static_cast<std::size_t>(at), 1), at);
    EXPECT_TRUE(std::ranges::equal(
        alone, std::span(together).subspan(static_cast<std::size_t>(at - 1) * vocabulary, vocabulary)));
  }
}

INSTANTIATE_TEST_SUITE_P(Nextn, EachDraftLayer,
                         ::testing::Values("nextn-deepseek-v3", "nextn-glm4-moe", "nextn-qwen3-next", "nextn-mimo",
                                           "nextn-mimo-v2", "nextn-ernie", "nextn-ling", "nextn-exaone-moe",
                                           "nextn-nemotron-h", "nextn-hy-v3", "nextn-longcat", "nextn-deepseek-v3.gguf",
                                           "nextn-glm4-moe.gguf", "nextn-qwen3-next.gguf", "nextn-mimo-v2.gguf",
                                           "nextn-exaone-moe.gguf", "nextn-nemotron-h.gguf"),
                         testing::golden_name);

TEST(DraftLayer, ACheckpointWithoutOneIsRefusedByASentence) {
  const auto folder = testing::golden("models/llama3-tied-gqa");
  if (folder.empty()) GTEST_SKIP() << "left out: no goldens here";
  auto file = SafetensorsFile::open_folder(folder);
  const auto config = load_hf_config(folder);
  ASSERT_TRUE(file.ok() && config.ok());
  const auto refused = check_draft_layer(Weights(*file, Naming::hf), config->spec);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(
      refused.error().message,
      "--speculative-algorithm NEXTN needs a checkpoint with a layer that predicts further tokens, but models of this "
      "architecture bring none that is known here; tree, or draft with a small model, would work");
}

}  // namespace
}  // namespace espalier::draft_layer_test
