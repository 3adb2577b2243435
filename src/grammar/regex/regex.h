// regex.h: a regular expression as people write it, parsed into a tree of characters.
//
// Accepts what Python's `re` and ECMA 262 have in common and where they are regular; where they differ the dialect
// decides. Greedy, lazy and possessive-free quantifiers mean the same language. What is not regular (back-references,
// recursion, conditionals, atomic groups, look-behind, \b) is refused; look-ahead only where the caller can honour it.
// Units:   positions in errors are byte offsets into the pattern.
// Threads: values; parse_regex() is a pure function.
// Fails:   bad_request (malformed: "regex: ... at byte 12") or unsupported (well-formed but not regular), both naming
//          the construct and its position; never by recursion or memory: depth and size are limited.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "espalier/error.h"
#include "grammar/characters/code_points.h"

namespace espalier::grammar {

// Whose rules decide where Python and ECMA 262 differ.
enum class RegexDialect {
  python,  // \d \w \s are Unicode's; \Z, \A, (?P<n>...); $ is the end of the text alone
  ecma,    // \d \w are ASCII, \s is ECMA's white space; \cX, \/, [^], \p{...}; (?<n>...)
};

// The dialect of a pattern, and how large it may be.
struct RegexOptions {
  RegexDialect dialect = RegexDialect::python;
  bool look_ahead = false;  // (?=...) and (?!...) become nodes instead of errors
  std::size_t bytes = 1 << 20;
  int depth = 200;              // open groups at once
  std::size_t nodes = 200'000;  // of the tree
};

// One node of a parsed pattern; children are indices.
struct RegexNode {
  enum class Kind {
    empty,       // matches the empty text
    chars,       // one character of sets[set]
    concat,      // children in order; at least two
    either,      // any child; at least two
    repeat,      // child `low` to `high` times
    text_start,  // ^ and \A
    text_end,    // $, \Z and \z
    look_ahead,  // what follows begins with the child (or does not: `negative`)
  };
  static constexpr int kUnbounded = -1;

  Kind kind = Kind::empty;
  bool negative = false;
  int set = -1;
  int low = 0, high = 0;      // repeats: 0 <= low <= high or high == kUnbounded
  std::vector<int> children;  // indices of nodes; always smaller than this node's own
};

// A parsed pattern: a tree of nodes and the sets that they name.
struct Regex {
  std::vector<RegexNode> nodes;    // children before parents
  std::vector<CodePointSet> sets;  // never empty sets unless the pattern says so ([^\s\S])
  int root = 0;
};

Result<Regex> parse_regex(std::string_view pattern, const RegexOptions& options = {});

}  // namespace espalier::grammar
