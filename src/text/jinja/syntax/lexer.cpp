#include "text/jinja/syntax/lexer.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>

#include "text/jinja/failure.h"
#include "text/jinja/values/unicode.h"
#include "text/utf8.h"

namespace espalier::jinja {
namespace {

// Newlines of all kinds become \n, and one at the very end is dropped.
std::string normalised(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out.push_back(source[i]);
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Two-character symbols before their first characters.
constexpr std::array<std::string_view, 26> kSymbols = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                       "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                       ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

class Lexer {
 public:
  explicit Lexer(std::string_view source) : text_(normalised(source)) {}

  std::vector<Token> run() {
    while (at_ < text_.size()) next_part();
    tokens_.push_back({.type = TokenType::end, .line = line_});
    return std::move(tokens_);
  }

 private:
  enum class Tag { variable, block, comment };

  [[noreturn]] void syntax_error(const std::string& message) const {
    throw Failure{Failure::Kind::syntax, message, line_};
  }

  bool starts_with(std::string_view s, std::size_t at) const { return text_.compare(at, s.size(), s) == 0; }

  // Text up to the next tag, then the tag.
  void next_part() {
    std::size_t begin = at_;
    while (begin < text_.size() && !tag_at(begin)) ++begin;
    const auto tag = tag_at(begin);
    if (!tag) return add_data(at_, text_.size());
    std::size_t inside = begin + 2;
    const char mark = inside < text_.size() && (text_[inside] == '-' || text_[inside] == '+') ? text_[inside] : '\0';
    if (mark != '\0') ++inside;
    add_data(at_, end_of_data(begin, mark, *tag));
    count_lines(begin);
    at_ = inside;
    if (*tag == Tag::comment) return comment();
    if (*tag == Tag::block && raw_begins()) return raw();
    expression_tag(*tag);
  }

  std::optional<Tag> tag_at(std::size_t at) const {
    if (at + 1 >= text_.size() || text_[at] != '{') return std::nullopt;
    switch (text_[at + 1]) {
      case '{':
        return Tag::variable;
      case '%':
        return Tag::block;
      case '#':
        return Tag::comment;
      default:
        return std::nullopt;
    }
  }

  // Where the text before a tag at `begin` ends once white space is stripped.
  std::size_t end_of_data(std::size_t begin, char mark, Tag tag) const {
    if (mark == '-') return at_ + trim_right(std::string_view(text_).substr(at_, begin - at_)).size();
    if (mark == '+' || tag == Tag::variable) return begin;
    const std::size_t newline = std::string_view(text_).substr(at_, begin - at_).rfind('\n');
    const std::size_t line = newline == std::string_view::npos ? at_ : at_ + newline + 1;
    if (newline == std::string_view::npos && !line_starts_) return begin;
    const auto indentation = std::string_view(text_).substr(line, begin - line);
    return trim_right(indentation).empty() ? line : begin;
  }

  void add_data(std::size_t from, std::size_t to) {
    if (to > from) tokens_.push_back({.type = TokenType::data, .line = line_, .text = text_.substr(from, to - from)});
    if (to == text_.size()) at_ = to;
  }

  void count_lines(std::size_t upto) {
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(counted_),
                                         text_.begin() + static_cast<std::ptrdiff_t>(upto), '\n'));
    counted_ = upto;
  }

  // After the closing characters of a tag: -%} takes all white space, a block or comment takes one newline.
  void after_tag(char mark, bool takes_newline) {
    const std::size_t from = at_;
    if (mark == '-') {
      at_ = text_.size() - trim_left(std::string_view(text_).substr(at_)).size();
    } else if (takes_newline && mark != '+' && at_ < text_.size() && text_[at_] == '\n') {
      ++at_;
    }
    line_starts_ = at_ > from && text_[at_ - 1] == '\n';
    count_lines(at_);
  }

  void comment() {
    const std::size_t end = text_.find("#}", at_);
    if (end == std::string::npos) syntax_error("a comment is not closed: #} is missing");
    const char mark = end > at_ && (text_[end - 1] == '-' || text_[end - 1] == '+') ? text_[end - 1] : '\0';
    at_ = end + 2;
    after_tag(mark, true);
  }

  std::size_t skip_space(std::size_t at) const {
    return text_.size() - trim_left(std::string_view(text_).substr(at)).size();
  }

