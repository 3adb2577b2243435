#include "text/answer/call_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace espalier {
namespace {

// Other names of rows.
struct Alias {
  std::string_view name, row;
};

constexpr Alias kAliases[] = {
    {"qwen", "hermes"},
    {"qwen25", "hermes"},
    {"trinity", "hermes"},
    {"granite4", "hermes"},
    {"ernie45", "hermes"},
    {"nemotron", "nemotron_json"},
    {"interns1", "internlm"},
    {"internlm2", "internlm"},
    {"apriel", "jamba"},
    {"hunyuan_a13b", "jamba"},
    {"llama3_json", "llama3"},
    {"llama4_json", "llama3"},
    {"apertus2509", "apertus"},
    {"cohere_command3", "cohere_command4"},
    {"deepseekv3", "deepseek_v3"},
    {"deepseekv31", "deepseek_v31"},
    {"deepseekv32", "deepseek_v32"},
    {"deepseekv4", "deepseek_v4"},
    {"qwen3_xml", "qwen3_coder"},
    {"step3p5", "qwen3_coder"},
    {"nanbeige", "qwen3_coder"},
    {"mimo", "qwen3_coder"},
    {"nemotron_3", "qwen3_coder"},
    {"minicpm", "minicpm5"},
    {"glm", "glm45"},
    {"ling3", "glm45"},
    {"poolside_v1", "glm45"},
    {"hy_v3", "hunyuan"},
    {"llama4_pythonic", "pythonic"},
    {"openai", "gpt_oss"},
};

const CallFormat* row(std::string_view name) {
  for (const CallFormat& format : call_formats())
    if (same_format_name(format.name, name)) return &format;
  return nullptr;
}

}  // namespace

bool same_format_name(std::string_view one, std::string_view other) {
  const auto plain = [](unsigned char c) { return c == '-' ? '_' : static_cast<char>(std::tolower(c)); };
  return std::ranges::equal(one, other, {}, plain, plain);
}

std::string call_format_names() {
  std::string names;
  for (const CallFormat& format : call_formats()) names += fmt::format("{}{}", names.empty() ? "" : ", ", format.name);
  for (const Alias& alias : kAliases) names += fmt::format(", {}", alias.name);
  return names;
}

Result<const CallFormat*> call_format(std::string_view name, std::string field) {
  if (const CallFormat* found = row(name)) return found;
  for (const Alias& alias : kAliases)
    if (same_format_name(alias.name, name)) return row(alias.row);
  return bad_request(fmt::format("{} {} is not known; known are {}", field, name, call_format_names()), field);
}

}  // namespace espalier
