#include "model/config/hf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/json/json.h"
#include "model/declared_blocks.h"
#include "model/fields/fields.h"
#include "testing/data.h"
#include "testing/temp_folder.h"

namespace espalier::hf_config_test {
namespace {

using testing::attention_of;
using ::testing::HasSubstr;
using testing::mlp_of;

Json plain_llama() {
  return Json::parse(R"({"architectures":["LlamaForCausalLM"],"vocab_size":320,"hidden_size":64,"intermediate_size":160,
    "num_hidden_layers":3,"num_attention_heads":4,"num_key_value_heads":2,"hidden_act":"silu",
    "max_position_embeddings":512,"rms_norm_eps":1e-05,"bos_token_id":1,"eos_token_id":[2,7],"torch_dtype":"bfloat16"})");
}

Json with(std::string_view field, Json value, Json base = plain_llama()) {
  base[std::string(field)] = std::move(value);
  return base;
}
Json without(const std::string& field) {
  Json base = plain_llama();
  base.erase(field);
  return base;
}

Result<ModelConfig> read(const Json& root) {
  return read_hf_config(root.dump());
}

std::string refusal(const Json& root) {
  auto config = read(root);
  if (config.ok()) return "accepted";
  EXPECT_EQ(config.error().kind, Error::Kind::bad_file);
  EXPECT_THAT(config.error().message, HasSubstr("config.json"));
  return config.error().message;
}

std::vector<std::int64_t> windows(const Result<ModelConfig>& config) {
  std::vector<std::int64_t> out;
  for (std::size_t i = 0; i < config->spec.layers.size(); ++i) out.push_back(attention_of(config, i).visibility.size);
  return out;
}
// The frequency of one pair of dimensions, of eight.
float frequency(const Result<ModelConfig>& config, std::size_t pair) {
  return attention_of(config).rope->inverse_frequency.at(pair);
}

TEST(HfConfig, ReadsAPlainLlama) {
  auto config = read(plain_llama());
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->architecture, "llama");
  EXPECT_EQ(config->class_name, "LlamaForCausalLM");
  EXPECT_EQ(config->vocabulary, 320);
  EXPECT_EQ(config->spec.hidden, 64);
  EXPECT_EQ(config->spec.layers.size(), 3u);
  EXPECT_EQ(config->spec.norm.eps, 1e-5f);
  EXPECT_FALSE(config->spec.tied_head);
  EXPECT_EQ(config->context_length, 512);
  EXPECT_EQ(attention_of(config).heads, 4);
  EXPECT_EQ(attention_of(config).kv_heads, 2);
  EXPECT_EQ(attention_of(config).head_dim, 16);
  EXPECT_EQ(attention_of(config).rope->dims(), 16);
  EXPECT_EQ(frequency(config, 1), static_cast<float>(1 / std::pow(10000.0, 2.0 / 16)));
  EXPECT_FALSE(attention_of(config).qkv_bias || attention_of(config).out_bias || mlp_of(config).bias);
  EXPECT_EQ(windows(config), (std::vector<std::int64_t>{0, 0, 0}));
  EXPECT_EQ(mlp_of(config).inner, 160);
  EXPECT_EQ(config->bos, 1);
  EXPECT_EQ(config->eos, (std::vector<TokenId>{2, 7}));
  EXPECT_EQ(config->pad, std::nullopt);
  EXPECT_EQ(config->stored_type, DType::bf16);
}

TEST(HfConfig, BothStylesOfRopeAndDtypeMeanTheSame) {
  auto legacy = with("rope_theta", 500000.0);
  legacy["rope_scaling"] = {{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 64}};
  auto modern = without("torch_dtype");
  modern["dtype"] = "bfloat16";
  modern["rope_parameters"] = {
      {"rope_type", "yarn"}, {"rope_theta", 500000.0}, {"factor", 4.0}, {"original_max_position_embeddings", 64}};
  for (const auto& root : {legacy, modern}) {
    auto config = read(root);
    ASSERT_TRUE(config.ok()) << config.error().message;
    EXPECT_EQ(config->stored_type, DType::bf16);
    EXPECT_EQ(frequency(config, 0), 1.0f);
    EXPECT_EQ(frequency(config, 7), static_cast<float>(1 / std::pow(500000.0, 14.0 / 16) / 4));
    EXPECT_FLOAT_EQ(attention_of(config).rope->magnitude, static_cast<float>(0.1 * std::log(4.0) + 1));
    EXPECT_EQ(config->context_length, 512);
  }
}

