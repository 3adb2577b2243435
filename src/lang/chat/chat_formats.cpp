#include "lang/chat/chat_formats.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "lang/chat/chat_format_texts.h"

namespace espalier::lang {
namespace {

using Turn = ChatFormat::Turn;

ChatFormat format(std::string name, Turn system, Turn user, Turn assistant) {
  ChatFormat made;
  made.name = std::move(name);
  made.roles = {{"system", std::move(system)}, {"user", std::move(user)}, {"assistant", std::move(assistant)}};
  return made;
}

// Turns between the same two marks, the role's name inside the first.
ChatFormat marked(std::string name, const std::string& before, const std::string& after, const std::string& end) {
  const auto turn = [&](const std::string& role) { return Turn{before + role + after, end}; };
  return format(std::move(name), turn("system"), turn("user"), turn("assistant"));
}

ChatFormat with(ChatFormat made, std::vector<std::string> stop, std::string image_token = "<image>") {
  made.stop = std::move(stop);
  made.image_token = std::move(image_token);
  return made;
}

ChatFormat saying(ChatFormat made, std::string_view default_system) {
  made.default_system = std::string(default_system);
  return made;
}

ChatFormat chatml(std::string name) {
  return with(marked(std::move(name), "<|im_start|>", "\n", "<|im_end|>\n"), {"<|im_end|>"});
}

ChatFormat llama3(std::string name, std::string image_token) {
  return with(marked(std::move(name), "<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>"), {"<|eot_id|>"},
              std::move(image_token));
}

ChatFormat llama2() {
  ChatFormat made = format("llama-2-chat", {"<<SYS>>\n", "\n<</SYS>>\n\n"}, {"[INST] ", " [/INST]"}, {"", " </s><s>"});
  made.style = ChatFormat::Style::llama2;
  return made;
}

ChatFormat minicpm(std::string name) {
  return with(format(std::move(name), {"", " "}, {"user:", " "}, {"assistant:", "</s>"}),
              {"<|im_end|>", "<|endoftext|>"}, "(<image>./</image>)");
}

ChatFormat hearing(ChatFormat made, std::string audio_token) {
  made.audio_token = std::move(audio_token);
  return made;
}

// DeepSeek's marks: full-width bars and U+2581 between words.
constexpr char kDeepSeekUser[] = "<\uff5cUser\uff5c>";
constexpr char kDeepSeekAssistant[] = "<\uff5cAssistant\uff5c>";
constexpr char kDeepSeekEnd[] = "<\uff5cend\u2581of\u2581sentence\uff5c>";

ChatFormat deepseek(std::string name, std::string image_token) {
  return with(format(std::move(name), {"", ""}, {kDeepSeekUser, ""}, {kDeepSeekAssistant, kDeepSeekEnd}),
              {kDeepSeekEnd}, std::move(image_token));
}

std::vector<ChatFormat> plain_formats() {
  const auto cohere = [](const char* role) {
    return Turn{fmt::format("<|START_OF_TURN_TOKEN|><|{}_TOKEN|>", role), "<|END_OF_TURN_TOKEN|>"};
  };
  return {
      format("default", {"SYSTEM:", "\n"}, {"USER:", "\n"}, {"ASSISTANT:", "\n"}),
      format("claude", {"", ""}, {"\n\nHuman: ", ""}, {"\n\nAssistant:", ""}),
      llama2(),
      with(format("mistral", {"[SYSTEM_PROMPT] ", " [/SYSTEM_PROMPT]"}, {"[INST] ", " [/INST]"}, {"", " </s><s>"}),
           {"</s>"}, "[IMG]"),
      llama3("llama-3-instruct", "<|image|>"),
      llama3("llama-3-instruct-llava", "<image>\n"),
      with(marked("llama-4", "<|header_start|>", "<|header_end|>\n\n", "<|eot|>"), {"<|eot|>"}, "<|image|>"),
      hearing(with(format("gemma-it", {"", ""}, {"<start_of_turn>user\n", "<end_of_turn>\n"},
                          {"<start_of_turn>model\n", "<end_of_turn>\n"}),
                   {}, "<start_of_image>"),
              "<start_of_audio>"),
      format("gemma-4-it", {"", ""}, {"<|turn>user\n", "<turn|>\n"}, {"<|turn>assistant\n", "<turn|>\n"}),
      format("c4ai-command-r", cohere("SYSTEM"), cohere("USER"), cohere("CHATBOT")),
      with(marked("granite-3-instruct", "<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>"),
           {"<|end_of_text|>"}),
      deepseek("deepseek-v3", "<image>"),
      deepseek("janus-pro", "<image_placeholder>\n"),
      deepseek("janus", "<image_placeholder>\n"),
      with(marked("glm-4v", "<|", "|>\n", "\n"), {"<|user|>", "<|endoftext|>", "<|observation|>"}, "<|image|>"),
      minicpm("minicpmv"),
      hearing(minicpm("minicpmo"), "(<audio>./</audio>)"),
  };
}

std::vector<ChatFormat> chatml_formats() {
  constexpr char kHelpful[] = "You are a helpful assistant.";
  const std::vector<std::string> intern_stop = {"<|im_end|>", "<|action_end|>"};
  return {
      chatml("chatml"),
      saying(with(chatml("chatml-llava"), {"<|im_end|>"}, "<image>\n"), kHelpful),
      saying(chatml("qwen"), kHelpful),
      saying(with(chatml("qwen2-vl"), {"<|im_end|>"}, "<|vision_start|><|image_pad|><|vision_end|>"), kHelpful),
      with(format("yi-1.5", {"", ""}, {"<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"},
                  {"", "<|im_end|>\n"}),
           {"<|im_end|>"}),
      saying(with(chatml("internvl-2-5"), intern_stop), kInternVlSystem),
      saying(with(chatml("interns1"), intern_stop), kInternS1System),
      saying(with(format("dbrx-instruct", {"<|im_start|>system\n", "<|im_end|>"},
                         {"\n<|im_start|>user\n", "<|im_end|>"}, {"\n<|im_start|>assistant\n", "<|im_end|>"}),
                  {"<|im_end|>"}),
             kDbrxSystem),
      saying(with(format("vicuna_v1.1", {"", " "}, {"USER:", " "}, {"ASSISTANT:", "</s>"}), {}, " <image>\n"),
             kVicunaSystem),
      saying(with(format("yi-vl", {"", "\n\n"}, {"### Human:", "\n"}, {"### Assistant:", "\n"}), {},
                  " <image_placeholder>\n"),
             kYiVlSystem),
  };
}

const std::vector<ChatFormat>& formats() {
  static const std::vector<ChatFormat> all = [] {
    auto made = plain_formats();
    for (auto& more : chatml_formats()) made.push_back(std::move(more));
    return made;
  }();
  return all;
}

struct PathRule {
  std::array<std::string_view, 2> parts;  // that the path holds, one behind the other
  std::string_view format;
  std::string_view unless = {};  // it holds this
};

constexpr PathRule kPathRules[] = {
    {{"deepseek-v3"}, "deepseek-v3", "base"},
    {{"deepseek-r1"}, "deepseek-v3", "base"},
    {{"orion"}, "claude"},
    {{"janus"}, "janus-pro"},
    {{"dbrx", "instruct"}, "dbrx-instruct"},
    {{"vicuna"}, "vicuna_v1.1"},
    {{"llava-v1.5"}, "vicuna_v1.1"},
    {{"llava-next-video-7b"}, "vicuna_v1.1"},
    {{"llama-2", "chat"}, "llama-2-chat"},
    {{"codellama", "instruct"}, "llama-2-chat"},
    {{"pixtral"}, "mistral"},
    {{"mistral", "instruct"}, "mistral"},
    {{"mixtral", "instruct"}, "mistral"},
    {{"llama-3", "instruct"}, "llama-3-instruct"},
    {{"llama-4", "instruct"}, "llama-4"},
    {{"tinyllama"}, "chatml"},
    {{"qwen", "vl"}, "qwen2-vl"},
    {{"glm-4", "v"}, "glm-4v"},
    {{"glm4v"}, "glm-4v"},
    {{"qwen", "chat"}, "qwen", "llava"},
    {{"qwen", "instruct"}, "qwen", "llava"},
    {{"llava-v1.6-34b"}, "chatml-llava"},
    {{"llava-v1.6-yi-34b"}, "chatml-llava"},
    {{"llava-next-video-34b"}, "chatml-llava"},
    {{"llava-onevision-qwen2"}, "chatml-llava"},
    {{"yi-vl"}, "yi-vl", "llava"},
    {{"yi-1.5", "chat"}, "yi-1.5"},
    {{"gemma-4", "it"}, "gemma-4-it"},
    {{"gemma", "it"}, "gemma-it"},
    {{"gemma-3"}, "gemma-it"},
    {{"minicpm-v"}, "minicpmv"},
    {{"minicpm-o"}, "minicpmo"},
    {{"c4ai-command-r"}, "c4ai-command-r"},
    {{"granite", "instruct"}, "granite-3-instruct"},
    {{"internvl2_5"}, "internvl-2-5"},
    {{"intern-s1"}, "interns1"},
    {{"interns1"}, "interns1"},
    {{"smollm", "instruct"}, "chatml"},
};

bool matches(const PathRule& rule, std::string_view path) {
  if (!rule.unless.empty() && path.find(rule.unless) != std::string_view::npos) return false;
  std::size_t at = 0;
  for (const std::string_view part : rule.parts) {
    at = path.find(part, at);
    if (at == std::string_view::npos) return false;
    at += part.size();
  }
  return true;
}

const ChatFormat* find_format(std::string_view name) {
  const auto found = std::ranges::find(formats(), name, &ChatFormat::name);
  return found == formats().end() ? nullptr : &*found;
}

}  // namespace

Result<ChatFormat> chat_format_named(std::string_view name) {
  if (const ChatFormat* known = find_format(name)) return *known;
  return bad_request(
      fmt::format("there is no chat format '{}'; there are {}", name, fmt::join(chat_format_names(), ", ")),
      "chat_template");
}

const ChatFormat& chat_format_of_path(std::string_view model_path) {
  std::string path(model_path);
  std::ranges::transform(path, path.begin(),
                         [](unsigned char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c); });
  for (const PathRule& rule : kPathRules)
    if (matches(rule, path)) return *find_format(rule.format);
  return *find_format("default");
}

std::vector<std::string> chat_format_names() {
  std::vector<std::string> names;
  for (const ChatFormat& known : formats()) names.push_back(known.name);
  return names;
}

}  // namespace espalier::lang

namespace espalier {

ChatFormat::Turn ChatFormat::turn(std::string_view role, std::size_t turns, bool system_first) const {
  const auto found = roles.find(role);
  if (found == roles.end()) return {};
  Turn turn = found->second;
  if (style != Style::llama2) return turn;
  const auto user = roles.find("user");
  if (role == "system" && turns == 0 && user != roles.end()) turn.begin = user->second.begin + turn.begin;
  if (role == "user" && turns == 1 && system_first) turn.begin.clear();
  return turn;
}

}  // namespace espalier
