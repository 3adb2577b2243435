// regex_group_head.h: what stands between an opening parenthesis and the inside of its group. Internal to regex.cpp.
// Threads: pure function. Fails: as regex.h says.
#pragma once

#include <string_view>

#include "grammar/regex/regex.h"
#include "grammar/regex/regex_cursor.h"

namespace espalier::grammar {

// Which kind of group an opening parenthesis begins.
struct RegexGroupHead {
  enum class Kind {
    group,         // whatever it captures
    look_ahead,    // (?= or, `negative`, (?!
    comment,       // (?#...), read to its end
    global_flags,  // (?i), read to its end
  };

  Kind kind = Kind::group;
  bool negative = false;
  RegexFlags flags;       // inside it, or from here on
  std::string_view name;  // empty when it has none
};

// The cursor stands behind '(', and then where the inside begins or behind ')'. `flags` hold before the group.
Result<RegexGroupHead> parse_regex_group_head(RegexCursor& cursor, const RegexFlags& flags,
                                              const RegexOptions& options);

}  // namespace espalier::grammar
