#include "model/config/gguf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "base/json/json.h"
#include "model/declared_blocks.h"
#include "model/program/builder.h"
#include "tensor/file/gguf_writer.h"
#include "testing/data.h"
#include "testing/temp_folder.h"

namespace espalier::gguf_config_test {
namespace {

using testing::attention_of;
using ::testing::HasSubstr;
using testing::mlp_of;

// A file with the metadata of a small model; `change` may add keys or leave out the plain ones.
Result<ModelConfig> read(const std::string& arch, const std::function<void(GgufWriter&)>& change,
                         const std::string& leave_out = "", const std::vector<std::string>& tensors = {}) {
  GgufWriter writer;
  writer.put("general.architecture", arch);
  const std::pair<const char*, std::uint32_t> numbers[] = {{"embedding_length", 64}, {"feed_forward_length", 160},
                                                           {"block_count", 3},       {"attention.head_count", 4},
                                                           {"context_length", 512},  {"vocab_size", 32}};
  for (const auto& [name, value] : numbers) {
    if (name != leave_out) writer.put(arch + "." + name, value);
  }
  if (leave_out != "eps") writer.put(arch + ".attention.layer_norm_rms_epsilon", 1e-5f);
  change(writer);
  writer.declare("token_embd.weight", DType::f32, {32, 4});
  for (const auto& name : tensors) writer.declare(name, DType::f32, {8});
  const testing::TempFolder folder;
  auto file = GgufFile::open(folder.write("m.gguf", writer.head() + std::string(32 * 16 + 32 * tensors.size(), '\0')));
  if (!file.ok()) return file.error();
  return read_gguf_config(*file);
}

std::string refusal(const std::string& arch, const std::function<void(GgufWriter&)>& change,
                    const std::string& leave_out = "") {
  auto config = read(arch, change, leave_out);
  if (config.ok()) return "accepted";
  EXPECT_EQ(config.error().kind, Error::Kind::bad_file);
  EXPECT_THAT(config.error().message, HasSubstr("m.gguf"));
  return config.error().message;
}

void nothing(GgufWriter&) {}

TEST(GgufConfig, ReadsWhatAFileProposesForSampling) {
  const testing::TempFolder folder;
  const auto generation = [&](const std::function<void(GgufWriter&)>& fill) {
    GgufWriter writer;
    writer.put("general.architecture", "llama");
    fill(writer);
    auto file = GgufFile::open(folder.write("m.gguf", writer.head()));
    EXPECT_TRUE(file.ok()) << file.error().message;
    return read_gguf_generation(*file);
  };
  const GenerationDefaults all = generation([](GgufWriter& w) {
    w.put("general.sampling.temp", 0.6f);
    w.put("general.sampling.top_p", 0.95f);
    w.put("general.sampling.min_p", 0.01f);
    w.put("general.sampling.top_k", 20u);
    w.put("general.sampling.penalty_repeat", 1.05f);
  });
  EXPECT_EQ(all.temperature, 0.6);
  EXPECT_EQ(all.top_p, 0.95);
  EXPECT_EQ(all.min_p, 0.01);
  EXPECT_EQ(all.top_k, 20);
  EXPECT_EQ(all.repetition_penalty, 1.05);
  const GenerationDefaults wrong = generation([](GgufWriter& w) {
    w.put("general.sampling.temp", -1.0f);
    w.put("general.sampling.top_k", "many");
    w.put("general.sampling.top_p", std::numeric_limits<float>::quiet_NaN());
  });
  EXPECT_EQ(wrong.temperature, std::nullopt);
  EXPECT_EQ(wrong.top_k, std::nullopt);
  EXPECT_EQ(wrong.top_p, std::nullopt);
  EXPECT_EQ(generation(nothing).temperature, std::nullopt);
}

TEST(GgufConfig, ReadsAPlainLlamaWithDefaults) {
  auto config = read("llama", nothing);
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->vocabulary, 32);
  EXPECT_EQ(attention_of(config).kv_heads, 4);
  EXPECT_EQ(attention_of(config).head_dim, 16);
  EXPECT_EQ(attention_of(config).rope->dims(), 16);
  EXPECT_EQ(attention_of(config).rope->inverse_frequency[1], static_cast<float>(1 / std::pow(10000.0, 2.0 / 16)));
  EXPECT_TRUE(attention_of(config).pairs_in_gguf);
  EXPECT_EQ(config->spec.layers.size(), 3u);
}

TEST(GgufConfig, SectionsSayWhichAxisTurnsAFrequency) {
  using Axes = std::vector<std::uint8_t>;
  const auto axes = [](const std::string& arch, std::vector<std::int32_t> sections) {
    const auto config = read(arch, [&](GgufWriter& w) {
      w.put(arch + ".rope.dimension_sections", std::span<const std::int32_t>(sections));
    });
    EXPECT_TRUE(config.ok()) << config.error().message;
    return config.ok() ? attention_of(config).rope->axes : Axes{};
  };
  EXPECT_EQ(axes("qwen2vl", {2, 3, 3, 0}), (Axes{0, 0, 1, 1, 1, 2, 2, 2}));
  EXPECT_EQ(axes("qwen3vl", {4, 2, 2, 0}), (Axes{0, 1, 2, 0, 1, 2, 0, 0}));
  EXPECT_EQ(axes("qwen2vl", {0, 0, 0, 0}), Axes{});
}

TEST(GgufConfig, ScalingsAndWindowsAreRead) {
  auto yarn = read("qwen2", [](GgufWriter& w) {
    w.put("qwen2.rope.scaling.type", "yarn");
    w.put("qwen2.rope.scaling.factor", 4.0f);
    w.put("qwen2.rope.scaling.original_context_length", 128u);
    w.put("qwen2.attention.sliding_window", 24u);
    w.put("qwen2.rope.freq_base", 1e6f);
  });
  ASSERT_TRUE(yarn.ok()) << yarn.error().message;
  EXPECT_FLOAT_EQ(attention_of(yarn).rope->magnitude, static_cast<float>(0.1 * std::log(4.0) + 1));
  EXPECT_EQ(attention_of(yarn).rope->inverse_frequency[7], static_cast<float>(1 / std::pow(1e6, 14.0 / 16) / 4));
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(attention_of(yarn, i).visibility.size, 24);
  const auto linear = read("llama", [](GgufWriter& w) { w.put("llama.rope.scale_linear", 4.0f); });
  EXPECT_EQ(attention_of(linear).rope->inverse_frequency[0], 0.25f);
  EXPECT_THAT(refusal("llama", [](GgufWriter& w) { w.put("llama.rope.scaling.type", "spiral"); }),
              HasSubstr("rope.scaling.type"));
}

TEST(GgufConfig, EndTokensAreCollected) {
  auto config = read("llama", [](GgufWriter& w) {
    w.put("tokenizer.ggml.bos_token_id", 1u);
    w.put("tokenizer.ggml.eos_token_id", 2u);
    w.put("tokenizer.ggml.eot_token_id", 5u);
    w.put("tokenizer.ggml.eom_token_id", 2u);
    w.put("tokenizer.ggml.padding_token_id", UINT32_MAX);
  });
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->bos, 1);
  EXPECT_EQ(config->eos, (std::vector<TokenId>{2, 5}));
  EXPECT_EQ(config->pad, std::nullopt);
}

