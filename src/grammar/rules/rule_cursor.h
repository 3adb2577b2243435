// rule_cursor.h: a place in the text of a grammar, and what both parsers of rule_text.h read alike. Internal to
// grammar.
//
// Units:   offsets in bytes; they become "line 3, column 7" only when a message is made.
// Threads: values, one thread each.
// Fails:   reading returns the Errors of rule_text.h, placed where the fault begins.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "espalier/error.h"
#include "grammar/rules/rule_text.h"

namespace espalier::grammar {

// The two families of grammar texts.
enum class RuleDialect {
  ebnf,  // comments: #
  lark,  // comments: # and //; a backslash at the end of a line continues it
};

// How often something is repeated: the bounds of {m,n}, ?, * or +.
struct RepeatCounts {
  static constexpr int kMost = 1'000'000'000;  // of one {m,n}
  int low = 0, high = 0;                       // high may be RuleNode::kUnbounded
};

// A place in a grammar's text: skips blanks and comments, reads names, literals and counts.
class RuleCursor {
 public:
  RuleCursor(std::string_view text, RuleDialect dialect) : text_(text), dialect_(dialect) {}

  // Too long or not UTF-8? To be called first: the other functions rely on it.
  Result<> check_text(const RuleTextLimits& limits) const;

  std::size_t offset() const { return at_; }
  bool at_end() const { return at_ == text_.size(); }
  char peek(std::size_t ahead = 0) const { return ahead < text_.size() - at_ ? text_[at_ + ahead] : '\0'; }
  std::string_view since(std::size_t begin) const { return text_.substr(begin, at_ - begin); }
  bool begins_line(std::size_t offset) const;  // nothing but blanks before it on its line

  bool take(std::string_view expected);
  void skip(std::size_t bytes) { at_ += bytes; }  // requires as many
  void skip_blanks(bool over_lines);              // and comments
  std::string_view take_name();  // [A-Za-z_][A-Za-z0-9_-]*, but no '-' before '>'; empty if there is none
  // The name that stands here if dots belong to names; empty if there is none, or a longer one. Takes nothing.
  static constexpr std::size_t kLongestDottedName = 100;
  std::string_view dotted_name() const;
  char32_t take_character();  // requires !at_end()

  // The escape that begins here with a backslash. `in_class`: in a character class, where any punctuation may be
  // escaped.
  Result<char32_t> take_escape(bool in_class = false);
  // The text of the literal that begins here with a quote. EBNF's may go over lines, as llama.cpp allows.
  Result<std::string> take_literal();
  std::string_view take_digits();  // however many; empty if there is none
  Result<int> take_count();
  Result<RepeatCounts> take_counts();  // {m}, {m,}, {m,n}, {,n} or xgrammar's {m,-1}, from the brace on

  Error invalid(std::size_t where, const std::string& sentence) const;      // bad_request, grammar_invalid
  Error unsupported(std::size_t where, const std::string& sentence) const;  // unsupported
  Error too_complex(std::size_t where, const std::string& sentence) const;  // too_large, grammar_too_complex
  Error unexpected() const;                                                 // invalid: whatever stands here

  // "grammar line 3, column 7: "
  std::string place(std::size_t where) const;
  std::size_t line_of(std::size_t where) const;

 private:
  bool skip_comment();
  bool skip_continuation();
  Result<char32_t> take_hexadecimal(std::size_t digits, std::size_t where);

  std::string_view text_;
  RuleDialect dialect_;
  std::size_t at_ = 0;
};

}  // namespace espalier::grammar
