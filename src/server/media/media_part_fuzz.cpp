// Parts of messages that bring pictures, and the bytes in their addresses: what is refused says why.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/json/json.h"
#include "server/media/media_fetch.h"
#include "server/media/media_source.h"

using namespace espalier;
using namespace espalier::server;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto address = bytes_of_data_url(text, 1 << 16, "address");
  if (!address.ok() && (address.error().code != "invalid_image" || address.error().field != "address")) std::abort();
  if (address.ok() && address->size() > (1 << 16) + 3) std::abort();
  const auto json = parse_json(text);
  if (!json.ok()) return 0;
  const auto part = read_media_part(*json, "part");
  if (!part.ok() && part.error().http_status() != 400) std::abort();
  if (part.ok() && *part && (*part)->addresses.empty() == (*part)->upload.empty()) std::abort();
  const auto list = read_media_list(*json, MediaSource::Kind::picture, "image_data");
  if (!list.ok() && list.error().http_status() != 400) std::abort();
  return 0;
}
