// json_text.h: JSON written directly, as text: a document of half a million strings is slow to build as a tree.
// Internal to text.
// Threads: one at a time. Fails: never; the caller writes commas and brackets in their order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace espalier {

// A growing JSON text.
class JsonText {
 public:
  JsonText& raw(std::string_view text) {
    out_.append(text);
    return *this;
  }
  JsonText& string(std::string_view text);
  JsonText& number(std::int64_t n) { return raw(std::to_string(n)); }
  JsonText& boolean(bool b) { return raw(b ? "true" : "false"); }

  // A comma before every element of a list but the first.
  JsonText& next(bool& first) {
    if (!std::exchange(first, false)) out_.push_back(',');
    return *this;
  }

  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

inline JsonText& JsonText::string(std::string_view text) {
  constexpr char hex[] = "0123456789abcdef";
  out_.push_back('"');
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out_.push_back('\\');
      out_.push_back(c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out_.append("\\u00").push_back(hex[c >> 4]);
      out_.push_back(hex[c & 15]);
    } else {
      out_.push_back(c);
    }
  }
  out_.push_back('"');
  return *this;
}

}  // namespace espalier
