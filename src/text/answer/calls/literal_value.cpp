#include "text/answer/calls/literal_value.h"

#include <utility>

#include "text/answer/calls/json_scan.h"
#include "text/utf8.h"

namespace espalier {
namespace {

std::string_view delimiter_of(LiteralDialect dialect) {
  return dialect == LiteralDialect::gemma ? "<|\"|>" : "<escape>";
}

bool is_digit_letter(char c) {
  return c >= '0' && c <= '9';
}

bool is_python_word(char c) {
  return is_digit_letter(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' || c == '+' ||
         c == '-';
}

std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

std::size_t skip_digits(std::string_view text, std::size_t at) {
  while (at < text.size() && is_digit_letter(text[at])) ++at;
  return at;
}

// Python's spellings of numbers (007, 1_000, .5, 5., +1) as JSON's; nothing where it is no number.
std::optional<std::string> number_json(std::string_view word) {
  std::string text;
  for (const char c : word)
    if (c != '_') text += c;
  std::string_view rest = text;
  std::string out = rest.starts_with('-') ? "-" : "";
  if (rest.starts_with('-') || rest.starts_with('+')) rest.remove_prefix(1);
  const std::size_t whole = skip_digits(rest, 0);
  const bool point = whole < rest.size() && rest[whole] == '.';
  const std::size_t fraction = point ? skip_digits(rest, whole + 1) : whole;
  if (whole + (point ? fraction - whole - 1 : 0) == 0) return {};
  std::string_view digits = rest.substr(0, whole);
  while (digits.size() > 1 && digits.front() == '0') digits.remove_prefix(1);
  out += digits.empty() ? "0" : digits;
  if (point) out += fraction == whole + 1 ? std::string(".0") : std::string(rest.substr(whole, fraction - whole));
  std::string_view exponent = rest.substr(fraction);
  if (exponent.empty()) return out;
  if (exponent[0] != 'e' && exponent[0] != 'E') return {};
  const std::size_t sign = exponent.size() > 1 && (exponent[1] == '+' || exponent[1] == '-') ? 2 : 1;
  if (exponent.size() == sign || skip_digits(exponent, sign) != exponent.size()) return {};
  return out += exponent;
}

// A word without quotes as JSON.
std::optional<std::string> word_json(std::string_view word) {
  if (word == "True" || word == "true") return "true";
  if (word == "False" || word == "false") return "false";
  if (word == "None" || word == "null") return "null";
  return number_json(word);
}

}  // namespace

void LiteralValue::start(LiteralDialect dialect) {
  *this = {};
  dialect_ = dialect;
  if (!python()) delimiter_ = MarkFinder({delimiter_of(dialect)});
}

LiteralValue::Step LiteralValue::step(char c, std::string& json) {
  switch (at_) {
    case At::value:
      return value_step(c, json);
    case At::word:
      return word_step(c, json);
    case At::string:
      return quoted_step(c, json);
    case At::escape:
      return escape_step(c, json);
    case At::code:
      return code_step(c, json);
    case At::marked:
      return marked_step(c, json);
    case At::key:
      return key_step(c, json);
    case At::colon:
      if (is_blank(c)) return Step::inside;
      if (c != ':') return fail(c, json);
      json += ": ";
      at_ = At::value;
      may_close_ = false;
      return Step::inside;
    case At::after:
      return after_step(c, json);
    default:
      json += c;
      return Step::broken;
  }
}

void LiteralValue::separate(std::string& json) {
  if (std::exchange(comma_, false)) json += ", ";
  may_close_ = false;
}

LiteralValue::Step LiteralValue::value_step(char c, std::string& json) {
  if (is_blank(c)) return Step::inside;
  if (c == '[' || c == '{' || (c == '(' && python())) return open(c, json);
  if ((c == ']' || c == ')') && may_close_) return close(c, json);
  if (python() && (c == '"' || c == '\'')) {
    separate(json);
    json += '"';
    quote_ = c;
    key_ = false;
    at_ = At::string;
    return Step::inside;
  }
  if (!python() && delimiter_.may_begin(c)) {
    delimiter_.push(c);
    at_ = At::marked;
    word_.assign(1, c);  // the opening mark is not complete yet
    return Step::inside;
  }
  if (python() ? !is_python_word(c) : c == ',' || c == '}' || c == ']') return fail(c, json);
  at_ = At::word;
  word_ = c;
  return Step::inside;
}

LiteralValue::Step LiteralValue::open(char c, std::string& json) {
  if (open_.size() == kDepth) return fail(c, json);
  separate(json);
  open_ += c;
  json += c == '{' ? '{' : '[';
  at_ = c == '{' ? At::key : At::value;
  may_close_ = true;
  return Step::inside;
}

LiteralValue::Step LiteralValue::close(char c, std::string& json) {
  const char opened = open_.empty() ? '\0' : open_.back();
  if ((c == ']' && opened != '[') || (c == ')' && opened != '(') || (c == '}' && opened != '{')) return fail(c, json);
  open_.pop_back();
  comma_ = false;
  json += c == '}' ? '}' : ']';
  return after_value();
}

LiteralValue::Step LiteralValue::after_value() {
  at_ = At::after;
  return open_.empty() ? Step::ended : Step::inside;
}

LiteralValue::Step LiteralValue::after_step(char c, std::string& json) {
  if (is_blank(c)) return Step::inside;
  if (c == ']' || c == ')' || c == '}') return close(c, json);
  if (c != ',' || open_.empty()) return fail(c, json);
  comma_ = true;
  may_close_ = true;  // a comma may stand before the end
  at_ = in_object() ? At::key : At::value;
  return Step::inside;
}

LiteralValue::Step LiteralValue::word_step(char c, std::string& json) {
  const bool goes_on = python() ? is_python_word(c) : c != ',' && c != '}' && c != ']';
  if (goes_on && word_.size() < kWordMost) {
    word_ += c;
    return Step::inside;
  }
  if (goes_on || !word_ended(json)) return fail(c, json);
  at_ = At::after;
  return open_.empty() ? Step::ended_before : after_step(c, json);
}

bool LiteralValue::word_ended(std::string& json) {
  const std::string_view word = without_blanks(word_);
  std::optional<std::string> value = word_json(word);
  if (!value && !python()) value = json_quoted(word);
  if (!value) return false;
  separate(json);
  json += *value;
  word_.clear();
  return true;
}

LiteralValue::Step LiteralValue::quoted_step(char c, std::string& json) {
  if (c == '\\') {
    at_ = At::escape;
    return Step::inside;
  }
  if (c != quote_) {
    append_json_escaped(json, std::string_view(&c, 1));
    return Step::inside;
  }
  json += '"';
  if (!key_) return after_value();
  at_ = At::colon;
  return Step::inside;
}

LiteralValue::Step LiteralValue::escape_step(char c, std::string& json) {
  at_ = At::string;
  if (c == 'x' || c == 'u' || c == 'U') {
    digits_ = c == 'x' ? 2 : c == 'u' ? 4 : 8;
    code_ = 0;
    at_ = At::code;
    return Step::inside;
  }
  constexpr std::string_view letters = "nrtbf0av'\"\\\n";
  constexpr std::string_view values("\n\r\t\b\f\0\a\v'\"\\", 11);
  const std::size_t i = letters.find(c);
  if (i < values.size()) append_json_escaped(json, values.substr(i, 1));
  if (i == letters.npos) {
    json += "\\\\";
    append_json_escaped(json, std::string_view(&c, 1));
  }
  return Step::inside;
}

LiteralValue::Step LiteralValue::code_step(char c, std::string& json) {
  const int value = is_digit_letter(c)     ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : 0;
  code_ = code_ * 16 + static_cast<char32_t>(value);
  if (--digits_ > 0) return Step::inside;
  at_ = At::string;
  std::string character;
  append_character(character, code_);
  append_json_escaped(json, character);
  return Step::inside;
}

// A string between marks. word_ says how much of the opening mark is here; empty behind it.
LiteralValue::Step LiteralValue::marked_step(char c, std::string& json) {
  const MarkFinder::Found found = delimiter_.push(c);
  if (!word_.empty()) {
    word_ += c;
    if (found.text > 0) return fail('\0', json);
    if (found.mark < 0) return Step::inside;
    delimiter_.drop(found);
    word_.clear();
    separate(json);
    json += '"';
    return Step::inside;
  }
  append_json_escaped(json, std::string_view(delimiter_.held()).substr(0, found.text));
  delimiter_.drop(found);
  if (found.mark < 0) return Step::inside;
  json += '"';
  return after_value();
}

LiteralValue::Step LiteralValue::key_step(char c, std::string& json) {
  if (word_.empty() && is_blank(c)) return Step::inside;
  if (word_.empty() && c == '}') return may_close_ ? close(c, json) : fail(c, json);
  if (python()) {
    if (c != '"' && c != '\'') return fail(c, json);
    separate(json);
    json += '"';
    quote_ = c;
    key_ = true;
    at_ = At::string;
    return Step::inside;
  }
  if (c != ':') {
    if (word_.size() == kWordMost || c == '}' || c == ',') return fail(c, json);
    word_ += c;
    return Step::inside;
  }
  std::string_view key = without_blanks(word_);
  const std::string_view mark = delimiter_of(dialect_);
  if (key.size() >= 2 * mark.size() && key.starts_with(mark) && key.ends_with(mark))
    key = key.substr(mark.size(), key.size() - 2 * mark.size());
  separate(json);
  json += json_quoted(key) + ": ";
  word_.clear();
  at_ = At::value;
  return Step::inside;
}

// What is held of a word goes out as it was written.
LiteralValue::Step LiteralValue::fail(char c, std::string& json) {
  json += word_;
  word_.clear();
  if (c != '\0') json += c;
  at_ = At::broken;
  return Step::broken;
}

bool LiteralValue::finish(std::string& json) {
  if (at_ == At::word && word_ended(json)) return open_.empty();
  if (at_ == At::marked && word_.empty()) append_json_escaped(json, delimiter_.take());
  if (at_ == At::marked || at_ == At::key) json += word_;
  return at_ == At::after && open_.empty();
}

std::optional<std::string> literal_json(std::string_view text, LiteralDialect dialect) {
  LiteralValue value;
  value.start(dialect);
  std::string json;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const LiteralValue::Step step = value.step(text[i], json);
    if (step == LiteralValue::Step::inside) continue;
    if (step != LiteralValue::Step::ended || i + 1 != text.size()) return {};
    return json;
  }
  if (value.finish(json)) return json;
  return {};
}

}  // namespace espalier
