#include "grammar/masks/special_code.h"

namespace espalier::grammar {

std::string special_code(TokenId id) {
  std::string code(1, kSpecialByte);
  for (int shift = 18; shift >= 0; shift -= 6)
    code += static_cast<char>(0x80u | ((static_cast<unsigned>(id) >> shift) & 0x3fu));
  return code;
}

std::optional<TokenId> read_special_code(std::string_view bytes) {
  if (bytes.size() < kSpecialCodeBytes || bytes[0] != kSpecialByte) return std::nullopt;
  unsigned id = 0;
  for (const char byte : bytes.substr(1, kSpecialCodeBytes - 1))
    id = id << 6 | (static_cast<unsigned char>(byte) & 0x3fu);
  return static_cast<TokenId>(id);
}

std::string with_special_codes(std::string_view text, const SpecialTexts& special) {
  std::string out;
  while (!text.empty()) {
    const std::pair<std::string, TokenId>* longest = nullptr;
    for (const auto& one : special)
      if (text.starts_with(one.first) && (longest == nullptr || one.first.size() > longest->first.size()))
        longest = &one;
    if (longest != nullptr) {
      out += special_code(longest->second);
      text.remove_prefix(longest->first.size());
    } else {
      out += text.front();
      text.remove_prefix(1);
    }
  }
  return out;
}

}  // namespace espalier::grammar
