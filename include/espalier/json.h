// json.h: the JSON value that public headers speak of. Reading and its limits: base/json/json.h.
#pragma once

#include <nlohmann/json.hpp>

namespace espalier {

using Json = nlohmann::ordered_json;  // objects keep their order

}  // namespace espalier
