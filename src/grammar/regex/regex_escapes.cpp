#include "grammar/regex/regex_escapes.h"

#include <fmt/format.h>

namespace espalier::grammar {
namespace {

class RegexEscapeParser {
 public:
  RegexEscapeParser(RegexCursor& cursor, RegexDialect dialect, bool in_class)
      : cursor_(cursor), python_(dialect == RegexDialect::python), in_class_(in_class), start_(cursor.at() - 1) {}

  Result<RegexEscape> run() {
    if (cursor_.done()) return regex_malformed("a backslash with nothing behind it", start_);
    if (cursor_.next_is(is_regex_digit)) return python_ ? python_digits() : ecma_digits();
    if (!cursor_.next_is(is_regex_letter)) return character_escape(cursor_.take_character());
    const char letter = cursor_.take_byte();
    switch (letter) {
      case 'd':
      case 'w':
      case 's':
        return set_escape(letter, false, {});
      case 'D':
      case 'W':
      case 'S':
        return set_escape(static_cast<char>(letter | 0x20), true, {});
      case 'p':
      case 'P':
        return property(letter == 'P');
      case 'n':
        return character_escape('\n');
      case 't':
        return character_escape('\t');
      case 'r':
        return character_escape('\r');
      case 'f':
        return character_escape('\f');
      case 'v':
        return character_escape('\v');
      case 'x':
        return hex(2);
      case 'u':
        return python_ ? hex(4) : ecma_u();
      default:
        return in_class_ ? letter_in_class(letter) : letter_outside(letter);
    }
  }

 private:
  static constexpr std::uint32_t kMostCharacter = 0x10FFFF;

  static bool is_octal_digit(char c) { return c >= '0' && c <= '7'; }
  static bool is_hex_digit(char c) { return hex_value(c) >= 0; }
  static int hex_value(char c) {
    if (is_regex_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  }
  static RegexEscape character_escape(std::uint32_t character) {
    return {RegexEscape::Kind::character, character, 0, false, {}};
  }
  static RegexEscape set_escape(char letter, bool negated, std::string_view name) {
    return {RegexEscape::Kind::set, 0, letter, negated, name};
  }

  Error bad() const { return regex_malformed(fmt::format("bad escape {}", cursor_.since(start_)), start_); }

  Result<RegexEscape> letter_in_class(char letter) {
    if (letter == 'b') return character_escape('\b');
    return letter_anywhere(letter);
  }

  Result<RegexEscape> letter_outside(char letter) {
    if (letter == 'b' || letter == 'B') return regex_unsupported(fmt::format("the word boundary \\{}", letter), start_);
    if (letter == 'k') return regex_unsupported("the back-reference \\k", start_);
    if (python_ && letter == 'A') return RegexEscape{RegexEscape::Kind::text_start, 0, 0, false, {}};
    if (python_ && (letter == 'Z' || letter == 'z')) return RegexEscape{RegexEscape::Kind::text_end, 0, 0, false, {}};
    return letter_anywhere(letter);
  }

  Result<RegexEscape> letter_anywhere(char letter) {
    if (python_ && letter == 'a') return character_escape('\a');
    if (python_ && letter == 'U') return hex(8);
    if (python_ && letter == 'N') return regex_unsupported("the character by name \\N", start_);
    if (!python_ && letter == 'c' && cursor_.next_is(is_regex_letter))
      return character_escape(static_cast<std::uint32_t>(cursor_.take_byte()) & 0x1f);
    return bad();
  }

  Result<RegexEscape> hex(int digits) {
    std::uint32_t value = 0;
    for (int i = 0; i < digits; ++i) {
      if (!cursor_.next_is(is_hex_digit)) return bad();
      value = value * 16 + static_cast<std::uint32_t>(hex_value(cursor_.take_byte()));
    }
    if (value > kMostCharacter) return bad();
    return character_escape(value);
  }

  Result<RegexEscape> ecma_u() {
    if (cursor_.take("{")) return braced_hex();
    ESP_TRY(const RegexEscape first, hex(4));
    const std::size_t behind = cursor_.at();
    if (first.character < 0xD800 || first.character > 0xDBFF || !cursor_.take("\\u")) return first;
    const auto second = hex(4);
    if (second.ok() && second->character >= 0xDC00 && second->character <= 0xDFFF)
      return character_escape(0x10000 + ((first.character - 0xD800) << 10) + (second->character - 0xDC00));
    cursor_.go_to(behind);  // the second stands for itself, and is judged when it is reached
    return first;
  }

  Result<RegexEscape> braced_hex() {
    std::uint32_t value = 0;
    if (!cursor_.next_is(is_hex_digit)) return bad();
    while (cursor_.next_is(is_hex_digit)) {
      value = value * 16 + static_cast<std::uint32_t>(hex_value(cursor_.take_byte()));
      if (value > kMostCharacter) return bad();
    }
    if (!cursor_.take("}")) return bad();
    return character_escape(value);
  }

  // \0, \012 and, of three octal digits, \123; other digits refer to a group.
  Result<RegexEscape> python_digits() {
    const bool zero = cursor_.next_is('0');
    const bool three =
        cursor_.next_is(is_octal_digit) && cursor_.next_is(is_octal_digit, 1) && cursor_.next_is(is_octal_digit, 2);
    if (!zero && !three && !in_class_) return back_reference();
    std::uint32_t value = 0;
    int digits = 0;
    for (; digits < 3 && cursor_.next_is(is_octal_digit); ++digits)
      value = value * 8 + static_cast<std::uint32_t>(cursor_.take_byte() - '0');
    if (digits == 0) cursor_.take_byte();  // \8 or \9, for the message
    if (digits == 0 || value > 0377) return bad();
    return character_escape(value);
  }

  Result<RegexEscape> ecma_digits() {
    if (!cursor_.next_is('0') && !in_class_) return back_reference();
    if (cursor_.take_byte() != '0' || cursor_.next_is(is_regex_digit)) return bad();
    return character_escape(0);
  }

  Error back_reference() {
    return regex_unsupported(fmt::format("the back-reference \\{}", cursor_.take_byte()), start_);
  }

  Result<RegexEscape> property(bool negated) {
    const std::size_t name = cursor_.at();
    if (cursor_.next_is(is_regex_letter)) {
      cursor_.take_byte();
      return set_escape('p', negated, cursor_.since(name));
    }
    const std::size_t end = cursor_.next_is('{') ? cursor_.rest().find('}') : std::string_view::npos;
    if (end == std::string_view::npos) return regex_malformed("a class without a name in braces", start_);
    const std::string_view inside = cursor_.rest().substr(1, end - 1);
    cursor_.go_to(name + end + 1);
    return set_escape('p', negated, inside);
  }

  RegexCursor& cursor_;
  const bool python_, in_class_;
  const std::size_t start_;  // of the backslash
};

}  // namespace

Result<RegexEscape> parse_regex_escape(RegexCursor& cursor, RegexDialect dialect, bool in_class) {
  return RegexEscapeParser(cursor, dialect, in_class).run();
}

}  // namespace espalier::grammar
