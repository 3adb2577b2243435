// unicode.h: Python's notions of characters. Internal to text.
// Units:   strings are UTF-8 bytes; `character` positions are in code points.
// Threads: pure functions. Fails: never; bytes that are no UTF-8 count as U+FFFD.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace espalier::jinja {

bool is_space(char32_t c);
bool is_alphabetic(char32_t c);
bool is_numeric(char32_t c);  // digits and other numbers of all scripts
bool is_upper(char32_t c);
bool is_lower(char32_t c);
bool is_printable(char32_t c);

// What letters are changed to.
enum class Case { lower, upper, title };
void append_case(std::string& out, char32_t c, Case to);
std::string to_case(std::string_view text, Case to);  // lower or upper, the whole text

std::string_view trim_left(std::string_view text);
std::string_view trim_right(std::string_view text);

// The bytes of the name that `text` begins with; 0 if it does not begin with one.
std::size_t name_length(std::string_view text);

bool is_ascii(std::string_view text);

// The byte where the character number `character` begins; the end if there are fewer.
std::size_t byte_of(std::string_view text, std::size_t character);

// Walks through the characters of a text.
class Characters {
 public:
  explicit Characters(std::string_view text) : rest_(text) {}
  bool done() const { return rest_.empty(); }
  char32_t next();  // Requires: !done()
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

}  // namespace espalier::jinja