TEST(HfConfig, ScalingsAreReadWithTheirParameters) {
  const auto scaled = [](const char* text) { return read(with("rope_scaling", Json::parse(text))); };
  const auto plain = scaled("null");
  const auto linear = scaled(R"({"type":"linear","factor":4})");
  for (std::size_t i = 0; i < 8; ++i) EXPECT_FLOAT_EQ(frequency(linear, i), frequency(plain, i) / 4);
  EXPECT_EQ(linear->context_length, 2048);
  const auto dynamic = scaled(R"({"rope_type":"dynamic","factor":2.0})");
  EXPECT_EQ(attention_of(dynamic).rope->long_after, 512);
  EXPECT_EQ(attention_of(dynamic).rope->dynamic_factor, 2);
  EXPECT_EQ(dynamic->context_length, 1024);
  const auto llama3 = scaled(R"({"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,
                                 "original_max_position_embeddings":64})");
  EXPECT_EQ(frequency(llama3, 0), frequency(plain, 0));
  EXPECT_FLOAT_EQ(frequency(llama3, 7), frequency(plain, 7) / 8);
  EXPECT_EQ(llama3->context_length, 512);
  const auto longrope = scaled(R"({"type":"su","short_factor":[1,1,1,1,1,1,1,1],"long_factor":[2,2,2,2,2,2,2,2],
                                   "original_max_position_embeddings":128})");
  ASSERT_TRUE(longrope.ok()) << longrope.error().message;
  EXPECT_EQ(attention_of(longrope).rope->long_after, 128);
  EXPECT_FLOAT_EQ(attention_of(longrope).rope->long_inverse_frequency.at(3), frequency(plain, 3) / 2);
  EXPECT_FLOAT_EQ(attention_of(longrope).rope->magnitude,
                  static_cast<float>(std::sqrt(1 + std::log(4.0) / std::log(128.0))));
  EXPECT_EQ(attention_of(scaled(R"({"rope_type":"default"})")).rope, attention_of(plain).rope);
}

TEST(HfConfig, SectionsSayWhichAxisTurnsAFrequency) {
  using Axes = std::vector<std::uint8_t>;
  const auto plain = read(plain_llama());
  const auto axes = [&](const char* text) {
    const auto config = read(with("rope_scaling", Json::parse(text)));
    EXPECT_EQ(attention_of(config).rope->inverse_frequency, attention_of(plain).rope->inverse_frequency);
    return attention_of(config).rope->axes;
  };
  EXPECT_EQ(axes(R"({"type":"mrope","mrope_section":[2,3,3]})"), (Axes{0, 0, 1, 1, 1, 2, 2, 2}));
  EXPECT_EQ(axes(R"({"type":"mrope","mrope_section":[4,2,2],"mrope_interleaved":true})"),
            (Axes{0, 1, 2, 0, 1, 2, 0, 0}));
  EXPECT_THAT(refusal(with("rope_scaling", Json::parse(R"({"type":"mrope","mrope_section":[2,3,4]})"))),
              HasSubstr("mrope_section must have at least three sections that add up to 8"));
}

TEST(HfConfig, BadScalingsAreRefusedByName) {
  const auto scaled = [](const char* text) { return refusal(with("rope_scaling", Json::parse(text))); };
  EXPECT_THAT(scaled(R"({"type":"spiral"})"), HasSubstr("rope_scaling.rope_type is \"spiral\""));
  EXPECT_THAT(scaled(R"({"type":"linear"})"), HasSubstr("rope_scaling.factor is missing"));
  EXPECT_THAT(scaled(R"({"type":"linear","factor":0})"), HasSubstr("rope_scaling.factor"));
  EXPECT_THAT(scaled(R"({"type":"yarn","factor":"4"})"), HasSubstr("rope_scaling.factor"));
  EXPECT_THAT(scaled(R"({"factor":2})"), HasSubstr("no rope_type"));
  EXPECT_THAT(scaled(R"({"type":"yarn","factor":4,"beta_fast":1,"beta_slow":2})"), HasSubstr("beta_fast"));
  EXPECT_THAT(scaled(R"({"type":"llama3","factor":8,"low_freq_factor":4,"high_freq_factor":4,
                         "original_max_position_embeddings":64})"),
              HasSubstr("high_freq_factor"));
  EXPECT_THAT(scaled(R"({"type":"longrope","short_factor":[1],"long_factor":[1]})"),
              HasSubstr("longrope has 1 factors"));
  EXPECT_THAT(scaled(R"({"type":"longrope","short_factor":[1,"x"],"long_factor":[1]})"), HasSubstr("short_factor[1]"));
  EXPECT_THAT(refusal(with("rope_scaling", 3)), HasSubstr("rope_scaling must be an object"));
  EXPECT_THAT(refusal(with("rope_theta", 0)), HasSubstr("rope_theta"));
}

