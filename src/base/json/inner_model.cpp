#include "base/json/inner_model.h"

#include "base/json/json_fields.h"

namespace espalier {

Json with_inner_model(Json config) {
  const Json* found = find_field(config, "vlm_config");
  if (found == nullptr || !found->is_object()) return config;
  Json inner = *found;
  for (const auto& [name, value] : config.items())
    if (name != "vlm_config" && (!inner.contains(name) || name == "architectures")) inner[name] = value;
  return inner;
}

}  // namespace espalier
