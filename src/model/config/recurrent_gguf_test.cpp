// Recurrent models out of GGUF files, which have other names, orders and forms of the same tensors than checkpoints;
// and families that only such files bring.
//
// tests/data/goldens/gguf-recurrent: the tiny random checkpoints of the goldens, renamed and transformed as llama.cpp's
// converter does it (value heads tiled, A as -exp(A_log), norms with one added, multipliers in the weights), and what
// the checkpoint's reference gives: greedy ids and the last logits of two prompts. goldens/gguf-alone: files with
// random weights of families that the transformers library lacks, and the same out of a plain program
// (tools/goldens/make_gguf_alone.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "model/config/gguf_config.h"
#include "model/small_pool.h"
#include "tensor/file/gguf.h"
#include "testing/data.h"

namespace espalier::recurrent_gguf_test {
namespace {

using testing::all_logits;
using testing::SmallPool;

class RecurrentGguf : public ::testing::TestWithParam<const char*> {};

TEST_P(RecurrentGguf, GivesTheCheckpointsNumbers) {
  const auto folder = testing::data("goldens");
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
  double worst_of_all = 0;
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
    worst_of_all = std::max(worst_of_all, worst / golden["logit_std"].get<double>());
    for (std::size_t i = 0; i < golden["prompts"][p]["greedy"].size(); ++i) {
      const auto last = std::span(got).last(vocabulary);
      ids.push_back(static_cast<TokenId>(std::ranges::max_element(last) - last.begin()));
      tokens.push_back(ids.back());
      got = all_logits(**decoder, pool, tokens, 1, static_cast<int>(tokens.size()) - 1);
    }
    EXPECT_EQ(ids, golden["prompts"][p]["greedy"].get<std::vector<TokenId>>()) << "prompt " << p;
  }
  std::printf("%-28s worst error %.1e of the logits' spread\n", name.c_str(), worst_of_all);
}

std::string name_of(const ::testing::TestParamInfo<const char*>& test) {
  std::string name = test.param;
  name.erase(0, name.find('/') + 1);
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Goldens, RecurrentGguf,
                         ::testing::Values("gguf-recurrent/qwen3next", "gguf-recurrent/qwen35",
                                           "gguf-recurrent/qwen35moe", "gguf-recurrent/granitehybrid",
                                           "gguf-recurrent/nemotron_h_moe", "gguf-recurrent/falcon-h1",
                                           "gguf-recurrent/lfm2", "gguf-recurrent/lfm2moe", "gguf-recurrent/mamba2",
                                           "gguf-recurrent/mamba", "gguf-recurrent/jamba"),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Alone, RecurrentGguf,
                         ::testing::Values("gguf-alone/refact", "gguf-alone/codeshell", "gguf-alone/jais",
                                           "gguf-alone/openelm", "gguf-alone/maincoder", "gguf-alone/arctic",
                                           "gguf-alone/plm", "gguf-alone/plamo", "gguf-alone/plamo2",
                                           "gguf-alone/plamo3", "gguf-alone/smallthinker", "gguf-alone/maple",
                                           "gguf-alone/spark2_5", "gguf-alone/nanbeige", "gguf-alone/rwkv6",
                                           "gguf-alone/rwkv6qwen2", "gguf-alone/rwkv7", "gguf-alone/arwkv7",
                                           "gguf-alone/step35", "gguf-alone/hrm_text", "gguf-alone/granite_swa",
                                           "gguf-alone/lattices"),
                         name_of);

}  // namespace
}  // namespace espalier::recurrent_gguf_test
