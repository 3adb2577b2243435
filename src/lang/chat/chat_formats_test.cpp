#include "lang/chat/chat_formats.h"

#include <gtest/gtest.h>

namespace espalier::lang {
namespace {

// What a conversation reads under a format.
std::string written(const ChatFormat& format, const std::vector<std::pair<std::string, std::string>>& turns) {
  std::string text = format.text_begin;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const auto turn = format.turn(turns[i].first, i, turns[0].first == "system");
    text += turn.begin + turns[i].second + turn.end;
  }
  return text;
}

ChatFormat named(std::string_view name) {
  auto format = chat_format_named(name);
  EXPECT_TRUE(format.ok()) << name;
  return format.ok() ? *format : ChatFormat{};
}

TEST(ChatFormats, WriteTheTurnsOfAConversation) {
  EXPECT_EQ(written(named("default"), {{"system", "s"}, {"user", "u"}, {"assistant", "a"}}),
            "SYSTEM:s\nUSER:u\nASSISTANT:a\n");
  EXPECT_EQ(written(named("qwen"), {{"user", "u"}, {"assistant", "a"}}),
            "<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\na<|im_end|>\n");
  EXPECT_EQ(written(named("llama-3-instruct"), {{"user", "u"}}),
            "<|start_header_id|>user<|end_header_id|>\n\nu<|eot_id|>");
  EXPECT_EQ(written(named("yi-1.5"), {{"user", "u"}, {"assistant", "a"}}),
            "<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\na<|im_end|>\n");
}

TEST(ChatFormats, Llama2PutsTheSystemTextIntoTheFirstUserTurn) {
  const ChatFormat llama2 = named("llama-2-chat");
  EXPECT_EQ(written(llama2, {{"system", "s"}, {"user", "u"}, {"assistant", "a"}, {"user", "v"}}),
            "[INST] <<SYS>>\ns\n<</SYS>>\n\nu [/INST]a </s><s>[INST] v [/INST]");
  EXPECT_EQ(written(llama2, {{"user", "u"}, {"assistant", "a"}, {"user", "v"}}),
            "[INST] u [/INST]a </s><s>[INST] v [/INST]");
}

TEST(ChatFormats, AnUnknownRoleAddsNothing) {
  EXPECT_EQ(named("qwen").turn("tool", 1, false), ChatFormat::Turn{});
}

TEST(ChatFormats, AnUnknownNameIsAnErrorThatNamesTheOthers) {
  const auto format = chat_format_named("lama");
  ASSERT_FALSE(format.ok());
  EXPECT_EQ(format.error().field, "chat_template");
  for (const std::string& name : chat_format_names()) {
    EXPECT_NE(format.error().message.find(name), std::string::npos) << name;
    EXPECT_EQ(named(name).name, name);
    EXPECT_EQ(named(name).roles.size(), 3u) << name;
  }
  EXPECT_GE(chat_format_names().size(), 26u);
}

TEST(ChatFormats, TheFirstMatchingRuleDecides) {
  const std::pair<const char*, const char*> wanted[] = {
      {"/models/SmolLM2-135M-Instruct-Q4_1.gguf", "chatml"},
      {"meta-llama/Llama-2-7b-chat-hf", "llama-2-chat"},
      {"meta-llama/Meta-Llama-3-8B-Instruct", "llama-3-instruct"},
      {"meta-llama/Llama-4-Scout-17B-16E-Instruct", "llama-4"},
      {"mistralai/Mistral-7B-Instruct-v0.3", "mistral"},
      {"Qwen/Qwen2-VL-7B-Instruct", "qwen2-vl"},
      {"Qwen/Qwen2.5-7B-Instruct", "qwen"},
      {"Qwen/Qwen2.5-7B", "default"},
      {"liuhaotian/llava-v1.5-7b", "vicuna_v1.1"},
      {"lmms-lab/llava-onevision-qwen2-7b-ov-chat", "chatml-llava"},
      {"deepseek-ai/DeepSeek-V3", "deepseek-v3"},
      {"deepseek-ai/DeepSeek-V3-Base", "default"},
      {"deepseek-ai/Janus-Pro-7B", "janus-pro"},
      {"google/gemma-2-9b-it", "gemma-it"},
      {"google/gemma-4-9b-it", "gemma-4-it"},
      {"openbmb/MiniCPM-V-2_6", "minicpmv"},
      {"OpenGVLab/InternVL2_5-8B", "internvl-2-5"},
      {"internlm/Intern-S1", "interns1"},
      {"ibm-granite/granite-3.0-8b-instruct", "granite-3-instruct"},
      {"zai-org/GLM-4.1V-9B-Thinking", "glm-4v"},
      {"gpt2", "default"},
      {"", "default"},
  };
  for (const auto& [path, name] : wanted) EXPECT_EQ(chat_format_of_path(path).name, name) << path;
}

}  // namespace
}  // namespace espalier::lang
