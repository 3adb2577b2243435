#include "lang/reasoning.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace espalier::lang {
namespace {

struct Marks {
  std::string_view model_type, begin, end;
  bool begins_inside;
};
constexpr std::array kMarks{
    Marks{"deepseek-r1", "<think>", "</think>", true}, Marks{"deepseek-v3", "<think>", "</think>", false},
    Marks{"glm45", "<think>", "</think>", false},      Marks{"kimi", "◁think▷", "◁/think▷", false},
    Marks{"kimi_k2", "<think>", "</think>", true},     Marks{"minimax", "<think>", "</think>", true},
    Marks{"qwen3", "<think>", "</think>", false},      Marks{"qwen3-thinking", "<think>", "</think>", true},
    Marks{"step3", "<think>", "</think>", true},
};

std::string stripped(std::string_view text) {
  const auto from = text.find_first_not_of(" \t\r\n");
  if (from == text.npos) return {};
  return std::string(text.substr(from, text.find_last_not_of(" \t\r\n") - from + 1));
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

Result<Marks> marks_of(std::string_view model_type) {
  std::string names;
  for (const Marks& marks : kMarks) {
    if (marks.model_type == lower(model_type)) return marks;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", marks.model_type);
  }
  return bad_request(fmt::format("model_type {} is not known; known are {}", model_type, names), "model_type");
}

}  // namespace

Result<> check_reasoning_type(std::string_view model_type) {
  ESP_TRY(const Marks marks, marks_of(model_type));
  (void)marks;
  return success();
}

Result<Reasoned> split_reasoning(std::string_view text, std::string_view model_type) {
  ESP_TRY(const Marks marks, marks_of(model_type));
  const auto begin = text.find(marks.begin);
  if (begin == text.npos && !marks.begins_inside) return Reasoned{"", std::string(text)};
  if (begin != text.npos) text.remove_prefix(begin + marks.begin.size());
  const auto end = text.find(marks.end);
  if (end == text.npos) return Reasoned{stripped(text), ""};
  return Reasoned{stripped(text.substr(0, end)), stripped(text.substr(end + marks.end.size()))};
}

}  // namespace espalier::lang
