// utf8.h: characters out of bytes that need not be UTF-8. Internal to text and grammar.
// Units:   bytes.
// Threads: pure functions. Fails: never; what is broken becomes U+FFFD, one for each part that could have begun a
//          character (the rule of the Unicode standard, "substitution of maximal subparts", as Rust and browsers have
//          it).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace espalier {

inline constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

// What stands at the start of `bytes`.
struct Utf8Step {
  std::size_t length = 0;  // bytes of the character, or of the broken part
  char32_t character = 0;  // meaningful when valid
  bool valid = false;
  bool incomplete = false;  // broken only because the text ends here
};

// Requires: bytes is not empty.
Utf8Step utf8_step(std::string_view bytes);

bool is_utf8(std::string_view bytes);

// Appends `bytes` to `out` as valid UTF-8 and returns how many were used: all, or all but an unfinished character at
// the end (at most 3 bytes) unless `finish` is set.
std::size_t append_valid_utf8(std::string& out, std::string_view bytes, bool finish);

void append_character(std::string& out, char32_t character);  // surrogates and larger numbers become U+FFFD

// Requires: text is UTF-8.
std::size_t count_characters(std::string_view text);

}  // namespace espalier
