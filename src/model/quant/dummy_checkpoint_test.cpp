// Random checkpoints in the formats of quantised ones: what a configuration says is what is read and multiplied, and takes
// the bytes that a real file would.
#include "model/quant/dummy_checkpoint.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/config/hf_config.h"
#include "model/decoder.h"
#include "model/program/builder.h"
#include "model/program/linear_layers.h"
#include "model/quant/quantised_file.h"
#include "model/small_pool.h"
#include "model/weights/dummy_weights.h"

namespace espalier::dummy_checkpoint_test {
namespace {

using espalier::testing::all_logits;
using espalier::testing::SmallPool;

std::string model_with(const std::string& quantised) {
  return R"({"architectures":["LlamaForCausalLM"],"hidden_size":256,"intermediate_size":512,"num_hidden_layers":2,
             "num_attention_heads":4,"num_key_value_heads":2,"vocab_size":512,"max_position_embeddings":128,
             "tie_word_embeddings":false,"torch_dtype":"bfloat16","quantization_config":)" +
         quantised + "}";
}

Result<std::unique_ptr<TensorFile>> dummy(const ModelConfig& config) {
  ESP_TRY(std::unique_ptr<TensorFile> plain, DummyWeights::make(config.spec, DType::bf16));
  ESP_TRY(const Program program, Builder::build(config.spec, nullptr));
  ESP_TRY(auto stored,
          DummyCheckpoint::make(std::move(plain), linear_layers(program, config.spec).linear, config.quantisation));
  return QuantisedFile::open(std::move(stored), config.quantisation);
}

struct Case {
  const char* config;
  DType type;   // of q_proj, as it is multiplied
  double bits;  // of q_proj, per value, as it is stored
};

const Case kCases[] = {
    {R"({"quant_method":"gptq","bits":4,"group_size":128,"sym":true,"desc_act":false})", DType::q4_0, 4.281},
    {R"({"quant_method":"gptq","bits":4,"group_size":32,"sym":false,"desc_act":true})", DType::g4_32, 4.75},
    {R"({"quant_method":"gptq","bits":3,"group_size":128,"sym":false,"checkpoint_format":"gptq_v2"})", DType::g3_128,
     3.273},
    {R"({"quant_method":"gptq","bits":2,"group_size":-1,"sym":true})", DType::g2_128, 2.195},
    {R"({"quant_method":"gptq","bits":2,"group_size":64,"sym":true})", DType::g2_64, 2.406},
    {R"({"quant_method":"gptq","bits":8,"group_size":128,"sym":true})", DType::q8_0, 8.313},
    {R"({"quant_method":"awq","bits":4,"group_size":64,"zero_point":true})", DType::g4_32, 4.313},
    {R"({"quant_method":"fp8","weight_block_size":[128,128]})", DType::f8_128, 8.002},
    {R"({"quant_method":"compressed-tensors","format":"float-quantized","config_groups":{"g":{"targets":["Linear"],
         "weights":{"num_bits":8,"type":"float","strategy":"channel"}}}})",
     DType::f8_128, 8.063},
    {R"({"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"g":{"targets":["Linear"],
         "weights":{"num_bits":4,"type":"int","strategy":"group","group_size":128,"symmetric":false}}}})",
     DType::g4_128, 4.158},
    {R"({"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"g":{"targets":["Linear"],
         "weights":{"num_bits":3,"type":"int","strategy":"group","group_size":128}}}})",
     DType::g3_128, 3.127},
    {R"({"quant_method":"compressed-tensors","format":"int-quantized","config_groups":{"g":{"targets":["Linear"],
         "weights":{"num_bits":8,"type":"int","strategy":"channel"},"input_activations":{"num_bits":8}}}})",
     DType::q8_0, 8.063},
    {R"({"quant_method":"compressed-tensors","format":"int-quantized","config_groups":{"g":{"targets":["Linear"],
         "weights":{"num_bits":4,"type":"int","strategy":"group","group_size":128},"input_activations":{"num_bits":8}}}})",
     DType::q4_0, 8.125},
    {R"({"quant_method":"compressed-tensors","format":"nvfp4-pack-quantized","config_groups":{"g":{"targets":["Linear"],
         "weights":{"num_bits":4,"type":"float","strategy":"tensor_group","group_size":16}}}})",
     DType::nvfp4_g, 4.5},
    {R"({"quant_method":"compressed-tensors","format":"mxfp4-pack-quantized","config_groups":{"g":{"targets":["Linear"],
         "weights":{"num_bits":4,"type":"float","strategy":"group","group_size":32}}}})",
     DType::mxfp4, 4.25},
    {R"({"quant_method":"modelopt","quant_algo":"NVFP4"})", DType::nvfp4_g, 4.5},
    {R"({"quant_method":"bitsandbytes","load_in_4bit":true,"bnb_4bit_quant_type":"nf4"})", DType::nf4, 4.525},
    {R"({"quant_method":"bitsandbytes","load_in_4bit":true,"bnb_4bit_quant_type":"fp4","bnb_4bit_use_double_quant":true})",
     DType::fp4, 4.28},
    {R"({"quant_method":"bitsandbytes","load_in_8bit":true})", DType::g8_128, 8.125},
};

