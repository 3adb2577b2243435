// json_scan.h: where a JSON value ends that comes byte by byte, and what its strings say.
//
// A scan knows the structure, not the values: escapes in strings and the digits of numbers are taken as they are.
// Units:   bytes. Memory: a bit for each open container, at most kDepth.
// Threads: one at a time. Fails: never; what cannot be JSON is `broken`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace espalier {

// Follows one value from its first byte to its last.
class JsonScan {
 public:
  static constexpr std::size_t kDepth = 1000;
  // inside: the byte belongs to the value, which goes on; ended: it is the last; ended_before: the value (a number) was
  // complete without it.
  enum class Step { inside, ended, ended_before, broken };

  void start();
  Step step(char c);  // blanks before the value are inside it
  bool in_string() const { return at_ == At::string || at_ == At::escape; }

 private:
  enum class At { value, first_item, first_key, key, colon, after, string, escape, number, word, broken };
  Step begin_value(char c);
  Step open(char c);
  Step close();
  Step value_ended();
  Step string_step(char c);
  Step word_step(char c);
  Step after_step(char c);
  Step fail();

  At at_ = At::value;
  bool key_ = false;           // the string is a key
  std::vector<bool> objects_;  // of the open containers, which are objects
  std::string_view word_;      // what is left of true, false, null
};

// Decodes a JSON string behind its opening quote.
class JsonStringReader {
 public:
  void start() { *this = {}; }
  bool step(char c, std::string& out);  // appends what is certain; true: `c` is the closing quote

 private:
  void escaped(char c, std::string& out);
  void hex_digit(char c, std::string& out);

  bool escape_ = false;
  int digits_ = 0;  // still to come of \uXXXX
  std::uint32_t unit_ = 0, high_ = 0;
};

// Appends `text` as the inside of a JSON string.
void append_json_escaped(std::string& out, std::string_view text);
std::string json_quoted(std::string_view text);

}  // namespace espalier
