// regex_cursor.h: a place in a pattern, and the errors that name it. Internal to regex.cpp and what it is split into.
// Units:   byte offsets. Threads: values. Fails: never; the pattern must be UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "espalier/error.h"

namespace espalier::grammar {

// What (?imsxa) turn on.
struct RegexFlags {
  bool ignore_case = false;
  bool multi_line = false;
  bool dot_all = false;
  bool verbose = false;
  bool ascii = false;
  bool operator==(const RegexFlags&) const = default;
};

// A byte offset in a pattern, moved by the parser's parts.
class RegexCursor {
 public:
  explicit RegexCursor(std::string_view pattern) : pattern_(pattern) {}

  std::size_t at() const { return at_; }
  void go_to(std::size_t at) { at_ = at; }
  bool done() const { return at_ == pattern_.size(); }
  std::string_view since(std::size_t from) const { return pattern_.substr(from, at_ - from); }
  std::string_view rest() const { return pattern_.substr(at_); }

  // Whether a byte stands `ahead` of the place, and which.
  bool next_is(char byte, std::size_t ahead = 0) const {
    return ahead < pattern_.size() - at_ && pattern_[at_ + ahead] == byte;
  }
  template <class Predicate>
  bool next_is(Predicate predicate, std::size_t ahead = 0) const {
    return ahead < pattern_.size() - at_ && predicate(pattern_[at_ + ahead]);
  }

  bool take(std::string_view text) {
    if (!rest().starts_with(text)) return false;
    at_ += text.size();
    return true;
  }
  char take_byte() { return pattern_[at_++]; }  // requires: not done, and an ASCII character stands here
  std::uint32_t take_character();               // requires: not done

 private:
  std::string_view pattern_;
  std::size_t at_ = 0;
};

// "regex: bad escape \q at byte 3".
Error regex_malformed(std::string_view what, std::size_t at);
Error regex_unsupported(std::string_view what, std::size_t at);
Error regex_too_complex(std::string_view what, std::size_t at);

constexpr bool is_regex_digit(char c) {
  return c >= '0' && c <= '9';
}
constexpr bool is_regex_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

}  // namespace espalier::grammar
