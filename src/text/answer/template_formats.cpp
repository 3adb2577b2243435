// Which formats a chat template uses, by the marks that it writes: the first row whose words are all in it.
#include <array>

#include "text/answer/call_format.h"
#include "text/answer/thinking_format.h"

namespace espalier {
namespace {

struct TemplateRow {
  std::array<std::string_view, 2> words;
  std::string_view name;
};

constexpr TemplateRow kCallRows[] = {
    {{"<|channel|>", "<|message|>"}, "gpt_oss"},
    {{"<|tool_calls_section_begin|>"}, "kimi_k2"},
    {{"<｜DSML｜tool_calls>"}, "deepseek_v4"},
    {{"<｜DSML｜function_calls>"}, "deepseek_v32"},
    {{"<｜tool▁calls▁begin｜>", "```json"}, "deepseek_v3"},
    {{"<｜tool▁calls▁begin｜>"}, "deepseek_v31"},
    {{"<｜tool_calls_begin｜>", "steptml:invoke"}, "step3"},
    {{"<minimax:tool_call>"}, "minimax_m2"},
    {{"<seed:tool_call>"}, "seed_oss"},
    {{"<dots_function_call>"}, "dots"},
    {{"<longcat_tool_call>"}, "longcat"},
    {{"<TOOLCALL>"}, "nemotron_json"},
    {{"<|tool_call_start|>"}, "lfm2"},
    {{"<start_function_call>"}, "functiongemma"},
    {{"<|tool_call>"}, "gemma4"},
    {{"<|tools_prefix|>"}, "apertus"},
    {{"<|START_ACTION|>"}, "cohere_command4"},
    {{"<|action_start|>"}, "internlm"},
    {{"<tool_sep>", "<arg_key>"}, "hunyuan"},
    {{"</arg_key><arg_value>"}, "glm47"},
    {{"<arg_key>"}, "glm45"},
    {{"<tool_call>", "<function="}, "qwen3_coder"},
    {{"<function name=\"", "<param name=\""}, "minicpm5"},
    {{"[TOOL_CALLS]", "[ARGS]"}, "mistral"},
    {{"[TOOL_CALLS]"}, "mistral_array"},
    {{"<tool_call>"}, "hermes"},
    {{"<tool_calls>"}, "jamba"},
    {{"<function_calls>"}, "olmo3"},
    {{"<|python_start|>"}, "pythonic"},
    {{"<|python_tag|>"}, "llama3"},
    {{"{\"name\": function name, \"parameters\""}, "llama3"},
    {{"<|tool_call|>"}, "granite"},
    {{"<function_call>"}, "granite_20b_fc"},
    {{"functools["}, "phi4_mini_json"},
    {{"function call<|role_sep|>"}, "gigachat3"},
    {{"<|function_call|>"}, "gigachat3"},
};

constexpr TemplateRow kThinkingRows[] = {
    {{"<|channel|>", "<|message|>"}, "gpt_oss"},
    {{"◁think▷"}, "kimi"},
    {{"[THINK]"}, "mistral"},
    {{"<seed:think>"}, "seed_oss"},
    {{"<mm:think>"}, "minimax_m3"},
    {{"<|START_THINKING|>", "<|START_TEXT|>"}, "cohere_command4"},
    {{"<|START_THINKING|>"}, "cohere_command3"},
    {{"<|inner_prefix|>"}, "apertus2509"},
    {{"<|channel>"}, "gemma4"},
    {{"my thought process:"}, "granite"},
    {{"</think>", "<answer>"}, "hunyuan_a13b"},
    {{"</think>", "<response>"}, "ernie45"},
    {{"</think>", "<tool_sep>"}, "hunyuan"},
    {{"</think>", "<arg_key>"}, "glm45"},
    {{"</think>", "<minimax:tool_call>"}, "minimax_m2"},
    {{"<｜Assistant｜><think>"}, "deepseek_r1"},
    {{"</think>", "<｜Assistant｜>"}, "deepseek_v3"},
    {{"</think>"}, "qwen3"},
};

template <std::size_t N>
std::string_view first_row(const TemplateRow (&rows)[N], std::string_view source) {
  for (const TemplateRow& row : rows)
    if (source.find(row.words[0]) != source.npos && source.find(row.words[1]) != source.npos) return row.name;
  return {};
}

}  // namespace

const CallFormat* call_format_of(std::string_view template_source) {
  const std::string_view name = first_row(kCallRows, template_source);
  return name.empty() ? nullptr : call_format(name, "template").value();
}

const ThinkingFormat* thinking_format_of(std::string_view template_source) {
  const std::string_view name = first_row(kThinkingRows, template_source);
  return name.empty() ? nullptr : thinking_format(name, "template").value();
}

}  // namespace espalier
