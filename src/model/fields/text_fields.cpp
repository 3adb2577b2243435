#include "model/fields/text_fields.h"

namespace espalier {

Json text_fields(const Json& root) {
  Json all = root;
  for (const char* nested : {"text_config", "llm_config", "language_config"}) {
    const Json* text = find_field(root, nested);
    if (text == nullptr || !text->is_object()) continue;
    all.erase(nested);
    for (const auto& [name, value] : text->items())
      if (!value.is_null() || !all.contains(name)) all[name] = value;
    if (const Json* classes = find_field(root, "architectures")) all["architectures"] = *classes;
    break;
  }
  return all;
}

}  // namespace espalier