  // "raw %}" after a block begin; moves past it.
  bool raw_begins() {
    std::size_t at = skip_space(at_);
    if (!starts_with("raw", at)) return false;
    at = skip_space(at + 3);
    const bool strips = starts_with("-%}", at);
    if (!strips && !starts_with("%}", at)) return false;
    at_ = at + (strips ? 3 : 2);
    after_tag(strips ? '-' : '+', false);
    return true;
  }

  void raw() {
    for (std::size_t begin = text_.find("{%", at_); begin != std::string::npos; begin = text_.find("{%", begin + 2)) {
      std::size_t at = begin + 2;
      const char mark = at < text_.size() && (text_[at] == '-' || text_[at] == '+') ? text_[at] : '\0';
      at = skip_space(at + (mark != '\0'));
      if (!starts_with("endraw", at)) continue;
      at = skip_space(at + 6);
      const char close = at < text_.size() && (text_[at] == '-' || text_[at] == '+') ? text_[at] : '\0';
      at += close != '\0';
      if (!starts_with("%}", at)) continue;
      add_data(at_, end_of_data(begin, mark, Tag::block));
      at_ = at + 2;
      after_tag(close, true);
      return;
    }
    syntax_error("{% raw %} is not closed: {% endraw %} is missing");
  }

  void expression_tag(Tag tag) {
    const bool variable = tag == Tag::variable;
    push(variable ? TokenType::variable_begin : TokenType::block_begin, {});
    std::string open;  // brackets not yet closed
    for (;;) {
      at_ = skip_space(at_);
      count_lines(at_);
      if (at_ == text_.size()) syntax_error(variable ? "}} is missing" : "%} is missing");
      if (open.empty() && closes(variable)) return;
      token(open);
    }
  }

  bool closes(bool variable) {
    const std::string_view end = variable ? "}}" : "%}";
    const bool marked = (text_[at_] == '-' || (text_[at_] == '+' && !variable)) && starts_with(end, at_ + 1);
    if (!marked && !starts_with(end, at_)) return false;
    const char mark = marked ? text_[at_] : '\0';
    push(variable ? TokenType::variable_end : TokenType::block_end, {});
    at_ += marked ? 3 : 2;
    after_tag(mark, !variable);
    return true;
  }

  void push(TokenType type, std::string text) {
    tokens_.push_back({.type = type, .line = line_, .text = std::move(text)});
  }

  void token(std::string& open) {
    const char c = text_[at_];
    if (c == '"' || c == '\'') return string(c);
    if (is_digit(c)) return number();
    if (const std::size_t size = name_length(std::string_view(text_).substr(at_)); size > 0) {
      push(TokenType::name, text_.substr(at_, size));
      at_ += size;
      return;
    }
    const auto* symbol =
        std::find_if(kSymbols.begin(), kSymbols.end(), [&](std::string_view s) { return starts_with(s, at_); });
    if (symbol == kSymbols.end())
      syntax_error("unexpected character " + text_.substr(at_, utf8_step(std::string_view(text_).substr(at_)).length));
    balance(open, *symbol);
    push(TokenType::symbol, std::string(*symbol));
    at_ += symbol->size();
  }

  void balance(std::string& open, std::string_view symbol) const {
    if (symbol == "(" || symbol == "[" || symbol == "{") open.push_back(symbol[0]);
    const std::string_view closing = ")]}", opening = "([{";
    const std::size_t which = closing.find(symbol[0]);
    if (symbol.size() != 1 || which == std::string_view::npos) return;
    if (open.empty() || open.back() != opening[which]) syntax_error("unexpected '" + std::string(symbol) + "'");
    open.pop_back();
  }

  void string(char quote) {
    const std::size_t from = ++at_;
    while (at_ < text_.size() && text_[at_] != quote) at_ += text_[at_] == '\\' ? 2 : 1;
    if (at_ >= text_.size()) syntax_error("a string is not closed");
    push(TokenType::string, unescaped(std::string_view(text_).substr(from, at_ - from)));
    ++at_;
  }

  std::string unescaped(std::string_view raw) const {
    std::string out;
    for (std::size_t i = 0; i < raw.size(); ++i) {
      if (raw[i] != '\\') {
        out.push_back(raw[i]);
      } else {
        i = escape(raw, i + 1, out);
      }
    }
    return out;
  }

