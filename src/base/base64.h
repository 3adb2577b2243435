// base64.h: bytes as text of the standard alphabet, padded (RFC 4648 section 4).
// Threads: a pure function.
#pragma once

#include <string>
#include <string_view>

namespace espalier {

std::string base64(std::string_view bytes);

}  // namespace espalier
