// literal_value.h: values that are written otherwise than in JSON, translated while they come.
//
// python: 'it', True, None, (1, 2), {'a': 1}; also true, false, null, as models mix them.
// gemma, function_gemma: strings between marks (<|"|>, <escape>), bare keys, bare words as strings.
// Units:   bytes. Memory: a byte for each open container (at most kDepth), and a word or key of at most kWordMost.
// Threads: one at a time. Fails: never; what is no value is `broken`, and comes out as it was written.
// Source:  Python's literals; Gemma's tool template.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/answer/calls/mark_finder.h"

namespace espalier {

// How values are written.
enum class LiteralDialect { python, gemma, function_gemma };

// Translates one value.
class LiteralValue {
 public:
  static constexpr std::size_t kDepth = 1000, kWordMost = 4096;
  // inside: the byte belongs to the value; ended: it is the last; ended_before: the value was complete without it.
  enum class Step { inside, ended, ended_before, broken };

  void start(LiteralDialect dialect);
  Step step(char c, std::string& json);  // appends what is certain
  bool finish(std::string& json);        // the text ended; true: so did the value

 private:
  enum class At { value, word, string, escape, code, marked, key, colon, after, broken };
  bool python() const { return dialect_ == LiteralDialect::python; }
  bool in_object() const { return !open_.empty() && open_.back() == '{'; }
  Step value_step(char c, std::string& json);
  Step open(char c, std::string& json);
  Step close(char c, std::string& json);
  Step after_value();
  Step after_step(char c, std::string& json);
  Step word_step(char c, std::string& json);
  bool word_ended(std::string& json);
  Step quoted_step(char c, std::string& json);
  Step escape_step(char c, std::string& json);
  Step code_step(char c, std::string& json);
  Step marked_step(char c, std::string& json);
  Step key_step(char c, std::string& json);
  Step fail(char c, std::string& json);
  void separate(std::string& json);

  LiteralDialect dialect_ = LiteralDialect::python;
  At at_ = At::value;
  std::string open_;        // the open containers: [ ( {
  bool comma_ = false;      // goes before the next item
  bool may_close_ = false;  // nothing, or a comma, came since the container was opened or had an item
  char quote_ = 0;
  bool key_ = false;  // the string is a key
  std::string word_;
  int digits_ = 0;  // still to come of an escape
  char32_t code_ = 0;
  MarkFinder delimiter_;
};

// The whole text as JSON; nothing where it is no value.
std::optional<std::string> literal_json(std::string_view text, LiteralDialect dialect);

}  // namespace espalier
