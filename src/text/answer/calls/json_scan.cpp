#include "text/answer/calls/json_scan.h"

#include <fmt/format.h>

#include "text/answer/calls/mark_finder.h"
#include "text/utf8.h"

namespace espalier {

void JsonScan::start() {
  at_ = At::value;
  objects_.clear();
}

JsonScan::Step JsonScan::step(char c) {
  if (in_string()) return string_step(c);
  if (at_ == At::word) return word_step(c);
  if (at_ == At::number) {
    if ((c >= '0' && c <= '9') || c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-') return Step::inside;
    at_ = At::after;
    if (objects_.empty()) return Step::ended_before;
  }
  if (at_ == At::broken) return Step::broken;
  if (is_blank(c)) return Step::inside;
  switch (at_) {
    case At::value:
      return begin_value(c);
    case At::first_item:
      return c == ']' ? close() : begin_value(c);
    case At::first_key:
      if (c == '}') return close();
      [[fallthrough]];
    case At::key:
      if (c != '"') return fail();
      key_ = true;
      at_ = At::string;
      return Step::inside;
    case At::colon:
      if (c != ':') return fail();
      at_ = At::value;
      return Step::inside;
    default:
      return after_step(c);
  }
}

JsonScan::Step JsonScan::begin_value(char c) {
  if (c == '{' || c == '[') return open(c);
  if (c == '"') {
    key_ = false;
    at_ = At::string;
  } else if (c == '-' || (c >= '0' && c <= '9')) {
    at_ = At::number;
  } else if (c == 't' || c == 'f' || c == 'n') {
    word_ = c == 't' ? "rue" : c == 'f' ? "alse" : "ull";
    at_ = At::word;
  } else {
    return fail();
  }
  return Step::inside;
}

JsonScan::Step JsonScan::open(char c) {
  if (objects_.size() == kDepth) return fail();
  objects_.push_back(c == '{');
  at_ = c == '{' ? At::first_key : At::first_item;
  return Step::inside;
}

JsonScan::Step JsonScan::close() {
  objects_.pop_back();
  return value_ended();
}

JsonScan::Step JsonScan::value_ended() {
  at_ = At::after;
  return objects_.empty() ? Step::ended : Step::inside;
}

JsonScan::Step JsonScan::string_step(char c) {
  if (at_ == At::escape) {
    at_ = At::string;
  } else if (c == '\\') {
    at_ = At::escape;
  } else if (c == '"') {
    if (!key_) return value_ended();
    at_ = At::colon;
  }
  return Step::inside;
}

JsonScan::Step JsonScan::word_step(char c) {
  if (c != word_.front()) return fail();
  word_.remove_prefix(1);
  return word_.empty() ? value_ended() : Step::inside;
}

JsonScan::Step JsonScan::after_step(char c) {
  if (objects_.empty()) return fail();
  if (c == ',') {
    at_ = objects_.back() ? At::key : At::value;
    return Step::inside;
  }
  return c == (objects_.back() ? '}' : ']') ? close() : fail();
}

JsonScan::Step JsonScan::fail() {
  at_ = At::broken;
  return Step::broken;
}

bool JsonStringReader::step(char c, std::string& out) {
  if (digits_ > 0) {
    hex_digit(c, out);
    return false;
  }
  if (escape_) {
    escape_ = false;
    escaped(c, out);
    return false;
  }
  if (c == '\\') {
    escape_ = true;
    return false;
  }
  if (high_ != 0) append_character(out, high_);  // a half of a pair alone
  high_ = 0;
  if (c == '"') return true;
  out += c;
  return false;
}

void JsonStringReader::escaped(char c, std::string& out) {
  if (c == 'u') {
    digits_ = 4;
    unit_ = 0;
    return;
  }
  if (high_ != 0) append_character(out, high_);
  high_ = 0;
  constexpr std::string_view letters = "nrtbf", values = "\n\r\t\b\f";
  const std::size_t i = letters.find(c);
  out += i == letters.npos ? c : values[i];
}

void JsonStringReader::hex_digit(char c, std::string& out) {
  const int value = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : 0;
  unit_ = unit_ * 16 + static_cast<std::uint32_t>(value);
  if (--digits_ > 0) return;
  const bool low = unit_ >= 0xdc00 && unit_ < 0xe000;
  if (high_ != 0 && low) {
    append_character(out, 0x10000 + ((high_ - 0xd800) << 10) + (unit_ - 0xdc00));
    high_ = 0;
    return;
  }
  if (high_ != 0) append_character(out, high_);
  high_ = unit_ >= 0xd800 && unit_ < 0xdc00 ? unit_ : 0;
  if (high_ == 0) append_character(out, unit_);
}

void append_json_escaped(std::string& out, std::string_view text) {
  constexpr std::string_view controls = "\n\r\t\b\f", letters = "nrtbf";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) >= 0x20) {
      out += c;
    } else if (const std::size_t i = controls.find(c); i != controls.npos) {
      out += '\\';
      out += letters[i];
    } else {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned char>(c));
    }
  }
}

std::string json_quoted(std::string_view text) {
  std::string out = "\"";
  append_json_escaped(out, text);
  return out += '"';
}

}  // namespace espalier
