#include "grammar/regex/regex_cursor.h"

#include <fmt/format.h>

#include "text/utf8.h"

namespace espalier::grammar {

std::uint32_t RegexCursor::take_character() {
  const Utf8Step step = utf8_step(rest());
  at_ += step.length;
  return step.character;
}

Error regex_malformed(std::string_view what, std::size_t at) {
  return bad_request(fmt::format("regex: {} at byte {}", what, at), {}, "grammar_invalid");
}

Error regex_unsupported(std::string_view what, std::size_t at) {
  return {Error::Kind::unsupported, fmt::format("regex: {} at byte {} cannot be honoured", what, at), {}, {}};
}

Error regex_too_complex(std::string_view what, std::size_t at) {
  return {Error::Kind::too_large, fmt::format("regex: {} at byte {}", what, at), {}, "grammar_too_complex"};
}

}  // namespace espalier::grammar