TEST(HfConfig, RopeParametersPerLayerTypeMustAgree) {
  auto same = with("rope_parameters", Json::parse(R"({"full_attention":{"rope_type":"default","rope_theta":5e5},
                                                      "sliding_attention":{"rope_type":"default","rope_theta":5e5}})"));
  EXPECT_EQ(frequency(read(same), 1), static_cast<float>(1 / std::pow(5e5, 2.0 / 16)));
  same["rope_parameters"]["sliding_attention"]["rope_theta"] = 1e4;
  EXPECT_THAT(refusal(same), HasSubstr("rope_parameters differ"));
}

// Llama's class turns whole heads whatever its configuration says; GLM's turns a part.
TEST(HfConfig, ThePartOfAHeadThatTurnsHasARange) {
  for (const auto& [part, says] : {std::pair(0.01, "partial_rotary_factor"), std::pair(0.2, "even number"),
                                   std::pair(1.5, "partial_rotary_factor")}) {
    Json root = with("partial_rotary_factor", part);
    root["architectures"] = Json::array({"GlmForCausalLM"});
    root["model_type"] = "glm";
    EXPECT_THAT(refusal(root), HasSubstr(says)) << part;
  }
}

TEST(HfConfig, EveryNumberHasARangeAndTheRefusalNamesIt) {
  struct Case {
    const char* field;
    Json bad;
    const char* says;
  };
  const Case cases[] = {
      {"vocab_size", 0, "vocab_size must be an integer in 1..16777216, but is 0"},
      {"vocab_size", 16777217, "1..16777216"},
      {"vocab_size", "320", "but is the string \"320\""},
      {"hidden_size", -64, "hidden_size must be"},
      {"hidden_size", 64.0, "hidden_size must be an integer"},
      {"hidden_size", 65, "must divide hidden_size, which is 65"},
      {"intermediate_size", 1 << 21, "intermediate_size"},
      {"num_hidden_layers", 1025, "1..1024, but is 1025"},
      {"num_hidden_layers", 18446744073709551615u, "num_hidden_layers"},
      {"num_attention_heads", 0, "num_attention_heads"},
      {"num_attention_heads", 64, "num_attention_heads"},
      {"num_key_value_heads", 3, "num_key_value_heads is 3, but must divide num_attention_heads, which is 4"},
      {"num_key_value_heads", 8, "1..4"},
      {"head_dim", 17, "even number in 2..17"},
      {"head_dim", 4097, "head_dim"},
      {"max_position_embeddings", 0, "max_position_embeddings"},
      {"max_position_embeddings", 2147483648, "max_position_embeddings"},
      {"rms_norm_eps", 0, "rms_norm_eps"},
      {"rms_norm_eps", "1e-5", "rms_norm_eps"},
      {"hidden_act", "gallop", "hidden_act is \"gallop\""},
      {"tie_word_embeddings", 1, "tie_word_embeddings must be true or false"},
      {"eos_token_id", 320, "eos_token_id is 320, but the vocabulary has 320"},
      {"eos_token_id", "2", "eos_token_id"},
      {"eos_token_id", Json::array({2, -2}), "eos_token_id"},
      {"bos_token_id", 99999999999, "bos_token_id"},
      {"quantization_config", Json::object(), "quantization_config.quant_method is missing"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(refusal(with(c.field, c.bad)), HasSubstr(c.says)) << c.field << " = " << c.bad.dump();
  }
  for (const char* field :
       {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"}) {
    EXPECT_THAT(refusal(without(field)), HasSubstr(std::string(field) + " is missing"));
  }
}

TEST(HfConfig, AttentionMustFitTheWidthLimit) {
  auto root = with("head_dim", 4096);
  root["num_attention_heads"] = 512;
  EXPECT_THAT(refusal(root), HasSubstr("more than the limit of 1048576"));
}

TEST(HfConfig, UnknownArchitecturesListTheNearestAndWhatIsNotUnderstood) {
  auto unknown = with("architectures", Json::array({"Qwen33ForCausalLM"}));
  unknown["spiral_factor"] = 3;
  EXPECT_THAT(refusal(unknown), HasSubstr("\"Qwen33ForCausalLM\", which is not supported"));
  EXPECT_THAT(refusal(unknown), HasSubstr("the nearest are qwen3 (Qwen3ForCausalLM)"));
  EXPECT_THAT(refusal(unknown), HasSubstr("would not understand spiral_factor"));
  EXPECT_THAT(refusal(with("architectures", Json::array({"LlamaForVision"}))), HasSubstr("not supported"));
  EXPECT_THAT(refusal(with("architectures", Json::array({7}))), HasSubstr("architectures[0] must be a string"));
  auto by_type = without("architectures");
  EXPECT_THAT(refusal(by_type), HasSubstr("model_type is missing"));
  by_type["model_type"] = "qwen3";
  EXPECT_EQ(read(by_type)->architecture, "qwen3");
  by_type["model_type"] = "spiral";
  EXPECT_THAT(refusal(by_type), HasSubstr("model_type is \"spiral\""));
}

TEST(HfConfig, TextModelsOfLargerOnesAreReadFromTheirObject) {
  Json whole = {
      {"architectures", {"Qwen3ForConditionalGeneration"}}, {"tie_word_embeddings", true}, {"hidden_size", 7}};
  whole["text_config"] = plain_llama();
  whole["text_config"].erase("architectures");
  whole["text_config"]["model_type"] = "qwen3";
  const auto config = read(whole);
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->spec.hidden, 64);
  EXPECT_TRUE(config->spec.tied_head);
}

TEST(HfConfig, HeadsOtherThanTheLanguageModelAreTold) {
  EXPECT_EQ(read(with("architectures", Json::array({"Qwen2Model"})))->head, Head::none);
  auto scorer = with("architectures", Json::array({"LlamaForSequenceClassification"}));
  EXPECT_EQ(read(scorer)->labels, 2);
  scorer["id2label"] = {{"0", "LABEL_0"}};
  EXPECT_EQ(read(scorer)->head, Head::classification);
  EXPECT_EQ(read(scorer)->labels, 1);
}

TEST(HfConfig, WindowsFollowEachFamilysRule) {
  auto mistral = with("architectures", Json::array({"MistralForCausalLM"}));
  mistral["sliding_window"] = 24;
  EXPECT_EQ(windows(read(mistral)), (std::vector<std::int64_t>{24, 24, 24}));
  mistral["sliding_window"] = nullptr;
  EXPECT_EQ(windows(read(mistral)), (std::vector<std::int64_t>{0, 0, 0}));
  EXPECT_EQ(windows(read(with("sliding_window", 24))), (std::vector<std::int64_t>{0, 0, 0}));  // Llama has none

  auto qwen = with("architectures", Json::array({"Qwen2ForCausalLM"}));
  qwen["sliding_window"] = 24;
  qwen["max_window_layers"] = 1;
  qwen["use_sliding_window"] = false;
  EXPECT_EQ(windows(read(qwen)), (std::vector<std::int64_t>{0, 0, 0}));
  qwen["use_sliding_window"] = true;
  EXPECT_EQ(windows(read(qwen)), (std::vector<std::int64_t>{0, 24, 24}));
  qwen["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention"};
  EXPECT_EQ(windows(read(qwen)), (std::vector<std::int64_t>{24, 0, 24}));
}

TEST(HfConfig, BiasesFollowEachFamilysRule) {
  auto llama = with("attention_bias", true);
  llama["mlp_bias"] = true;
  EXPECT_TRUE(attention_of(read(llama)).qkv_bias && attention_of(read(llama)).out_bias && mlp_of(read(llama)).bias);
  const auto qwen2 = read(with("architectures", Json::array({"Qwen2ForCausalLM"})));
  EXPECT_TRUE(attention_of(qwen2).qkv_bias);
  EXPECT_FALSE(attention_of(qwen2).out_bias);
  EXPECT_FALSE(attention_of(read(with("architectures", Json::array({"Qwen3ForCausalLM"})))).qkv_bias);
}

TEST(HfConfig, MinusOneStandsForNoToken) {
  auto root = with("eos_token_id", -1);
  root["pad_token_id"] = -1;
  EXPECT_TRUE(read(root)->eos.empty());
  EXPECT_EQ(read(root)->pad, std::nullopt);
}

TEST(HfConfig, TextThatIsNotJsonIsRefusedWithItsPlace) {
  EXPECT_THAT(read_hf_config("{").error().message, HasSubstr("config.json: JSON, byte 1"));
  EXPECT_THAT(read_hf_config("[]").error().message, HasSubstr("must be an object"));
  EXPECT_THAT(read_hf_config("").error().message, HasSubstr("config.json"));
}

TEST(HfConfig, RandomlyChangedFieldsNeverCrash) {
  std::mt19937_64 random(testing::seed());
  const std::vector<Json> odd = {
      nullptr,    true, -1,     0,     1,  2,      3,   1 << 20,       INT64_MAX,        INT64_MIN,
      UINT64_MAX, 0.5,  -1e300, 1e300, "", "yarn", "x", Json::array(), Json::array({1}), Json::object()};
  Json base = with("rope_scaling", Json::parse(R"({"rope_type":"yarn","factor":2,"original_max_position_embeddings":9,
    "beta_fast":3,"beta_slow":1,"short_factor":[1],"long_factor":[1],"low_freq_factor":1,"high_freq_factor":2})"));
  for (const char* field :
       {"head_dim", "layer_types", "sliding_window", "use_sliding_window", "max_window_layers", "partial_rotary_factor",
        "rope_theta", "pad_token_id", "tie_word_embeddings", "attention_bias", "quantization_config", "rope_parameters",
        "num_labels", "id2label", "model_type"}) {
    base[field] = nullptr;
  }
  const std::vector<std::string> kinds = {"linear", "dynamic", "yarn", "llama3", "longrope", "default"};
  const std::vector<std::string> classes = {"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForSequenceClassification",
                                            "Qwen3Model"};
  int accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    Json root = base;
    root["architectures"][0] = classes[random() % classes.size()];
    root["rope_scaling"]["rope_type"] = kinds[random() % kinds.size()];
    for (int changes = static_cast<int>(random() % 4); changes >= 0; --changes) {
      Json& where = random() % 3 == 0 && root["rope_scaling"].is_object() ? root["rope_scaling"] : root;
      if (where.empty()) continue;
      std::next(where.begin(), static_cast<std::ptrdiff_t>(random() % where.size())).value() =
          odd[random() % odd.size()];
    }
    auto config = read_hf_config(root.dump());
    if (!config.ok()) {
      ASSERT_THAT(config.error().message, HasSubstr("config.json")) << root.dump();
      continue;
    }
    ++accepted;
    ASSERT_FALSE(config->spec.layers.empty());
    const Attention& a = attention_of(config);
    ASSERT_TRUE(a.rope->dims() % 2 == 0 && a.rope->dims() >= 2 && a.rope->dims() <= a.head_dim);
    ASSERT_EQ(a.heads % a.kv_heads, 0);
  }
  EXPECT_GT(accepted, 100);
}

