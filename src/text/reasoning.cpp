#include "text/reasoning.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace espalier {
namespace {

constexpr std::array kMarks{
    ReasoningMarks{"deepseek-r1", "<think>", "</think>", true},
    ReasoningMarks{"deepseek-v3", "<think>", "</think>", false},
    ReasoningMarks{"glm45", "<think>", "</think>", false},
    ReasoningMarks{"kimi", "◁think▷", "◁/think▷", false},
    ReasoningMarks{"kimi_k2", "<think>", "</think>", true},
    ReasoningMarks{"minimax", "<think>", "</think>", true},
    ReasoningMarks{"mistral", "[THINK]", "[/THINK]", false},
    ReasoningMarks{"qwen3", "<think>", "</think>", false},
    ReasoningMarks{"qwen3-thinking", "<think>", "</think>", true},
    ReasoningMarks{"step3", "<think>", "</think>", true},
};
constexpr std::string_view kBlanks = " \t\r\n", kLineEnds = "\r\n";

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::size_t first_other(std::string_view text, std::string_view than) {
  return std::min(text.find_first_not_of(than), text.size());
}

// Bytes at the end of a text that may turn out to be blanks before the mark, or the beginning of it.
std::size_t undecided(std::string_view text, std::string_view mark) {
  std::size_t begun = std::min(text.size(), mark.size() - 1);
  while (begun > 0 && !mark.starts_with(text.substr(text.size() - begun))) --begun;
  text.remove_suffix(begun);
  const std::size_t last = text.find_last_not_of(kBlanks);
  return begun + (last == text.npos ? text.size() : text.size() - last - 1);
}

}  // namespace

std::string reasoning_names() {
  std::string names;
  for (const ReasoningMarks& marks : kMarks) names += fmt::format("{}{}", names.empty() ? "" : ", ", marks.name);
  return names;
}

Result<ReasoningMarks> reasoning_marks(std::string_view name, std::string field) {
  const auto* marks = std::ranges::find(kMarks, std::string_view(lower(name)), &ReasoningMarks::name);
  if (marks != kMarks.end()) return *marks;
  return bad_request(fmt::format("{} {} is not known; known are {}", field, name, reasoning_names()), field);
}

Reasoned split_reasoning(std::string_view text, const ReasoningMarks& marks) {
  ReasoningSplitter splitter(marks);
  Reasoned out = splitter.feed(text);
  Reasoned rest = splitter.finish();
  out.thinking += rest.thinking;
  out.answer += rest.answer;
  return out;
}

Reasoned ReasoningSplitter::feed(std::string_view piece) {
  Reasoned out;
  held_ += piece;
  if (at_ == At::start && !leave_start()) return out;
  if (at_ == At::thinking && !leave_thinking(out.thinking)) return out;
  if (at_ == At::behind && !leave_behind()) return out;
  out.answer = std::exchange(held_, {});
  return out;
}

// False: what is held may still become the mark.
bool ReasoningSplitter::leave_start() {
  const std::size_t blanks = first_other(held_, kBlanks);
  const std::string_view rest = std::string_view(held_).substr(blanks);
  if (rest.size() < marks_.begin.size() && marks_.begin.starts_with(rest)) return false;
  if (rest.starts_with(marks_.begin)) {
    held_.erase(0, blanks + marks_.begin.size());
    at_ = At::thinking;
  } else {
    at_ = marks_.begins_inside ? At::thinking : At::answer;
  }
  if (at_ == At::thinking) begins_ = true;
  return true;
}

// False: it goes on. Blanks at its beginning are dropped, those at its end with the mark.
bool ReasoningSplitter::leave_thinking(std::string& thinking) {
  if (begins_) held_.erase(0, first_other(held_, kBlanks));
  if (begins_ && !held_.empty()) begins_ = false;
  const std::size_t end = held_.find(marks_.end);
  if (end == held_.npos) {
    const std::size_t certain = held_.size() - undecided(held_, marks_.end);
    thinking = held_.substr(0, certain);
    held_.erase(0, certain);
    return false;
  }
  thinking = held_.substr(0, end);
  thinking.erase(thinking.find_last_not_of(kBlanks) + 1);
  held_.erase(0, end + marks_.end.size());
  at_ = At::behind;
  return true;
}

bool ReasoningSplitter::leave_behind() {
  held_.erase(0, first_other(held_, kLineEnds));
  if (held_.empty()) return false;
  at_ = At::answer;
  return true;
}

Reasoned ReasoningSplitter::finish() {
  Reasoned out;
  std::string rest = std::exchange(held_, {});
  if (at_ == At::start && marks_.begins_inside) rest.erase(0, first_other(rest, kBlanks));
  const bool thought = at_ == At::thinking || (at_ == At::start && marks_.begins_inside);
  if (thought) rest.erase(rest.find_last_not_of(kBlanks) + 1);
  (thought ? out.thinking : out.answer) = std::move(rest);
  return out;
}

}  // namespace espalier
