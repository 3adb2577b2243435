// Configurations with latent attention, indexers, compressed entries and residual streams: what is read, what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/json/json.h"
#include "model/blocks/attention/latent_attention.h"
#include "model/config/hf_config.h"
#include "model/program/builder.h"
#include "testing/data.h"

namespace espalier::sparse_config {
namespace {

using ::testing::HasSubstr;

Json latent(const char* class_name) {
  Json root = Json::parse(R"({"vocab_size":320,"hidden_size":64,"intermediate_size":96,"moe_intermediate_size":24,
    "num_hidden_layers":3,"num_attention_heads":4,"q_lora_rank":32,"kv_lora_rank":32,"qk_nope_head_dim":16,
    "qk_rope_head_dim":8,"v_head_dim":16,"n_routed_experts":16,"num_experts_per_tok":4,"n_shared_experts":1,"n_group":4,
    "topk_group":2,"first_k_dense_replace":1,"index_n_heads":4,"index_head_dim":16,"index_topk":24,
    "max_position_embeddings":512,"index_block_size":8,"index_topk_blocks":3,"num_key_value_heads":2,"num_local_experts":16,
    "head_dim":16,"sliding_window":16,"o_groups":2,"o_lora_rank":16,"hc_mult":2,"num_layers":2,"ffn_hidden_size":96})");
  root["architectures"] = Json::array({class_name});
  return root;
}
Json with(Json root, const char* field, Json value) {
  root[field] = std::move(value);
  return root;
}

std::string refusal(const Json& root) {
  const auto config = read_hf_config(root.dump());
  return config.ok() ? "accepted" : config.error().message;
}

const LatentAttention& attention_of(const Result<ModelConfig>& config, std::size_t layer = 0) {
  return *config->spec.layers.at(layer).halves.front().block.target<LatentAttention>();
}

constexpr const char* kV3 = "DeepseekV3ForCausalLM";
constexpr const char* kClasses[] = {"DeepseekV2ForCausalLM",  "DeepseekV3ForCausalLM",   "DeepseekV32ForCausalLM",
                                    "GlmMoeDsaForCausalLM",   "HYV4ForCausalLM",         "LongcatFlashForCausalLM",
                                    "MiniMaxM3VLForCausalLM", "DeepseekV4ForCausalLM",   "MiniCPM3ForCausalLM",
                                    "YoutuForCausalLM",       "Glm4MoeLiteForCausalLM",  "Mistral4ForCausalLM",
                                    "Dots1ForCausalLM",       "BailingMoeV2ForCausalLM", "AXK1ForCausalLM"};

TEST(SparseConfig, ATokenKeepsOneVectorForAllHeads) {
  const auto config = read_hf_config(latent(kV3).dump());
  ASSERT_TRUE(config.ok()) << config.error().message;
  const auto program = Builder::build(config->spec, nullptr);
  ASSERT_TRUE(program.ok());
  ASSERT_EQ(program->keeps.per_token.size(), 3U);
  EXPECT_EQ(program->keeps.per_token[0], (TokenField{1, 40, 32, true, 0}));
}

TEST(SparseConfig, ScoresGrowByYarnsMagnitudeSquared) {
  const Json yarn = {{"type", "yarn"},
                     {"factor", 40},
                     {"mscale", 0.707},
                     {"mscale_all_dim", 0.707},
                     {"original_max_position_embeddings", 64}};
  const auto plain = read_hf_config(latent(kV3).dump()),
             scaled = read_hf_config(with(latent(kV3), "rope_scaling", yarn).dump());
  ASSERT_TRUE(plain.ok() && scaled.ok());
  const double magnitude = 0.1 * 0.707 * std::log(40.0) + 1;
  EXPECT_FLOAT_EQ(attention_of(scaled).scale, attention_of(plain).scale * static_cast<float>(magnitude * magnitude));
  EXPECT_FLOAT_EQ(attention_of(scaled).rope->magnitude, 1.0f);
}

TEST(SparseConfig, LayersMayShareAnEarlierChoice) {
  Json root = with(latent("GlmMoeDsaForCausalLM"), "index_topk_pattern", "FSF");
  const auto config = read_hf_config(root.dump());
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_FALSE(attention_of(config, 0).shares_choice);
  EXPECT_TRUE(attention_of(config, 1).shares_choice);
  EXPECT_TRUE(attention_of(config, 2).indexer.has_value());
  EXPECT_THAT(refusal(with(root, "index_topk_pattern", "SFF")), HasSubstr("none is before it"));
}

TEST(SparseConfig, WhatCannotBeComputedIsRefused) {
  EXPECT_THAT(refusal(with(latent(kV3), "kv_lora_rank", 1024)), HasSubstr("kv_lora_rank is 1024"));
  EXPECT_THAT(refusal(with(latent(kV3), "n_group", 5)), HasSubstr("must divide 16 experts"));
  EXPECT_THAT(refusal(with(latent(kV3), "qk_rope_head_dim", 7)), HasSubstr("rotated dimensions"));
  EXPECT_THAT(refusal(with(latent("DeepseekV32ForCausalLM"), "index_head_dim", 4)), HasSubstr("indexer"));
  EXPECT_THAT(refusal(with(latent("MiniMaxM3VLForCausalLM"), "index_n_heads", 3)), HasSubstr("index head"));
  EXPECT_THAT(refusal(with(latent("DeepseekV4ForCausalLM"), "o_groups", 3)), HasSubstr("3 groups"));
  EXPECT_THAT(refusal(with(latent("DeepseekV4ForCausalLM"), "layer_types", Json::array({"full", "full", "full"}))),
              HasSubstr("layer_types"));
  EXPECT_THAT(refusal(with(latent("LongcatFlashForCausalLM"), "zero_expert_type", "copy")), HasSubstr("identity"));
}

// Numbers that make no sense are refused or computed with, never an accident.
TEST(SparseConfig, RandomlyChangedFieldsNeverCrash) {
  std::mt19937_64 rng(testing::seed());
  const Json values[] = {0,
                         1,
                         -1,
                         7,
                         1024,
                         1'000'000,
                         0.5,
                         "full",
                         true,
                         nullptr,
                         Json::array(),
                         Json::array({1, 0, 2}),
                         Json::array({"full", "shared", "dense"}),
                         Json::object()};
  for (long i = 0; i < testing::operations(1500, 30000); ++i) {
    Json root = latent(kClasses[rng() % std::size(kClasses)]);
    for (auto changes = rng() % 4; changes > 0; --changes) {
      auto field = root.begin();
      std::advance(field, static_cast<std::ptrdiff_t>(rng() % root.size()));
      if (field.key() != "architectures") *field = values[rng() % std::size(values)];
    }
    const auto config = read_hf_config(root.dump());
    if (!config.ok()) continue;
    const auto built = Builder::build(config->spec, nullptr);
    const bool too_large = !built.ok() && built.error().message.find("more than 262144 matrices") != std::string::npos;
    EXPECT_TRUE(built.ok() || too_large) << built.error().message << "\n" << root.dump();
  }
}

}  // namespace
}  // namespace espalier::sparse_config
