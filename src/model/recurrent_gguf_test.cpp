// Recurrent models out of GGUF files, which have other names, orders and forms of the same tensors than checkpoints.
//
// tests/data/goldens/gguf-recurrent: the tiny random checkpoints of the goldens, renamed and transformed as llama.cpp's
// converter does it (value heads tiled, A as -exp(A_log), norms with one added, multipliers in the weights), and what
// the checkpoint's reference gives: greedy ids and the last logits of two prompts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "model/gguf_config.h"
#include "model/small_pool.h"
#include "tensor/file/gguf.h"
#include "testing/data.h"

namespace espalier::recurrent_gguf_test {
namespace {

using testing::all_logits;
using testing::SmallPool;

class RecurrentGguf : public ::testing::TestWithParam<const char*> {};

TEST_P(RecurrentGguf, GivesTheCheckpointsNumbers) {
  const auto folder = testing::data("goldens/gguf-recurrent");
  const std::string name = GetParam();
  const auto golden = nlohmann::json::parse(testing::read_file(folder / (name + ".json")));
  auto file = GgufFile::open(folder / (name + ".gguf"));
  ASSERT_TRUE(file.ok()) << file.error().message;
  auto config = read_gguf_config(*file);
  ASSERT_TRUE(config.ok()) << config.error().message;
  ComputeTeam team(2);
  const Weights weights(*file, Naming::gguf);
  auto decoder = Decoder::load(config->spec, weights, {Activations::f32, 512}, team);
  ASSERT_TRUE(decoder.ok()) << decoder.error().message;
  const auto vocabulary = static_cast<std::size_t>((*decoder)->vocabulary());
  for (std::size_t p = 0; p < golden["prompts"].size(); ++p) {
    std::vector<TokenId> tokens = golden["prompts"][p]["tokens"], ids;
    const std::vector<float> want = golden["logits"][p];
    SmallPool pool((*decoder)->keeps(), KvType::f32, 256);
    auto got = all_logits(**decoder, pool, tokens, 16);
    double worst = 0;
    for (std::size_t i = 0; i < want.size(); ++i)
      worst = std::max(worst,
                       std::abs(static_cast<double>(got[got.size() - vocabulary + i]) - static_cast<double>(want[i])));
    EXPECT_LE(worst, 1e-3 * golden["logit_std"].get<double>()) << "prompt " << p;
    for (std::size_t i = 0; i < golden["prompts"][p]["greedy"].size(); ++i) {
      const auto last = std::span(got).last(vocabulary);
      ids.push_back(static_cast<TokenId>(std::ranges::max_element(last) - last.begin()));
      tokens.push_back(ids.back());
      got = all_logits(**decoder, pool, tokens, 1, static_cast<int>(tokens.size()) - 1);
    }
    EXPECT_EQ(ids, golden["prompts"][p]["greedy"].get<std::vector<TokenId>>()) << "prompt " << p;
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, RecurrentGguf,
                         ::testing::Values("qwen3next", "qwen35", "qwen35moe", "granitehybrid", "nemotron_h_moe",
                                           "falcon-h1", "lfm2", "lfm2moe", "mamba2", "mamba", "jamba"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace espalier::recurrent_gguf_test
