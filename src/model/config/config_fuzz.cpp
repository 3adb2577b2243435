// Any bytes as config.json and as generation_config.json: refused with a sentence that names the file, or
// the configuration keeps the promises of config.h.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "model/config/hf_config.h"
#include "model/fields/fields.h"

namespace {

void require(bool promise) {
  if (!promise) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto config = read_hf_config(text, "c.json");
  if (config.ok()) {
    require(!config->spec.layers.empty() && config->spec.layers.size() <= ConfigLimits::layers);
    require(config->spec.hidden >= 1 && config->spec.hidden <= ConfigLimits::hidden);
    require(config->context_length >= 1 && config->context_length <= ConfigLimits::positions);
    for (const TokenId id : config->eos) require(id >= 0 && id < config->vocabulary);
  } else {
    require(config.error().kind == Error::Kind::bad_file && config.error().message.starts_with("c.json: "));
  }
  auto defaults = read_generation_config(text, "g.json");
  require(defaults.ok() || defaults.error().message.starts_with("g.json: "));
  return 0;
}
