// Quantised checkpoints against goldens that were computed from their decoded weights: those of ../shared, and those of
// tests/data/goldens/quant, which tools/goldens/make_quant_more.py made for formats that the former lack.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "model/config/hf_config.h"
#include "model/decoder.h"
#include "model/quant/quantised_file.h"
#include "model/small_pool.h"
#include "tensor/decode.h"
#include "tensor/file/safetensors.h"
#include "testing/data.h"
#include "testing/golden_name.h"

namespace espalier {
namespace {

using testing::all_logits;
using testing::SmallPool;

std::vector<std::string> quant_goldens() {
  std::set<std::string> names;
  std::error_code absent;
  for (const auto& root : {testing::data("goldens/quant"), testing::shared("goldens/quant")})
    for (const auto& entry : std::filesystem::directory_iterator(root, absent)) names.insert(entry.path().filename());
  return {names.begin(), names.end()};
}

// A checkpoint, what is expected of it, and how far it is from that.
struct QuantGolden {
  std::filesystem::path folder;
  nlohmann::json golden;
  std::optional<SafetensorsFile> logits;
  std::unique_ptr<TensorFile> file;
  std::unique_ptr<Decoder> decoder;
  ComputeTeam team{2};

  QuantGolden(const std::string& name, Activations mode) : folder(testing::golden("quant/" + name)) {
    golden = nlohmann::json::parse(testing::read_file(folder / "golden.json"));
    logits = SafetensorsFile::open(folder / "logits.safetensors").value();
    auto config = load_hf_config(folder);
    EXPECT_TRUE(config.ok()) << config.error().message;
    auto stored = SafetensorsFile::open_folder(folder);
    EXPECT_TRUE(stored.ok()) << stored.error().message;
    if (!config.ok() || !stored.ok()) return;
    auto made = QuantisedFile::open(std::make_unique<SafetensorsFile>(std::move(stored).value()), config->quantisation);
    EXPECT_TRUE(made.ok()) << made.error().message;
    if (!made.ok()) return;
    file = std::move(made).value();
    auto loaded = Decoder::load(config->spec, Weights(*file, Naming::hf), {mode, 512}, team);
    EXPECT_TRUE(loaded.ok()) << loaded.error().message;
    if (loaded.ok()) decoder = std::move(loaded).value();
  }
  std::vector<TokenId> tokens(std::size_t prompt) const { return golden["prompts"][prompt]["tokens"]; }
  // Of all positions, or (of goldens kept small) of the last one.
  std::vector<float> wanted(const std::string& name) const { return decode(*logits->find(name)); }
};

std::vector<TokenId> greedy(Decoder& decoder, SmallPool& pool, std::vector<TokenId> tokens, std::size_t count) {
  const auto prompt = tokens.size();
  int from = 0;
  while (tokens.size() < prompt + count) {
    const auto rows = all_logits(decoder, pool, tokens, 512, from);
    const auto row = std::span(rows).last(static_cast<std::size_t>(decoder.vocabulary()));
    from = static_cast<int>(tokens.size());
    tokens.push_back(static_cast<TokenId>(std::max_element(row.begin(), row.end()) - row.begin()));
  }
  return {tokens.begin() + static_cast<std::ptrdiff_t>(prompt), tokens.end()};
}

class EachQuantisedCheckpoint : public ::testing::TestWithParam<std::string> {};

TEST_P(EachQuantisedCheckpoint, ExactModeGivesTheDecodedWeightsLogits) {
  QuantGolden g(GetParam(), Activations::f32);
  ASSERT_TRUE(g.decoder);
  const double std = g.golden["logit_std"];
  double worst = 0;
  for (std::size_t p = 0; p < g.golden["prompts"].size(); ++p) {
    for (const int chunk : {512, 7}) {
      SmallPool pool(g.decoder->keeps(), KvType::f32, 256);
      const auto rows = all_logits(*g.decoder, pool, g.tokens(p), chunk);
      const auto want = g.wanted("p" + std::to_string(p) + ".logits");
      ASSERT_GE(rows.size(), want.size());
      const auto got = std::span(rows).last(want.size());
      for (std::size_t i = 0; i < want.size(); ++i)
        worst = std::max(worst, std::abs(static_cast<double>(got[i]) - static_cast<double>(want[i])));
      EXPECT_LE(worst / std, 1e-3) << GetParam() << " prompt " << p << " chunk " << chunk;
    }
    SmallPool pool(g.decoder->keeps(), KvType::f32, 256);
    const auto ids = g.golden["prompts"][p]["greedy"].get<std::vector<TokenId>>();
    EXPECT_EQ(greedy(*g.decoder, pool, g.tokens(p), ids.size()), ids) << GetParam() << " prompt " << p;
  }
  std::printf("%-24s worst error %.1e of the logits' spread\n", GetParam().c_str(), worst / std);
}

// Judged against the run whose activations the reference rounded, too, where there is one: ours lie nearer to floats.
TEST_P(EachQuantisedCheckpoint, DefaultModeStaysNearTheReference) {
  QuantGolden g(GetParam(), Activations::int8);
  ASSERT_TRUE(g.decoder);
  const double std = g.golden["logit_std"];
  for (const std::string run : {"", "actq."}) {
    double squares = 0;
    std::size_t values = 0;
    for (std::size_t p = 0; p < g.golden["prompts"].size(); ++p) {
      const std::string name = run + "p" + std::to_string(p) + ".logits";
      if (g.logits->find(name) == nullptr) continue;
      SmallPool pool(g.decoder->keeps(), KvType::bf16, 256);
      const auto rows = all_logits(*g.decoder, pool, g.tokens(p), 512);
      const auto want = g.wanted(name);
      const auto got = std::span(rows).last(want.size());
      for (std::size_t i = 0; i < want.size(); ++i)
        squares += std::pow((static_cast<double>(got[i]) - static_cast<double>(want[i])) / std, 2);
      values += want.size();
    }
    if (values == 0) continue;
    const double rms = std::sqrt(squares / static_cast<double>(values));
    EXPECT_LE(rms, run.empty() ? 0.1 : 0.15) << GetParam() << " " << run;
    std::printf("%-24s default mode: root mean square %.3f of the logits' spread %s\n", GetParam().c_str(), rms,
                run.c_str());
  }
}

// Whatever the company: one row at a time, all at once.
TEST_P(EachQuantisedCheckpoint, RowsGiveTheSameBitsAloneAndTogether) {
  for (const Activations mode : {Activations::f32, Activations::int8}) {
    QuantGolden g(GetParam(), mode);
    ASSERT_TRUE(g.decoder);
    const auto tokens = g.tokens(2);
    SmallPool alone(g.decoder->keeps(), KvType::bf16, 256), together(g.decoder->keeps(), KvType::bf16, 256);
    EXPECT_EQ(all_logits(*g.decoder, alone, tokens, 1), all_logits(*g.decoder, together, tokens, 512)) << GetParam();
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, EachQuantisedCheckpoint, ::testing::ValuesIn(quant_goldens()), testing::golden_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EachQuantisedCheckpoint);

}  // namespace
}  // namespace espalier
