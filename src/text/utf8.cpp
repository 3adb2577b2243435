#include "text/utf8.h"

#include <cstdint>

namespace espalier {
namespace {

struct Lead {
  int length;               // of the whole character
  unsigned char low, high;  // range of the second byte
};

Lead lead_of(unsigned char byte) {
  if (byte >= 0xc2 && byte <= 0xdf) return {2, 0x80, 0xbf};
  if (byte == 0xe0) return {3, 0xa0, 0xbf};
  if (byte == 0xed) return {3, 0x80, 0x9f};
  if (byte >= 0xe1 && byte <= 0xef) return {3, 0x80, 0xbf};
  if (byte == 0xf0) return {4, 0x90, 0xbf};
  if (byte == 0xf4) return {4, 0x80, 0x8f};
  if (byte >= 0xf1 && byte <= 0xf3) return {4, 0x80, 0xbf};
  return {0, 0, 0};
}

}  // namespace

Utf8Step utf8_step(std::string_view bytes) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  if (at(0) < 0x80) return {1, at(0), true, false};
  const Lead lead = lead_of(at(0));
  if (lead.length == 0) return {1, 0, false, false};
  char32_t character = at(0) & (0x7fu >> lead.length);
  unsigned char low = lead.low, high = lead.high;
  for (std::size_t i = 1; i < static_cast<std::size_t>(lead.length); ++i) {
    if (i == bytes.size()) return {i, 0, false, true};
    if (at(i) < low || at(i) > high) return {i, 0, false, false};
    character = character << 6 | (at(i) & 0x3fu);
    low = 0x80;
    high = 0xbf;
  }
  return {static_cast<std::size_t>(lead.length), character, true, false};
}

bool is_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const Utf8Step step = utf8_step(bytes);
    if (!step.valid) return false;
    bytes.remove_prefix(step.length);
  }
  return true;
}

std::size_t append_valid_utf8(std::string& out, std::string_view bytes, bool finish) {
  std::size_t used = 0;
  while (used < bytes.size()) {
    const Utf8Step step = utf8_step(bytes.substr(used));
    if (step.incomplete && !finish) break;
    out.append(step.valid ? bytes.substr(used, step.length) : kReplacement);
    used += step.length;
  }
  return used;
}

void append_character(std::string& out, char32_t character) {
  const bool scalar = character < 0xd800 || (character >= 0xe000 && character <= 0x10ffff);
  const std::uint32_t c = scalar ? character : 0xfffd;
  const auto put = [&](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xc0 | c >> 6);
  } else if (c < 0x10000) {
    put(0xe0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3f));
  } else {
    put(0xf0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3f));
    put(0x80 | (c >> 6 & 0x3f));
  }
  put(0x80 | (c & 0x3f));
}

std::size_t count_characters(std::string_view text) {
  std::size_t n = 0;
  for (const char c : text) n += (static_cast<unsigned char>(c) & 0xc0u) != 0x80u;
  return n;
}

}  // namespace espalier
