// json_text.h: the character-level rules of the JSON reader. Internal to base.
// Units:   bytes; every function looks only at [at, end).
// Threads: pure functions. Fails: as each says.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>

namespace espalier {

inline bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Whether one of eight bytes ends a run of plain ASCII inside a string: '"', '\\', a control character or a byte of
// 0x80 and above. A borrow can only come from a byte that is itself reported, so "none" is exact.
inline bool has_special(std::uint64_t bytes) {
  constexpr std::uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;
  const std::uint64_t quote = bytes ^ (ones * '"'), backslash = bytes ^ (ones * '\\');
  const std::uint64_t found = (quote - ones) | (backslash - ones) | (bytes - ones * 0x20) | bytes;
  return (found & tops) != 0;
}

// The length of the character of two to four bytes at `at`; 0 unless it is as RFC 3629 allows: the shortest form, no
// surrogate, at most U+10FFFF.
inline int utf8_sequence(const char* at, const char* end) {
  const auto byte = [&](int i) { return end - at > i ? static_cast<unsigned char>(at[i]) : 0u; };
  const auto continues = [&](int i) { return (byte(i) & 0xc0u) == 0x80u; };
  const unsigned lead = byte(0), second = byte(1);
  if (lead >= 0xc2 && lead <= 0xdf) return continues(1) ? 2 : 0;
  if ((lead & 0xf0u) == 0xe0) {
    const bool too_long = lead == 0xe0 && second < 0xa0, surrogate = lead == 0xed && second >= 0xa0;
    return continues(1) && continues(2) && !too_long && !surrogate ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    const bool too_long = lead == 0xf0 && second < 0x90, too_large = lead == 0xf4 && second >= 0x90;
    return continues(1) && continues(2) && continues(3) && !too_long && !too_large ? 4 : 0;
  }
  return 0;
}

// Requires: `code` is a Unicode scalar value.
inline void append_utf8(std::string& out, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  const auto tail = [&](int shift) { put(0x80 | ((code >> shift) & 0x3f)); };
  if (code < 0x80) return put(code);
  if (code < 0x800) return put(0xc0 | (code >> 6)), tail(0);
  if (code < 0x10000) return put(0xe0 | (code >> 12)), tail(6), tail(0);
  put(0xf0 | (code >> 18)), tail(12), tail(6), tail(0);
}

// For a JSON number with fraction or exponent that from_chars found out of range: is it too large rather than too
// small? The place of its first digit that is not 0, counted from the decimal point, plus the exponent, says so.
inline bool exceeds_one(const char* at, const char* end) {
  const char* exponent = std::find_if(at, end, [](char c) { return c == 'e' || c == 'E'; });
  const char* point = std::find(at, exponent, '.');
  const char* leading = std::find_if(at, exponent, [](char c) { return c >= '1' && c <= '9'; });
  std::int64_t place = leading < point ? point - leading : point + 1 - leading;
  if (exponent < end) {
    const char* digits = exponent + 1 + (exponent[1] == '+');
    std::int64_t power = 0;
    const bool huge = std::from_chars(digits, end, power).ec == std::errc::result_out_of_range;
    if (huge || power > 1'000'000 || power < -1'000'000) return *digits != '-';
    place += power;
  }
  return place > 0;
}

}  // namespace espalier
