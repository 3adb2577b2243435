// Folders of sentence-transformers, as they are and as somebody may write them.
#include "engine/load/sentence_transformer.h"

#include <gtest/gtest.h>

#include "testing/temp_folder.h"

namespace espalier::sentence_transformer_test {
namespace {

const std::string kModules = R"([{"idx":0,"path":"","type":"sentence_transformers.models.Transformer"},
  {"idx":1,"path":"1_Pooling","type":"sentence_transformers.models.Pooling"},
  {"idx":2,"path":"2_Dense","type":"sentence_transformers.models.Dense"},
  {"idx":3,"path":"3_Normalize","type":"sentence_transformers.models.Normalize"}])";

TEST(SentenceTransformer, AFolderWithoutModulesIsNone) {
  const testing::TempFolder folder;
  const auto read = read_sentence_transformer(folder.path());
  ASSERT_TRUE(read.ok());
  EXPECT_FALSE(read->has_value());
}

TEST(SentenceTransformer, ModulesPromptsAndLengthsAreRead) {
  const testing::TempFolder folder;
  folder.write("modules.json", kModules);
  folder.write("1_Pooling/config.json", R"({"pooling_mode_mean_tokens": true, "include_prompt": false})");
  folder.write("2_Dense/config.json", R"({"in_features": 4, "out_features": 6, "bias": false,
    "activation_function": "torch.nn.modules.activation.Tanh"})");
  folder.write("config_sentence_transformers.json", R"({"prompts": {"query": "q: "}, "default_prompt_name": "query"})");
  folder.write("sentence_bert_config.json", R"({"max_seq_length": 77, "do_lower_case": true})");
  const auto read = read_sentence_transformer(folder.path());
  ASSERT_TRUE(read.ok()) << read.error().message;
  const SentenceTransformer& made = **read;
  EXPECT_EQ(made.pooling, Pooling::mean);
  EXPECT_FALSE(made.pools_prompt);
  EXPECT_TRUE(made.normalised && made.lower_case);
  ASSERT_EQ(made.dense.size(), 1u);
  EXPECT_EQ(made.dense.front().outputs, 6);
  EXPECT_FALSE(made.dense.front().bias);
  EXPECT_EQ(made.dense.front().how.kind, ActivationKind::tanh);
  EXPECT_EQ(made.usual_prompt, "query");
  EXPECT_EQ(made.prompts.front().second, "q: ");
  EXPECT_EQ(made.longest, 77);
}

TEST(SentenceTransformer, WhatIsNotComputedIsRefused) {
  const testing::TempFolder folder;
  folder.write("modules.json", R"([{"path":"1_Pooling","type":"sentence_transformers.models.Pooling"}])");
  folder.write("1_Pooling/config.json", R"({"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": true})");
  EXPECT_EQ(read_sentence_transformer(folder.path()).error().kind, Error::Kind::unsupported);
  folder.write("modules.json", R"([{"path":"1_CNN","type":"sentence_transformers.models.CNN"}])");
  EXPECT_NE(read_sentence_transformer(folder.path()).error().message.find("CNN"), std::string::npos);
}

TEST(SentenceTransformer, HostileFilesAreRefusedWithTheirNames) {
  const testing::TempFolder folder;
  for (const char* text : {"{", "3", "[3]", R"([{"path":"../x","type":"a.Pooling"}])",
                           R"([{"path":4,"type":"a.Dense"}])", R"([{"path":"2_Dense","type":"a.Dense"}])"}) {
    folder.write("modules.json", text);
    EXPECT_FALSE(read_sentence_transformer(folder.path()).ok()) << text;
  }
  folder.write("modules.json", kModules);
  folder.write("1_Pooling/config.json", "{}");
  for (const char* text :
       {"{}", R"({"in_features": 4, "out_features": -1})", R"({"in_features": 1e99, "out_features": 3})",
        R"({"in_features": 4, "out_features": 4, "activation_function": "x.Snake"})"}) {
    folder.write("2_Dense/config.json", text);
    EXPECT_FALSE(read_sentence_transformer(folder.path()).ok()) << text;
  }
}

}  // namespace
}  // namespace espalier::sentence_transformer_test
