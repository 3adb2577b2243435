#include "text/jinja/values/unicode.h"

#include <algorithm>

#include "text/rust/tokenizer_ffi.h"
#include "text/utf8.h"

namespace espalier::jinja {
namespace {

bool has(char32_t c, std::uint32_t property) {
  return (espalier_unicode_properties(c) & property) != 0;
}

bool is_ascii_letter(char32_t c) {
  return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
}

}  // namespace

bool is_space(char32_t c) {
  return c < 0x80 ? c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x1f) : has(c, ESPALIER_SPACE);
}
bool is_alphabetic(char32_t c) {
  return c < 0x80 ? is_ascii_letter(c) : has(c, ESPALIER_ALPHABETIC);
}
bool is_numeric(char32_t c) {
  return c < 0x80 ? c >= '0' && c <= '9' : has(c, ESPALIER_NUMERIC);
}
bool is_upper(char32_t c) {
  return c < 0x80 ? c >= 'A' && c <= 'Z' : has(c, ESPALIER_UPPER);
}
bool is_lower(char32_t c) {
  return c < 0x80 ? c >= 'a' && c <= 'z' : has(c, ESPALIER_LOWER);
}
bool is_printable(char32_t c) {
  return c < 0x80 ? c >= ' ' && c < 0x7f : has(c, ESPALIER_PRINTABLE);
}

void append_case(std::string& out, char32_t c, Case to) {
  if (c < 0x80) {
    const bool change = to == Case::lower ? is_upper(c) : is_lower(c);
    out.push_back(static_cast<char>(change ? c ^ 0x20 : c));
    return;
  }
  std::uint32_t converted[3];
  const std::uint32_t n = espalier_unicode_convert(c, static_cast<std::uint32_t>(to), converted);
  for (std::uint32_t i = 0; i < n; ++i) append_character(out, converted[i]);
}

std::string to_case(std::string_view text, Case to) {
  std::string out;
  out.reserve(text.size());
  for (Characters all(text); !all.done();) append_case(out, all.next(), to);
  return out;
}

std::string_view trim_left(std::string_view text) {
  while (!text.empty()) {
    const Utf8Step step = utf8_step(text);
    if (!step.valid || !is_space(step.character)) break;
    text.remove_prefix(step.length);
  }
  return text;
}

std::string_view trim_right(std::string_view text) {
  while (!text.empty()) {
    std::size_t begin = text.size() - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xc0u) == 0x80u) --begin;
    const Utf8Step step = utf8_step(text.substr(begin));
    if (!step.valid || begin + step.length != text.size() || !is_space(step.character)) break;
    text = text.substr(0, begin);
  }
  return text;
}

std::size_t name_length(std::string_view text) {
  std::size_t size = 0;
  while (size < text.size()) {
    const Utf8Step step = utf8_step(text.substr(size));
    const bool letter = step.valid && (step.character == '_' || is_alphabetic(step.character));
    if (!letter && !(size > 0 && step.valid && is_numeric(step.character))) break;
    size += step.length;
  }
  return size;
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

std::size_t byte_of(std::string_view text, std::size_t character) {
  std::size_t i = 0;
  for (; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0u) == 0x80u) continue;
    if (character-- == 0) break;
  }
  return i;
}

char32_t Characters::next() {
  const Utf8Step step = utf8_step(rest_);
  rest_.remove_prefix(step.length);
  return step.valid ? step.character : U'\ufffd';
}

}  // namespace espalier::jinja
