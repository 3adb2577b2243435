// Any bytes as JSON: refused with a sentence, or accepted and then exactly what the library reads and what its own
// writing reads back as. Objects that stay text are refused no more than others, and are JSON.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/json/checkpoint_json.h"
#include "base/json/json.h"

namespace {

constexpr espalier::JsonStep kPlaces[] = {{0, "a", espalier::JsonStep::as_text}, {0, "b", 0}};

// Of a document that was read with kPlaces.
void check_kept(const espalier::Json& value) {
  if (value.is_array()) {
    for (const espalier::Json& item : value) check_kept(item);
  }
  if (!value.is_object()) return;
  for (const auto& [name, member] : value.items()) {
    if (name == "a" && member.is_object()) std::abort();
    if (name == "b") check_kept(member);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto parsed = espalier::parse_json(text);
  espalier::JsonLimits limits;
  limits.places = kPlaces;
  const auto kept = espalier::parse_json(text, limits);
  if (kept.ok()) check_kept(*kept);
  if (parsed.ok() && !kept.ok()) std::abort();
  const auto lenient = espalier::parse_checkpoint_json(text);
  if (parsed.ok() && (!lenient.ok() || *lenient != *parsed)) std::abort();
  if (!parsed.ok()) {
    if (parsed.error().message.empty()) std::abort();
    return 0;
  }
  if (espalier::Json::parse(text, nullptr, false) != *parsed) std::abort();
  auto again = espalier::parse_json(parsed->dump());
  if (!again.ok() || *again != *parsed) std::abort();
  return 0;
}