TEST(GenerationConfig, ReadsWhatItProposes) {
  auto made =
      read_generation_config(R"({"bos_token_id":1,"eos_token_id":[2,7,2],"do_sample":true,"temperature":0.7,"top_p":0.8,
                                         "top_k":20,"repetition_penalty":1.05,"max_new_tokens":512,"unknown":[]})");
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->eos, (std::vector<TokenId>{2, 7}));
  EXPECT_EQ(made->do_sample, true);
  EXPECT_EQ(made->temperature, 0.7);
  EXPECT_EQ(made->top_p, 0.8);
  EXPECT_EQ(made->top_k, 20);
  EXPECT_EQ(made->repetition_penalty, 1.05);
  EXPECT_EQ(made->min_p, std::nullopt);
  EXPECT_THAT(read_generation_config(R"({"top_p":2})").error().message, HasSubstr("generation_config.json: top_p"));
}

TEST(GenerationConfig, AFolderWithoutOneHasNoProposals) {
  testing::TempFolder folder;
  auto made = load_generation_config(folder.path());
  ASSERT_TRUE(made.ok());
  EXPECT_TRUE(made->eos.empty());
  folder.write("generation_config.json", R"({"eos_token_id":5})");
  EXPECT_EQ(load_generation_config(folder.path())->eos, std::vector<TokenId>{5});
  EXPECT_EQ(load_hf_config(folder.path()).error().kind, Error::Kind::not_found);
}

}  // namespace
}  // namespace espalier::hf_config_test
