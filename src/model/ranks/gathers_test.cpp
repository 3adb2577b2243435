// What ranks gather, against sums by hand.
#include <gtest/gtest.h>

#include "base/json/json.h"
#include "model/config/hf_config.h"
#include "model/program/builder.h"
#include "model/ranks/gathers.h"

namespace espalier {
namespace {

constexpr std::int64_t kHidden = 256, kInner = 512, kHeads = 8, kHeadDim = 32, kVocabulary = 77;

Json llama(int layers) {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"hidden_size", kHidden},
          {"intermediate_size", kInner},
          {"num_attention_heads", kHeads},
          {"num_key_value_heads", 2},
          {"head_dim", kHeadDim},
          {"num_hidden_layers", layers},
          {"vocab_size", kVocabulary},
          {"max_position_embeddings", 512},
          {"rms_norm_eps", 1e-5},
          {"tie_word_embeddings", false}};
}

GatherWork of(const Json& config) {
  const auto read = read_hf_config(config.dump());
  EXPECT_TRUE(read.ok()) << read.error().message;
  const auto program = Builder::build(read->spec, nullptr);
  EXPECT_TRUE(program.ok());
  return gathers_of(*program);
}

std::int64_t as_input(std::int64_t values) {
  return values / 32 * 48;
}

TEST(Gathers, ALayerHasFourAndTheHeadOne) {
  for (const int layers : {1, 2, 5}) EXPECT_EQ(of(llama(layers)).gathers, 4 * layers + 1);
}

TEST(Gathers, ARowsBytesAreInputsInOneByteAndTheResidualStreamInFloats) {
  const std::int64_t of_layer = as_input(kHeads * kHeadDim) + 4 * kHidden + as_input(kInner) + 4 * kHidden;
  const GatherWork two = of(llama(2)), five = of(llama(5));
  EXPECT_EQ(five.row_bytes - two.row_bytes, 3 * of_layer);
  // What stands behind the last layer's keys and values concerns only rows that another token follows.
  EXPECT_EQ(five.row_bytes + five.end_bytes, 5 * of_layer);
  EXPECT_EQ(two.end_bytes, of_layer);
  EXPECT_EQ(two.logit_bytes, 4 * kVocabulary);
  EXPECT_DOUBLE_EQ(two.bytes(10, 3), static_cast<double>(10 * two.row_bytes + 3 * (of_layer + 4 * kVocabulary)));
}

TEST(Gathers, ChosenExpertsAreGatheredOnce) {
  Json config = llama(2);
  config["architectures"] = {"MixtralForCausalLM"};
  config["model_type"] = "mixtral";
  config["num_local_experts"] = 8;
  config["num_experts_per_tok"] = 2;
  const GatherWork mixed = of(config), plain = of(llama(2));
  // All ranks compute the router's few scores; two experts' inner values stand in place of the MLP's.
  EXPECT_EQ(mixed.gathers, plain.gathers);
  EXPECT_EQ(mixed.row_bytes + mixed.end_bytes - plain.row_bytes - plain.end_bytes,
            2 * (4 * 2 * kInner - as_input(kInner)));
}

}  // namespace
}  // namespace espalier
