#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/base64.h"
#include "net/http/request_target.h"
#include "server/media/media_fetch.h"
#include "server/media/media_source.h"

namespace espalier::server {
namespace {

// The URL's own alphabet and line breaks, which some clients send, as the standard's.
std::string standard_base64(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (std::isspace(static_cast<unsigned char>(c)) != 0) continue;
    out += c == '-' ? '+' : c == '_' ? '/' : c;
  }
  return out;
}

Result<std::string> from_any_base64(std::string_view text, std::size_t most, std::string_view place) {
  if (text.size() / 4 * 3 > most)
    return invalid_image(
        fmt::format("{} has {} bytes, but a picture's file may have {} at most", place, text.size() / 4 * 3, most),
        place);
  auto bytes = from_base64(text);
  if (!bytes) bytes = from_base64(standard_base64(text));
  if (!bytes || bytes->empty())
    return invalid_image(fmt::format("{} is no base64: send a picture's file as a data URL", place), place);
  return *std::move(bytes);
}

}  // namespace

Result<std::string> bytes_of_data_url(std::string_view address, std::size_t most, std::string_view place) {
  constexpr std::size_t kData = 5;  // "data:"
  const bool is_url = address.size() > kData && address[4] == ':' && (address[0] == 'd' || address[0] == 'D');
  if (!is_url) return from_any_base64(address, most, place);
  const std::size_t comma = address.find(',');
  if (comma == address.npos)
    return invalid_image(fmt::format("{} is a data URL without a comma: data:image/png;base64,...", place), place);
  const std::string_view head = address.substr(kData, comma - kData), data = address.substr(comma + 1);
  if (head.ends_with(";base64")) return from_any_base64(data, most, place);
  if (data.size() / 3 > most) return invalid_image(fmt::format("{} is too large", place), place);
  auto bytes = net::percent_decode(data);
  if (!bytes) return invalid_image(fmt::format("{} is a data URL whose percent signs are wrong", place), place);
  return *std::move(bytes);
}

}  // namespace espalier::server