TEST(GgufConfig, OneNumberPerLayerIsTakenWhereAllAgree) {
  const std::vector<std::int32_t> same = {160, 160, 160}, different = {160, 128, 160};
  EXPECT_EQ((read(
                 "llama", [&](GgufWriter& w) { w.put("llama.feed_forward_length", same); }, "feed_forward_length"))
                .value()
                .spec.layers.size(),
            3u);
  EXPECT_THAT(
      refusal(
          "llama", [&](GgufWriter& w) { w.put("llama.feed_forward_length", different); }, "feed_forward_length"),
      HasSubstr("differs between layers"));
}

TEST(GgufConfig, WrongOrMissingKeysAreNamed) {
  const auto key = [](const char* name, auto value) {
    return refusal("llama", [=](GgufWriter& w) { w.put(std::string("llama.") + name, value); }, name);
  };
  EXPECT_THAT(key("block_count", 0u), HasSubstr("llama.block_count must be an integer in 1..1024, but is 0"));
  EXPECT_THAT(key("block_count", 4000000000u), HasSubstr("llama.block_count"));
  EXPECT_THAT(key("block_count", "3"), HasSubstr("but is the string \"3\""));
  EXPECT_THAT(key("block_count", -3), HasSubstr("but is -3"));
  EXPECT_THAT(key("embedding_length", 66u), HasSubstr("must divide llama.embedding_length, which is 66"));
  EXPECT_THAT(key("attention.head_count", 5u), HasSubstr("llama.attention.head_count"));
  EXPECT_THAT(key("attention.head_count_kv", 3u), HasSubstr("must divide"));
  EXPECT_THAT(key("attention.key_length", 15u), HasSubstr("even"));
  EXPECT_THAT(key("rope.dimension_count", 32u), HasSubstr("rope.dimension_count"));
  EXPECT_THAT(key("rope.freq_base", 0.0f), HasSubstr("rope.freq_base"));
  EXPECT_THAT(key("vocab_size", 33u), HasSubstr("token_embd.weight has 32 rows"));
  EXPECT_THAT(refusal("llama", [](GgufWriter& w) { w.put("tokenizer.ggml.eos_token_id", 32u); }),
              HasSubstr("has 32 tokens"));
  for (const char* name : {"embedding_length", "feed_forward_length", "block_count", "attention.head_count"}) {
    EXPECT_THAT(refusal("llama", nothing, name), HasSubstr(std::string("llama.") + name + " is missing"));
  }
  EXPECT_THAT(refusal("lama", nothing), HasSubstr("\"lama\", which is not supported"));
  EXPECT_THAT(refusal("lama", nothing), HasSubstr("the nearest are llama"));
}

