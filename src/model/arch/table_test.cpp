// Every row of the table: a small model of it can be built and computes.
#include "model/arch/table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "model/config/hf_config.h"
#include "model/decoder.h"
#include "model/small_pool.h"
#include "model/weights/dummy_weights.h"

namespace espalier::table_test {
namespace {

// What any of the families asks for, small; fields that a family does not know do no harm.
const char* const kSmall = R"({
  "vocab_size": 96, "hidden_size": 64, "n_embd": 64, "d_model": 64, "intermediate_size": 64, "ffn_dim": 64, "dff": 64,
  "num_hidden_layers": 4, "n_layer": 4, "n_layers": 4, "num_layers": 4, "head_dim": 16, "kv_channels": 16,
  "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_heads": 4, "num_key_value_heads": 2,
  "max_position_embeddings": 256, "n_positions": 256, "max_seq_len": 256, "sliding_window": 16,
  "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "moe_num_experts": 4,
  "num_experts_per_tok": 2, "moe_topk": 2, "moe_k": 2, "moe_num_primary_experts": 4,
  "moe_num_active_primary_experts": 2, "moe_ffn_hidden_size": 32, "hidden_size_per_head": 16, "moe_intermediate_size": 32,
  "moe_shared_expert_intermediate_size": 32,
  "shared_expert_intermediate_size": 32, "intermediate_size_mlp": 64, "prefix_dense_intermediate_size": 64,
  "attn_config": {"kv_n_heads": 2}, "ffn_config": {"moe_num_experts": 4, "moe_top_k": 2, "ffn_hidden_size": 32},
  "hidden_size_per_layer_input": 16, "vocab_size_per_layer_input": 96, "num_kv_shared_layers": 0, "laurel_rank": 8,
  "global_head_dim": 32, "rotary_dim": 8, "v_head_dim": 16, "word_embed_proj_dim": 32, "kv_lora_rank": 32,
  "q_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "index_n_heads": 2, "index_head_dim": 16,
  "index_topk": 8, "index_kpool": 4, "o_groups": 2, "o_lora_rank": 16, "hc_mult": 2, "state_size": 16, "conv_kernel": 4, "expand": 2,
  "time_step_rank": 4, "n_groups": 1, "ssm_state_size": 16, "mamba_n_groups": 1, "mamba_d_state": 16,
  "mamba_d_conv": 4, "mamba_n_heads": 4, "mamba_d_head": 32, "mamba_d_ssm": 128, "mamba_num_heads": 4,
  "mamba_head_dim": 32, "hybrid_override_pattern": "M*-E", "linear_num_key_heads": 2, "linear_num_value_heads": 2,
  "hidden_dim": 64, "linear_key_head_dim": 16, "linear_value_head_dim": 16, "linear_conv_kernel_dim": 4})";

class EachArchitecture : public ::testing::TestWithParam<int> {};

TEST_P(EachArchitecture, BuildsAndComputesFiniteLogits) {
  const Architecture& row = architectures()[static_cast<std::size_t>(GetParam())];
  if (row.classes.empty()) GTEST_SKIP() << "GGUF files only, which have goldens";
  nlohmann::json json = nlohmann::json::parse(kSmall);
  json["model_type"] = row.name;
  if (row.name == "doge") json["sliding_window"] = nullptr;
  if (row.name == "zaya") json["num_experts_per_tok"] = 1;
  auto config = read_hf_config(json.dump(), "config.json");
  ASSERT_TRUE(config.ok()) << row.name << ": " << config.error().message;
  auto dummy = DummyWeights::make(config->spec, DType::bf16);
  ASSERT_TRUE(dummy.ok()) << row.name << ": " << dummy.error().message;
  ComputeTeam team(2);
  const Weights weights(**dummy, Naming::hf);
  std::vector<TokenId> tokens;
  for (int i = 0; i < 40; ++i) tokens.push_back(static_cast<TokenId>(i * 7 % 96));
  for (const Activations mode : {Activations::f32, Activations::int8}) {
    auto decoder = Decoder::load(config->spec, weights, {mode, 64}, team);
    ASSERT_TRUE(decoder.ok()) << row.name << ": " << decoder.error().message;
    testing::SmallPool pool((*decoder)->keeps(), KvType::f32, 128);
    const auto logits = testing::all_logits(**decoder, pool, tokens, 16);
    ASSERT_EQ(logits.size(), tokens.size() * static_cast<std::size_t>((*decoder)->vocabulary()));
    for (const float logit : logits) ASSERT_TRUE(std::isfinite(logit)) << row.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Table, EachArchitecture, ::testing::Range(0, static_cast<int>(architectures().size())),
                         [](const auto& test) {
                           std::string name(architectures()[static_cast<std::size_t>(test.param)].name);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(Table, NamesAreTold) {
  EXPECT_EQ(architecture_of_class("RWForCausalLM"), architecture_of_type("falcon"));
  EXPECT_EQ(architecture_of_type("RefinedWebModel"), architecture_of_type("falcon"));
  EXPECT_EQ(architecture_of_class("Ernie4_5_ForCausalLM"), architecture_of_type("ernie4_5"));
  EXPECT_EQ(architecture_in_gguf("glm4moe"), architecture_of_class("Glm4MoeForCausalLM"));
  EXPECT_EQ(architecture_in_gguf("nothing"), nullptr);
}

}  // namespace
}  // namespace espalier::table_test
