// Any bytes as JSON: refused with a sentence, or accepted and then exactly what the library reads and what its own
// writing reads back as.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto parsed = espalier::parse_json(text);
  if (!parsed.ok()) {
    if (parsed.error().message.empty()) std::abort();
    return 0;
  }
  if (espalier::Json::parse(text, nullptr, false) != *parsed) std::abort();
  auto again = espalier::parse_json(parsed->dump());
  if (!again.ok() || *again != *parsed) std::abort();
  return 0;
}