TEST(GgufConfig, GoldenFilesAreReadAsTheirDocumentsSay) {
  int files = 0;
  for (const char* model : {"gguf-llama3", "gguf-smollm2", "gguf-qwen2", "gguf-qwen3"}) {
    const auto folder = testing::golden(std::string("gguf/") + model);
    if (folder.empty()) continue;
    const Json documented = Json::parse(testing::read_file(folder / "config.json"));
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() != ".gguf") continue;
      auto file = GgufFile::open(entry.path());
      ASSERT_TRUE(file.ok()) << file.error().message;
      auto config = read_gguf_config(*file);
      ASSERT_TRUE(config.ok()) << config.error().message;
      EXPECT_EQ(config->vocabulary, documented["vocab_size"]);
      EXPECT_EQ(config->spec.hidden, documented["hidden_size"]);
      EXPECT_EQ(mlp_of(config).inner, documented["intermediate_size"]);
      EXPECT_EQ(config->spec.layers.size(), documented["num_hidden_layers"]);
      EXPECT_EQ(attention_of(config).heads, documented["num_attention_heads"]);
      EXPECT_EQ(attention_of(config).kv_heads, documented["num_key_value_heads"]);
      EXPECT_NEAR(config->spec.norm.eps, documented["rms_norm_eps"].get<double>(), 1e-12);
      EXPECT_EQ(config->context_length, documented["max_position_embeddings"]);
      EXPECT_EQ(config->eos, std::vector<TokenId>{2});
      ++files;
    }
  }
  std::printf("%d golden GGUF files read\n", files);
  EXPECT_GE(files, 15);
}

}  // namespace
}  // namespace espalier::gguf_config_test
