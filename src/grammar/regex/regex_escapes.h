// regex_escapes.h: what stands behind a backslash in a pattern. Internal to regex.cpp and what it is split into.
// Threads: pure function. Fails: as regex.h says.
#pragma once

#include <cstdint>
#include <string_view>

#include "grammar/regex/regex.h"
#include "grammar/regex/regex_cursor.h"

namespace espalier::grammar {

// What an escape stands for: a character, a set or an end of the text.
struct RegexEscape {
  enum class Kind { character, set, text_start, text_end };

  Kind kind = Kind::character;
  std::uint32_t character = 0;  // may be a surrogate, which no text contains
  char letter = 0;              // of a set: d, w, s or p
  bool negated = false;         // D, W, S, P
  std::string_view name;        // of \p: "Lu" of \p{Lu} and "L" of \pL
};

// The cursor stands behind the backslash, and then behind the escape.
Result<RegexEscape> parse_regex_escape(RegexCursor& cursor, RegexDialect dialect, bool in_class);

}  // namespace espalier::grammar