  // The character after a backslash; returns the place of its last byte.
  std::size_t escape(std::string_view raw, std::size_t i, std::string& out) const {
    constexpr std::string_view letters = "abfnrtv\\'\"", meanings = "\a\b\f\n\r\t\v\\'\"";
    const char c = raw[i];
    if (c == '\n') return i;
    if (const std::size_t which = letters.find(c); which != std::string_view::npos) {
      out.push_back(meanings[which]);
      return i;
    }
    const auto code = [&](std::size_t from, std::size_t digits, int base) {
      std::uint32_t value = 0;
      const char* first = raw.data() + from;
      const char* last = raw.data() + std::min(raw.size(), from + digits);
      const auto [end, error] = std::from_chars(first, last, value, base);
      if (error != std::errc() || (base == 16 && end != first + digits) || value > 0x10ffff)
        syntax_error("a bad escape in a string");
      append_character(out, value);
      return from + static_cast<std::size_t>(end - first) - 1;
    };
    if (c == 'x') return code(i + 1, 2, 16);
    if (c == 'u') return code(i + 1, 4, 16);
    if (c == 'U') return code(i + 1, 8, 16);
    if (c >= '0' && c <= '7') return code(i, 3, 8);
    out.push_back('\\');
    out.push_back(c);
    return i;
  }

  void number() {
    std::size_t end = at_;
    int base = 10;
    if (text_[at_] == '0' && at_ + 1 < text_.size()) {
      const char kind = static_cast<char>(text_[at_ + 1] | 0x20);
      base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 10;
    }
    std::string digits;
    const auto take = [&] {
      while (end < text_.size() && (text_[end] == '_' || is_digit(text_[end]) ||
                                    (base == 16 && std::isxdigit(static_cast<unsigned char>(text_[end]))))) {
        if (text_[end] != '_') digits.push_back(text_[end]);
        ++end;
      }
    };
    if (base != 10) end += 2;
    take();
    // list.0.1 are two places, not a fraction
    const bool after_dot = at_ > 0 && text_[at_ - 1] == '.';
    const bool is_real = base == 10 && !after_dot && fraction_and_exponent(end, digits);
    number_token(digits, base, is_real);
    at_ = end;
  }

  // ".5", "e-3" after the whole part; appended to `digits`.
  bool fraction_and_exponent(std::size_t& end, std::string& digits) const {
    bool found = false;
    const auto digit_at = [&](std::size_t i) { return i < text_.size() && is_digit(text_[i]); };
    const auto take = [&] {
      for (; end < text_.size() && (is_digit(text_[end]) || text_[end] == '_'); ++end)
        if (text_[end] != '_') digits.push_back(text_[end]);
    };
    if (end < text_.size() && text_[end] == '.' && digit_at(end + 1)) {
      found = true;
      digits.push_back(text_[end++]);
      take();
    }
    if (end < text_.size() && (text_[end] | 0x20) == 'e') {
      const std::size_t sign = end + 1 < text_.size() && (text_[end + 1] == '+' || text_[end + 1] == '-');
      if (digit_at(end + 1 + sign)) {
        found = true;
        digits.append(text_, end, 1 + sign);
        end += 1 + sign;
        take();
      }
    }
    return found;
  }

  void number_token(const std::string& digits, int base, bool is_real) {
    Token token{.type = is_real ? TokenType::real : TokenType::integer, .line = line_, .text = digits};
    const char* last = digits.data() + digits.size();
    if (is_real) {
      const auto [end, error] = std::from_chars(digits.data(), last, token.real);
      if (error == std::errc::result_out_of_range) token.real = digits.find("e-") == std::string::npos ? HUGE_VAL : 0;
    } else {
      const auto [end, error] = std::from_chars(digits.data(), last, token.integer, base);
      if (error == std::errc::result_out_of_range && base == 10)
        token.type = TokenType::big_integer;
      else if (error != std::errc() || end != last)
        syntax_error("a bad number");
    }
    tokens_.push_back(std::move(token));
  }

  std::string text_;
  std::size_t at_ = 0, counted_ = 0;
  int line_ = 1;
  bool line_starts_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  return Lexer(source).run();
}

}  // namespace espalier::jinja
