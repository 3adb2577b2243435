// Which tower belongs to a model, by names as they are published.
#include "tensor/file/gguf_names.h"

#include <gtest/gtest.h>

#include <vector>

namespace espalier::gguf_names_test {
namespace {

using Names = std::vector<std::string>;

TEST(GgufNames, ATowerHasTheWordInItsName) {
  for (const char* name : {"mmproj-model-f16.gguf", "mmproj-BF16.gguf", "gemma-3-4b-it.mmproj-Q8_0.gguf",
                           "MMPROJ-F16.GGUF", "q/mmproj_model.gguf", "SmolVLM-mmproj.gguf"})
    EXPECT_TRUE(is_mmproj_name(name)) << name;
  for (const char* name : {"model.gguf", "mmproj/model.gguf", "mmproj.safetensors", "summmprojection.gguf", "mmproj"})
    EXPECT_FALSE(is_mmproj_name(name)) << name;
}

TEST(GgufNames, TheOnlyModelOfAFolderHasItsTowerWhateverThatIsCalled) {
  EXPECT_EQ(mmproj_of_model("ggml-model-q4_k.gguf", Names{"ggml-model-q4_k.gguf", "mmproj-model-f16.gguf"}),
            "mmproj-model-f16.gguf");
  // Types and parts are no other models.
  EXPECT_EQ(mmproj_of_model("Qwen2.5-VL-7B-Instruct-Q4_K_M.gguf",
                            Names{"Qwen2.5-VL-7B-Instruct-Q4_K_M.gguf", "Qwen2.5-VL-7B-Instruct-UD-IQ4_XS.gguf",
                                  "Qwen2.5-VL-7B-Instruct-BF16-00001-of-00002.gguf",
                                  "Qwen2.5-VL-7B-Instruct-BF16-00002-of-00002.gguf", "mmproj-other-F16.gguf"}),
            "mmproj-other-F16.gguf");
  EXPECT_EQ(mmproj_of_model("a.gguf", Names{"a.gguf"}), std::nullopt);
}

TEST(GgufNames, AmongSeveralModelsOnlyTheSameNameCounts) {
  const Names names = {"gemma-3-4b-it-Q4_K_M.gguf",     "gemma-3-12b-it-Q4_K_M.gguf",     "llama-3-8b.Q8_0.gguf",
                       "mmproj-gemma-3-4b-it-f16.gguf", "gemma-3-12b-it.mmproj-f16.gguf", "mmproj-model-f16.gguf"};
  EXPECT_EQ(mmproj_of_model(names[0], names), "mmproj-gemma-3-4b-it-f16.gguf");
  EXPECT_EQ(mmproj_of_model(names[1], names), "gemma-3-12b-it.mmproj-f16.gguf");
  EXPECT_EQ(mmproj_of_model(names[2], names), std::nullopt);
}

TEST(GgufNames, OfSeveralTowersTheBestTypeIsTaken) {
  EXPECT_EQ(mmproj_of_model("m-Q4_0.gguf", Names{"m-Q4_0.gguf", "mmproj-m-Q8_0.gguf", "mmproj-m-F32.gguf",
                                                 "mmproj-m-BF16.gguf", "mmproj-m-F16.gguf"}),
            "mmproj-m-F16.gguf");
  EXPECT_EQ(mmproj_of_model("m-Q4_0.gguf",
                            Names{"m-Q4_0.gguf", "mmproj-m-Q8_0.gguf", "mmproj-m-F32.gguf", "mmproj-m-BF16.gguf"}),
            "mmproj-m-BF16.gguf");
  // The same name before a better type.
  EXPECT_EQ(mmproj_of_model("m-Q4_0.gguf", Names{"m-Q4_0.gguf", "mmproj-n-F16.gguf", "mmproj-m-Q8_0.gguf"}),
            "mmproj-m-Q8_0.gguf");
}

}  // namespace
}  // namespace espalier::gguf_names_test
