// base64.h: bytes as text of the standard alphabet, padded (RFC 4648 section 4).
// Threads: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace espalier {

std::string base64(std::string_view bytes);
// Nothing when the text is no base64; the padding may be left out.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace espalier
