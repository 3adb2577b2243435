#include "text/answer/thinking_format.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/answer/call_format.h"

namespace espalier {
namespace {

constexpr ThinkingFormat::Texts kThink = {"<think>"}, kThinkEnd = {"</think>"};

constexpr ThinkingFormat tagged(std::string_view name, bool begins_inside, bool calls_end_it) {
  return {
      .name = name, .begins = kThink, .ends = kThinkEnd, .begins_inside = begins_inside, .calls_end_it = calls_end_it};
}

constexpr ThinkingFormat kThinkingFormats[] = {
    tagged("deepseek_r1", true, false),
    tagged("deepseek_v3", false, true),
    tagged("deepseek_v4", false, false),
    tagged("glm45", false, true),
    tagged("glm47", false, true),
    tagged("holo2", true, false),
    tagged("hunyuan", false, true),
    tagged("hy_v3", false, true),
    tagged("interns1", false, true),
    tagged("kimi_k2", true, true),
    tagged("mimo", false, true),
    tagged("minimax", true, true),
    tagged("minimax_m2", true, true),
    tagged("nemotron_3", false, true),
    tagged("nemotron_v3", true, true),
    tagged("olmo3", true, false),
    tagged("poolside_v1", false, true),
    tagged("qwen3", false, true),
    tagged("qwen3_thinking", true, true),
    tagged("step3", true, false),
    tagged("step3p5", true, true),
    tagged("telechat4", false, false),
    {.name = "apertus2509", .begins = {"<|inner_prefix|>"}, .ends = {"<|inner_suffix|>"}, .calls_end_it = true},
    {.name = "cohere_command3",
     .begins = {"<|START_THINKING|>"},
     .ends = {"<|END_THINKING|>"},
     .begins_inside = true,
     .calls_end_it = true,
     .answer_begin = "<|START_RESPONSE|>",
     .answer_end = "<|END_RESPONSE|>"},
    {.name = "cohere_command4",
     .begins = {"<|START_THINKING|>"},
     .ends = {"<|END_THINKING|>"},
     .begins_inside = true,
     .calls_end_it = true,
     .answer_begin = "<|START_TEXT|>",
     .answer_end = "<|END_TEXT|>"},
    {.name = "ernie45",
     .begins = kThink,
     .ends = kThinkEnd,
     .begins_inside = true,
     .answer_begin = "<response>",
     .answer_end = "</response>"},
    {.name = "gemma4", .begins = {"<|channel>thought"}, .ends = {"<channel|>"}},
    {.name = "gpt_oss", .begins_inside = true, .harmony = true},
    {.name = "granite",
     .begins = {"Here is my thought process:", "Here's my thought process:"},
     .ends = {"Here is my response:", "Here's my response:"},
     .marks_are_text = true},
    {.name = "hunyuan_a13b",
     .begins = kThink,
     .ends = kThinkEnd,
     .answer_begin = "<answer>",
     .answer_end = "</answer>"},
    {.name = "kimi", .begins = {"◁think▷"}, .ends = {"◁/think▷"}},
    {.name = "minimax_append_think", .begins = kThink, .ends = kThinkEnd, .kept = true},
    {.name = "minimax_m3", .begins = {"<mm:think>"}, .ends = {"</mm:think>"}},
    {.name = "mistral", .begins = {"[THINK]"}, .ends = {"[/THINK]"}},
    {.name = "seed_oss", .begins = {"<seed:think>"}, .ends = {"</seed:think>"}, .begins_inside = true},
};

struct ThinkingAlias {
  std::string_view name, row;
};

constexpr ThinkingAlias kThinkingAliases[] = {{"openai_gptoss", "gpt_oss"},
                                              {"minimax_m2_append_think", "minimax_append_think"}};

}  // namespace

std::string thinking_format_names() {
  std::string names;
  for (const ThinkingFormat& format : kThinkingFormats)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", format.name);
  for (const ThinkingAlias& alias : kThinkingAliases) names += fmt::format(", {}", alias.name);
  return names;
}

Result<const ThinkingFormat*> thinking_format(std::string_view name, std::string field) {
  for (const ThinkingAlias& alias : kThinkingAliases)
    if (same_format_name(alias.name, name)) return thinking_format(alias.row, field);
  for (const ThinkingFormat& format : kThinkingFormats)
    if (same_format_name(format.name, name)) return &format;
  return bad_request(fmt::format("{} {} is not known; known are {}", field, name, thinking_format_names()), field);
}

std::span<const ThinkingFormat> thinking_formats() {
  return kThinkingFormats;
}

}  // namespace espalier
