// Configurations of recurrent models: spellings of published checkpoints, and values that no layer can have.
#include <gtest/gtest.h>

#include "base/json/json.h"
#include "model/blocks/channels/mlp.h"
#include "model/blocks/recurrent/mamba2.h"
#include "model/blocks/recurrent/short_conv.h"
#include "model/config/hf_config.h"

namespace espalier::recurrent_config_test {
namespace {

Json mamba2_config() {
  return {{"architectures", {"Mamba2ForCausalLM"}},
          {"vocab_size", 320},
          {"hidden_size", 64},
          {"num_hidden_layers", 2},
          {"num_heads", 8},
          {"head_dim", 16},
          {"n_groups", 2},
          {"state_size", 16},
          {"conv_kernel", 4}};
}

std::string problem_of(const Json& config) {
  const auto read = read_hf_config(config.dump(), "config.json");
  return read.ok() ? "" : read.error().message;
}

const Mamba2& first_mixer(const ModelConfig& config) {
  return *config.spec.layers.front().halves.front().block.target<Mamba2>();
}

TEST(RecurrentConfig, LimitsOfTimeStepsMayBeInfinite) {
  Json config = mamba2_config();
  config["time_step_limit"] = {0.5, Json{{"__float__", "Infinity"}}};
  const auto read = read_hf_config(config.dump(), "config.json");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(first_mixer(*read).least_step, 0.5f);
  EXPECT_EQ(first_mixer(*read).most_step, std::numeric_limits<float>::infinity());
}

TEST(RecurrentConfig, AHeadsSizeMayBeAuto) {
  Json config = {{"architectures", {"BambaForCausalLM"}},
                 {"vocab_size", 320},
                 {"hidden_size", 64},
                 {"num_hidden_layers", 1},
                 {"num_attention_heads", 4},
                 {"intermediate_size", 96},
                 {"mamba_n_heads", 8},
                 {"mamba_d_head", "auto"},
                 {"mamba_n_groups", 1},
                 {"mamba_d_state", 16}};
  const auto read = read_hf_config(config.dump(), "config.json");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(first_mixer(*read).head_dim, 16);
}

TEST(RecurrentConfig, LengthsWithoutPositionsAreLong) {
  const auto read = read_hf_config(mamba2_config().dump(), "config.json");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->context_length, 1 << 20);
}

TEST(RecurrentConfig, RefusesWhatNoLayerCanHave) {
  const std::pair<const char*, Json> values[] = {{"conv_kernel", 1},
                                                 {"conv_kernel", 1000},
                                                 {"state_size", 100000},
                                                 {"state_size", 0},
                                                 {"n_groups", 3},
                                                 {"num_heads", 4097},
                                                 {"head_dim", -1},
                                                 {"time_step_limit", {1.0, 0.5}},
                                                 {"time_step_limit", "all"},
                                                 {"time_step_limit", Json::array()},
                                                 {"hidden_act", "swirl"}};
  for (const auto& [field, value] : values) {
    Json config = mamba2_config();
    config[field] = value;
    EXPECT_NE(problem_of(config).find(field), std::string::npos) << field << " " << value << ": " << problem_of(config);
  }
}

TEST(RecurrentConfig, NemotronNamesALayerByALetterOrAWord) {
  Json config = {{"architectures", {"NemotronHForCausalLM"}},
                 {"vocab_size", 320},
                 {"hidden_size", 64},
                 {"num_attention_heads", 4},
                 {"num_key_value_heads", 2},
                 {"head_dim", 16},
                 {"intermediate_size", 96},
                 {"mamba_num_heads", 8},
                 {"mamba_head_dim", 16},
                 {"n_groups", 2},
                 {"ssm_state_size", 16}};
  config["hybrid_override_pattern"] = "M-*M";
  const auto read = read_hf_config(config.dump(), "config.json");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->spec.layers.size(), 4u);
  config["hybrid_override_pattern"] = "M?";
  EXPECT_NE(problem_of(config).find("hybrid_override_pattern"), std::string::npos);
  config["layers_block_type"] = {"mamba", "attention", "mlp"};
  EXPECT_EQ(problem_of(config), "");
  config["layers_block_type"] = {"mamba", "something"};
  EXPECT_NE(problem_of(config).find("layers_block_type"), std::string::npos);
}

TEST(RecurrentConfig, Lfm2WidensItsMlpAsItsCheckpointsMeanIt) {
  Json config = {{"architectures", {"Lfm2ForCausalLM"}},
                 {"vocab_size", 320},
                 {"hidden_size", 64},
                 {"num_hidden_layers", 1},
                 {"num_attention_heads", 4},
                 {"block_ff_dim", 12288},
                 {"block_auto_adjust_ff_dim", true},
                 {"block_multiple_of", 256},
                 {"layer_types", {"conv"}}};
  const auto read = read_hf_config(config.dump(), "config.json");
  ASSERT_TRUE(read.ok()) << read.error().message;
  const auto& halves = read->spec.layers.front().halves;
  EXPECT_EQ(halves[1].block.target<Mlp>()->inner, 8192);
  EXPECT_NE(halves[0].block.target<ShortConv>(), nullptr);
}

}  // namespace
}  // namespace espalier::recurrent_config_test