TEST(DummyCheckpoint, EachFormatIsReadMultipliedAndAsLargeAsItsFileWouldBe) {
  ComputeTeam team(2);
  for (const Case& one : kCases) {
    const auto config = read_hf_config(model_with(one.config));
    ASSERT_TRUE(config.ok()) << one.config << config.error().message;
    const auto file = dummy(*config);
    ASSERT_TRUE(file.ok()) << one.config << file.error().message;
    const Tensor* query = file.value()->find("model.layers.0.self_attn.q_proj.weight");
    ASSERT_NE(query, nullptr) << one.config;
    EXPECT_EQ(query->dtype, one.type) << one.config << " became " << name(query->dtype);
    EXPECT_NEAR(8.0 * static_cast<double>(query->stored_size()) / static_cast<double>(query->elements()), one.bits,
                0.02)
        << one.config;
    EXPECT_EQ(file.value()->find("lm_head.weight")->dtype, DType::bf16) << one.config;
    auto decoder = Decoder::load(config->spec, Weights(*file.value(), Naming::hf), {Activations::int8, 64}, team);
    ASSERT_TRUE(decoder.ok()) << one.config << decoder.error().message;
    SmallPool pool(decoder.value()->keeps(), KvType::f32, 64);
    double squares = 0;
    const std::vector<TokenId> tokens = {3, 1, 4, 1, 5};
    for (const float logit : all_logits(*decoder.value(), pool, tokens, 64))
      squares += static_cast<double>(logit) * static_cast<double>(logit);
    EXPECT_TRUE(std::isfinite(squares) && squares > 0) << one.config;
  }
}

TEST(DummyCheckpoint, ModulesThatAreLeftOutStayAsTheyAre) {
  const auto config = read_hf_config(model_with(
      R"({"quant_method":"compressed-tensors","format":"pack-quantized","ignore":["lm_head","re:.*down_proj",
          "model.layers.1.self_attn"],"config_groups":{
          "a":{"targets":["re:.*mlp.*"],"weights":{"num_bits":8,"type":"int","strategy":"group","group_size":128}},
          "b":{"targets":["Linear"],"weights":{"num_bits":4,"type":"int","strategy":"group","group_size":128}}}})"));
  ASSERT_TRUE(config.ok()) << config.error().message;
  const auto file = dummy(*config);
  ASSERT_TRUE(file.ok()) << file.error().message;
  const auto type = [&](const char* name) { return file.value()->find(std::string("model.layers.") + name)->dtype; };
  EXPECT_EQ(type("0.self_attn.q_proj.weight"), DType::q4_0);
  EXPECT_EQ(type("1.self_attn.q_proj.weight"), DType::bf16);
  EXPECT_EQ(type("0.mlp.up_proj.weight"), DType::q8_0);
  EXPECT_EQ(type("0.mlp.down_proj.weight"), DType::bf16);
}

TEST(DummyCheckpoint, ExpertsThatShareATensorAreMxfp4) {
  const auto config = read_hf_config(
      R"({"architectures":["GptOssForCausalLM"],"model_type":"gpt_oss","hidden_size":64,"intermediate_size":64,
          "num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":16,"vocab_size":128,
          "num_local_experts":4,"num_experts_per_tok":2,"sliding_window":32,"max_position_embeddings":256,
          "rope_theta":10000.0,"layer_types":["sliding_attention","full_attention"],
          "quantization_config":{"quant_method":"mxfp4"}})");
  ASSERT_TRUE(config.ok()) << config.error().message;
  const auto file = dummy(*config);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file.value()->find("model.layers.1.mlp.experts.gate_up_proj")->dtype, DType::mxfp4);
  EXPECT_EQ(file.value()->find("model.layers.1.self_attn.q_proj.weight")->dtype, DType::bf16);
  ComputeTeam team(2);
  const auto decoder = Decoder::load(config->spec, Weights(*file.value(), Naming::hf), {Activations::int8, 64}, team);
  ASSERT_TRUE(decoder.ok()) << decoder.error().message;
}

}  // namespace
}  // namespace espalier::dummy_checkpoint_test
