// json_writer.h: JSON appended to a string as it is written: the streaming path builds no document.
//
// Commas are put where they belong by looking at what stands before; the caller opens, closes and names.
// Units:   floats are written with the fewest digits that read back as the same float, always with a point or exponent.
// Threads: one.
// Fails:   never; bytes that are not UTF-8 become U+FFFD, numbers that JSON cannot hold become -9999.0 (as OpenAI
//          writes the logarithm of zero).
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace espalier::server {

void append_json_string(std::string& out, std::string_view text);
void append_json_escaped(std::string& out, std::string_view text);  // the same without the quotes
void append_json_number(std::string& out, float value);
void append_json_number(std::string& out, double value);

// Appends JSON to a string, with commas where they belong.
class JsonWriter {
 public:
  // Whatever `out` holds already is left alone and taken for text that is not ours.
  explicit JsonWriter(std::string& out) : out_(out), start_(out.size()) {}

  JsonWriter& open(char bracket) {  // '{' or '['
    comma();
    out_ += bracket;
    return *this;
  }
  JsonWriter& close(char bracket) {
    out_ += bracket;
    return *this;
  }
  JsonWriter& key(std::string_view name) {  // REQUIRES: needs no escaping
    comma();
    out_.append("\"").append(name).append("\":");
    return *this;
  }

  JsonWriter& value(std::string_view text) { return comma(), append_json_string(out_, text), *this; }
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(bool truth) { return raw(truth ? "true" : "false"); }
  template <std::integral I>
  JsonWriter& value(I number) {
    comma();
    fmt::format_to(std::back_inserter(out_), "{}", number);
    return *this;
  }
  template <std::floating_point F>
  JsonWriter& value(F number) {
    return comma(), append_json_number(out_, number), *this;
  }
  JsonWriter& null() { return raw("null"); }
  JsonWriter& raw(std::string_view json) {  // REQUIRES: one whole value
    comma();
    out_ += json;
    return *this;
  }

  template <class V>
  JsonWriter& field(std::string_view name, const V& v) {
    return key(name).value(v);
  }
  JsonWriter& field_or_null(std::string_view name, std::string_view text) {
    key(name);
    return text.empty() ? null() : value(text);
  }
  template <std::integral I>
  JsonWriter& values(std::span<const I> numbers) {
    open('[');
    for (I number : numbers) value(number);
    return close(']');
  }

 private:
  void comma() {
    if (out_.size() == start_) return;
    const char last = out_.back();
    if (last != '{' && last != '[' && last != ':') out_ += ',';
  }

  std::string& out_;
  std::size_t start_;
};

}  // namespace espalier::server
