// special_code.h: how a special token stands among the bytes that a grammar reads: 0xFF, which no text in UTF-8 has, and
// its id in four bytes of six bits.
//
// So a special token comes where a constraint names it, and nowhere else: no string and no free text reads its code, and
// no other token is a part of it.
// Threads: pure functions. Fails: never.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/types.h"

namespace espalier::grammar {

inline constexpr char kSpecialByte = '\xff';
inline constexpr std::size_t kSpecialCodeBytes = 5;

std::string special_code(TokenId id);
// The token whose code stands at the front of `bytes`; nothing where none does, or not all of it.
std::optional<TokenId> read_special_code(std::string_view bytes);

// Texts of special tokens, each with its token.
using SpecialTexts = std::vector<std::pair<std::string, TokenId>>;
// The text with the codes of those that stand in it; of several at one place the longest counts.
std::string with_special_codes(std::string_view text, const SpecialTexts& special);

}  // namespace espalier::grammar
