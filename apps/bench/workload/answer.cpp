#include <cctype>
#include <cmath>
#include <cstdlib>

#include "bench/workload/workload.h"

namespace espalier::bench {
namespace {

bool digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

// "1,234.50" -> 1234.5; nullopt unless the whole text is one number.
std::optional<double> as_plain_number(std::string text) {
  std::erase(text, ',');
  if (text.empty()) return std::nullopt;
  for (const char c : text)
    if (!digit(c) && c != '.' && c != '-') return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return *end == '\0' ? std::optional(value) : std::nullopt;
}

std::optional<double> last_number(const std::string& text) {
  std::optional<double> last;
  for (std::size_t at = 0; at < text.size();) {
    if (!digit(text[at])) {
      ++at;
      continue;
    }
    std::size_t end = at;
    while (end < text.size() && (digit(text[end]) || ((text[end] == ',' || text[end] == '.') && end + 1 < text.size() &&
                                                      digit(text[end + 1]))))
      ++end;
    const bool negative = at > 0 && text[at - 1] == '-' && (at < 2 || !digit(text[at - 2]));
    if (const auto value = as_plain_number(text.substr(at, end - at))) last = negative ? -*value : *value;
    at = end;
  }
  return last;
}

// Lower case, words apart by one space, without punctuation and articles, a space at either end.
std::string plain_words(const std::string& text) {
  std::string out = " ", word;
  const auto put = [&] {
    if (!word.empty() && word != "a" && word != "an" && word != "the") out += word + ' ';
    word.clear();
  };
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isspace(byte))
      put();
    else if (!std::ispunct(byte))
      word += static_cast<char>(std::tolower(byte));
  }
  put();
  return out;
}

}  // namespace

std::optional<bool> is_answer(const Json& answer, const std::string& text) {
  if (answer.is_null()) return std::nullopt;
  if (answer.is_structured()) {
    const auto parsed = parse_json(text);
    if (!parsed.ok()) return false;
    return nlohmann::json(*parsed) == nlohmann::json(answer);  // the order of fields says nothing
  }
  const std::string wanted = answer.is_string() ? answer.get<std::string>() : answer.dump();
  if (text == wanted) return true;
  if (const auto number = as_plain_number(wanted)) {
    const auto found = last_number(text);
    return found && std::abs(*found - *number) <= 1e-9 * std::max(1.0, std::abs(*number));
  }
  const std::string words = plain_words(wanted);
  return words.size() > 1 && plain_words(text).find(words) != std::string::npos;
}

}  // namespace espalier::bench
