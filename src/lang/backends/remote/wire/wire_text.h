// wire_text.h: JSON as it goes over the wire.
#pragma once

#include <string>

#include "espalier/json.h"

namespace espalier::lang {

// A text that is no UTF-8 gets replacement characters: no JSON could carry it.
inline std::string wire_text(const Json& body) {
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace espalier::lang
