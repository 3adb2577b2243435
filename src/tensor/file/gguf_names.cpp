#include "tensor/file/gguf_names.h"

#include <algorithm>
#include <tuple>
#include <vector>

namespace espalier {
namespace {

constexpr std::string_view kEnding = ".gguf";
constexpr std::string_view kTower = "mmproj";

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

std::string_view file_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

// Lower-case words between dashes, points and blanks, without the ending.
std::vector<std::string> words_of(std::string_view path) {
  std::string name = lower(file_name(path));
  if (name.ends_with(kEnding)) name.resize(name.size() - kEnding.size());
  std::vector<std::string> words(1);
  for (const char c : name) {
    if (c != '-' && c != '.' && c != ' ')
      words.back() += c;
    else if (!words.back().empty())
      words.emplace_back();
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// "q4_k_m", "iq4_xs", "f16", "bf16", "fp16", "mxfp4", "ud" (which stands before a type), "i1".
bool is_type(std::string_view word) {
  constexpr std::string_view kWhole[] = {"ud", "i1", "imat", "f16", "f32", "bf16", "fp16", "fp32", "model"};
  if (std::ranges::find(kWhole, word) != std::end(kWhole) || word.starts_with("mxfp4")) return true;
  for (const std::string_view begin : {"q", "iq", "tq"})
    if (word.starts_with(begin) && word.size() > begin.size() && is_digit(word[begin.size()]) &&
        (word.size() == begin.size() + 1 || word[begin.size() + 1] == '_'))
      return true;
  return false;
}

// What is left of a name: of "mmproj-Gemma-3-4b-it-f16.gguf" and "gemma-3-4b-it-Q4_K_M.gguf" the same.
std::string core_of(std::string_view path) {
  std::vector<std::string> words = words_of(path);
  const auto is_number = [](const std::string& word) {
    return word.size() == 5 && std::ranges::all_of(word, is_digit);
  };
  if (words.size() > 3 && words[words.size() - 2] == "of" && is_number(words.back()) &&
      is_number(words[words.size() - 3]))
    words.resize(words.size() - 3);
  std::string core;
  for (const std::string& word : words)
    if (word != kTower && !is_type(word)) core += (core.empty() ? "" : "-") + word;
  return core;
}

int rank_of_type(std::string_view path) {
  constexpr std::string_view kBest[] = {"f16", "bf16", "f32", "q8_0"};
  const std::vector<std::string> words = words_of(path);
  int rank = 0;
  for (const std::string_view type : kBest) {
    if (std::ranges::find(words, type) != words.end()) return rank;
    ++rank;
  }
  return rank;
}

}  // namespace

bool is_mmproj_name(std::string_view path) {
  if (!lower(path).ends_with(kEnding)) return false;
  return std::ranges::any_of(words_of(path), [](const std::string& word) {
    return word == kTower || word.starts_with("mmproj_") || word.ends_with("_mmproj");
  });
}

std::optional<std::string> mmproj_of_model(std::string_view model, std::span<const std::string> names) {
  const std::string core = core_of(model);
  bool alone = true;
  for (const std::string& name : names)
    if (lower(name).ends_with(kEnding) && !is_mmproj_name(name) && core_of(name) != core) alone = false;
  const auto worth = [&](const std::string& name) {
    return std::tuple(core_of(name) != core, rank_of_type(name), name);
  };
  std::optional<std::string> best;
  for (const std::string& name : names) {
    if (!is_mmproj_name(name) || (!alone && core_of(name) != core)) continue;
    if (!best || worth(name) < worth(*best)) best = name;
  }
  return best;
}

}  // namespace espalier
