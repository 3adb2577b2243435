#include "_facts.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <set>
#include <utility>

namespace example {
namespace {

std::set<std::string> words_of(const std::string& text) {
  std::set<std::string> words;
  std::string word;
  for (const char c : text + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!word.empty()) {
      words.insert(std::exchange(word, {}));
    }
  }
  return words;
}

}  // namespace

std::vector<std::string> facts() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(ESPALIER_EXAMPLES_DATA)) files.push_back(entry.path());
  std::ranges::sort(files);
  std::vector<std::string> lines;
  for (const auto& file : files) {
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);)
      if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

std::size_t common_words(const std::string& one, const std::string& other) {
  const std::set<std::string> known = words_of(other);
  return static_cast<std::size_t>(
      std::ranges::count_if(words_of(one), [&](const std::string& word) { return known.contains(word); }));
}

}  // namespace example
