// media_type.h: what kind of picture some bytes are, by how they begin.
#pragma once

#include <string_view>

namespace espalier::lang {

// "image/png", "image/jpeg", "image/webp", "image/gif", "image/bmp"; empty for anything else.
inline std::string_view media_type_of(std::string_view bytes) {
  using namespace std::string_view_literals;
  if (bytes.starts_with("\x89PNG\r\n\x1a\n"sv)) return "image/png";
  if (bytes.starts_with("\xff\xd8\xff"sv)) return "image/jpeg";
  if (bytes.starts_with("GIF8"sv)) return "image/gif";
  if (bytes.starts_with("BM"sv)) return "image/bmp";
  if (bytes.starts_with("RIFF"sv) && bytes.size() >= 12 && bytes.substr(8, 4) == "WEBP") return "image/webp";
  return {};
}

}  // namespace espalier::lang
