#include "server/openapi/body_schema.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace espalier::server {
namespace {

constexpr double kNoBound = std::numeric_limits<double>::max();

// Whole numbers without a point.
Json bound(double value) {
  if (std::floor(value) == value && std::abs(value) < 1e15) return static_cast<std::int64_t>(value);
  return value;
}

bool fits(const Json& value, const Json& type) {
  if (type == "boolean") return value.is_boolean();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  return false;
}

}  // namespace

Json SchemaOfTarget::typed(const char* type) {
  return {{"type", Json::array({type, "null"})}};
}

Json SchemaOfTarget::number(const char* type) const {
  Json schema = typed(type);
  if (range.low > -kNoBound) schema[range.above_low ? "exclusiveMinimum" : "minimum"] = bound(range.low);
  if (range.high < kNoBound) schema["maximum"] = bound(range.high);
  return schema;
}

void describe_field(Json& schema, std::string_view meaning, std::string_view initial) {
  const auto type = schema.find("type");
  const auto value = parse_json(initial);
  if (type != schema.end() && value.ok() && fits(*value, (*type)[0])) {
    schema["description"] = std::string(meaning);
    schema["default"] = *value;
  } else {
    schema["description"] = initial.empty() ? std::string(meaning) : fmt::format("{} (default: {})", meaning, initial);
  }
}

}  // namespace espalier::server
