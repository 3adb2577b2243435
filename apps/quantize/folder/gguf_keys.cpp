#include "quantize/folder/gguf_keys.h"

#include <span>
#include <type_traits>

namespace espalier::quantizer {

void GgufKeys::write(GgufWriter& to) const {
  for (const auto& [key, value] : all)
    std::visit(
        [&](const auto& v) {
          using V = std::decay_t<decltype(v)>;
          if constexpr (std::is_same_v<V, std::string>)
            to.put(key, std::string_view(v));
          else if constexpr (std::is_class_v<V>)
            to.put(key, std::span(v));
          else
            to.put(key, v);
        },
        value);
}

Json GgufKeys::object(std::string_view prefix) const {
  Json object = Json::object();
  for (const auto& [key, value] : all)
    if (key.starts_with(prefix))
      std::visit([&, &name = key](const auto& v) { object[name.substr(prefix.size())] = Json(v); }, value);
  return object;
}

}  // namespace espalier::quantizer
