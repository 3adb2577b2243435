#include "grammar/rules/rule_cursor.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json/json.h"  // in_quotes
#include "text/utf8.h"

namespace espalier::grammar {
namespace {

bool is_rule_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool is_decimal(char c) {
  return c >= '0' && c <= '9';
}

bool is_ascii_punctuation(char c) {
  return c > ' ' && c < '\x7f' && !is_decimal(c) && (!is_rule_name_start(c) || c == '_');
}

int hexadecimal_value(char c) {
  if (is_decimal(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Letters of escapes and, at the same places, what they stand for; then what stands for itself.
struct EscapeTable {
  std::string_view letters, meanings, themselves;
};

// llama.cpp's escapes and xgrammar's together; \xHH is two digits in both families here, as llama.cpp reads it.
constexpr EscapeTable kEbnfEscapes = {"nrtfvbae0", {"\n\r\t\f\v\b\a\x1b\0", 9}, "\\\"'[]-?/"};
// Lark's (Python's) and llguidance's (JSON's).
constexpr EscapeTable kLarkEscapes = {"nrtfb", "\n\r\t\f\b", "\\\"'/"};

}  // namespace

Result<> RuleCursor::check_text(const RuleTextLimits& limits) const {
  if (text_.size() > limits.bytes)
    return too_complex(0, fmt::format("{} bytes of grammar; at most {}", text_.size(), limits.bytes));
  for (std::size_t at = 0; at < text_.size();) {
    const Utf8Step step = utf8_step(text_.substr(at));
    if (!step.valid) return invalid(at, "the text is not UTF-8 here");
    at += step.length;
  }
  return success();
}

bool RuleCursor::begins_line(std::size_t offset) const {
  while (offset > 0 && (text_[offset - 1] == ' ' || text_[offset - 1] == '\t')) --offset;
  return offset == 0 || text_[offset - 1] == '\n' || text_[offset - 1] == '\r';
}

bool RuleCursor::take(std::string_view expected) {
  if (!text_.substr(at_).starts_with(expected)) return false;
  at_ += expected.size();
  return true;
}

bool RuleCursor::skip_comment() {
  if (peek() != '#' && (dialect_ == RuleDialect::ebnf || peek() != '/' || peek(1) != '/')) return false;
  at_ = std::min(text_.find_first_of("\r\n", at_), text_.size());
  return true;
}

bool RuleCursor::skip_continuation() {
  if (dialect_ == RuleDialect::ebnf || peek() != '\\') return false;
  std::size_t end = at_ + 1;
  while (end < text_.size() && text_[end] == ' ') ++end;
  if (text_.substr(end).starts_with("\r\n")) ++end;
  if (end == text_.size() || text_[end] != '\n') return false;
  at_ = end + 1;
  return true;
}

void RuleCursor::skip_blanks(bool over_lines) {
  for (;;) {
    const char c = peek();
    if (c == ' ' || c == '\t' || (over_lines && (c == '\n' || c == '\r'))) {
      ++at_;
    } else if (!skip_comment() && !skip_continuation()) {
      return;
    }
  }
}

std::string_view RuleCursor::take_name() {
  const std::size_t begin = at_;
  if (!is_rule_name_start(peek())) return {};
  // Lark's "->" may follow a name without a space.
  while (is_rule_name_start(peek()) || is_decimal(peek()) || (peek() == '-' && peek(1) != '>')) ++at_;
  return text_.substr(begin, at_ - begin);
}

std::string_view RuleCursor::dotted_name() const {
  std::size_t length = 0;
  const auto is_part = [](char c) { return is_rule_name_start(c) || is_decimal(c) || c == '-' || c == '.'; };
  if (!is_rule_name_start(peek()) && peek() != '.') return {};
  while (length <= kLongestDottedName && is_part(peek(length))) ++length;
  return length <= kLongestDottedName ? text_.substr(at_, length) : std::string_view();
}

char32_t RuleCursor::take_character() {
  const Utf8Step step = utf8_step(text_.substr(at_));
  at_ += step.length;
  return step.character;
}

Result<char32_t> RuleCursor::take_hexadecimal(std::size_t digits, std::size_t where) {
  char32_t value = 0;
  for (std::size_t i = 0; i < digits; ++i) {
    const int digit = hexadecimal_value(peek(i));
    if (digit < 0) return invalid(where, fmt::format("this escape needs {} hexadecimal digits", digits));
    value = value << 4 | static_cast<char32_t>(digit);
  }
  at_ += digits;
  if (value >= 0xd800 && value <= 0xdfff)
    return invalid(where, "half of a surrogate pair is no character; write the whole one as \\U and eight digits");
  if (value > 0x10ffff) return invalid(where, "there is no character above U+10FFFF");
  return value;
}

Result<char32_t> RuleCursor::take_escape(bool in_class) {
  const std::size_t where = at_;
  const char letter = peek(1);
  const EscapeTable& table = dialect_ == RuleDialect::ebnf ? kEbnfEscapes : kLarkEscapes;
  if (text_.size() - at_ < 2) return invalid(where, "nothing follows the backslash");
  if (const auto i = table.letters.find(letter); i != std::string_view::npos) {
    at_ += 2;
    return static_cast<char32_t>(table.meanings[i]);
  }
  if (table.themselves.find(letter) != std::string_view::npos || (in_class && is_ascii_punctuation(letter))) {
    at_ += 2;
    return static_cast<char32_t>(letter);
  }
  const std::size_t digits = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
  if (digits > 0) {
    at_ += 2;
    return take_hexadecimal(digits, where);
  }
  const std::size_t length = 1 + utf8_step(text_.substr(at_ + 1)).length;
  return invalid(where, fmt::format("unknown escape {}", in_quotes(text_.substr(at_, length))));
}

Result<std::string> RuleCursor::take_literal() {
  const std::size_t where = at_;
  const char quote = peek();
  std::string text;
  ++at_;
  for (;;) {
    const char c = peek();
    const bool line_ends = dialect_ == RuleDialect::lark && (c == '\n' || c == '\r');
    if (at_end() || line_ends) return invalid(where, fmt::format("this literal is not closed with {}", quote));
    if (c == quote) break;
    if (c == '\\') {
      ESP_TRY(const char32_t character, take_escape());
      append_character(text, character);
    } else {
      text.push_back(c);
      ++at_;
    }
  }
  ++at_;
  return text;
}

std::string_view RuleCursor::take_digits() {
  const std::size_t begin = at_;
  while (is_decimal(peek())) ++at_;
  return since(begin);
}

Result<int> RuleCursor::take_count() {
  const std::size_t where = at_;
  if (!is_decimal(peek())) return invalid(where, "a number of repetitions is expected here");
  long value = 0;
  for (; is_decimal(peek()); ++at_) value = std::min(value * 10 + (peek() - '0'), long{RepeatCounts::kMost} + 1);
  if (value > RepeatCounts::kMost)
    return too_complex(where, fmt::format("more than {} repetitions", RepeatCounts::kMost));
  return static_cast<int>(value);
}

Result<RepeatCounts> RuleCursor::take_counts() {
  const std::size_t where = at_;
  RepeatCounts counts;
  take("{");
  skip_blanks(true);
  const bool low_given = peek() != ',';
  if (low_given) {
    ESP_TRY(counts.low, take_count());
    skip_blanks(true);
  }
  counts.high = counts.low;
  if (take(",")) {
    skip_blanks(true);
    if (low_given && (peek() == '}' || take("-1"))) {  // xgrammar prints {2,} as {2, -1}
      counts.high = RuleNode::kUnbounded;
    } else {
      ESP_TRY(counts.high, take_count());
    }
    skip_blanks(true);
  }
  if (!take("}")) return invalid(offset(), "'}' is expected here, after {m}, {m,}, {m,n} or {,n}");
  if (counts.high != RuleNode::kUnbounded && counts.high < counts.low)
    return invalid(where, fmt::format("from {} to {} repetitions is no range", counts.low, counts.high));
  return counts;
}

Error RuleCursor::invalid(std::size_t where, const std::string& sentence) const {
  return bad_request(place(where) + sentence, {}, "grammar_invalid");
}

Error RuleCursor::unsupported(std::size_t where, const std::string& sentence) const {
  return {Error::Kind::unsupported, place(where) + sentence, {}, {}};
}

Error RuleCursor::too_complex(std::size_t where, const std::string& sentence) const {
  return {Error::Kind::too_large, place(where) + sentence, {}, "grammar_too_complex"};
}

Error RuleCursor::unexpected() const {
  if (at_end()) return invalid(at_, "the text ends in the middle");
  const std::size_t length = utf8_step(text_.substr(at_)).length;
  return invalid(at_, fmt::format("{} is not expected here", in_quotes(text_.substr(at_, length))));
}

std::size_t RuleCursor::line_of(std::size_t where) const {
  std::size_t line = 1;
  for (std::size_t i = 0; i < where; ++i)
    line += text_[i] == '\n' || (text_[i] == '\r' && (i + 1 == text_.size() || text_[i + 1] != '\n'));
  return line;
}

std::string RuleCursor::place(std::size_t where) const {
  const std::size_t before = where == 0 ? std::string_view::npos : text_.find_last_of("\r\n", where - 1);
  const std::size_t column = before == std::string_view::npos ? where + 1 : where - before;
  return fmt::format("grammar line {}, column {}: ", line_of(where), column);
}

}  // namespace espalier::grammar
