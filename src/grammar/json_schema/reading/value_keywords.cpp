// Keywords for values of any type.
#include <fmt/format.h>

#include "grammar/json_schema/reading/equal_values.h"
#include "grammar/json_schema/reading/keywords.h"

namespace espalier::grammar {

using Kind = Demand::Kind;

namespace {

std::uint32_t types_named(std::string_view name) {
  if (name == "null") return kNull;
  if (name == "boolean") return kBoolean;
  if (name == "integer") return kInteger;
  if (name == "number") return kNumber;
  if (name == "string") return kString;
  if (name == "array") return kArray;
  if (name == "object") return kObject;
  return name == "any" ? std::uint32_t{kAnyType} : 0u;  // draft 3
}

Result<> read_draft3_only(Reading& in, std::string_view keyword, std::string_view instead) {
  if (in.draft() != Draft::three) return success();  // a name like any other
  return in.refuse(keyword, fmt::format("is of draft 3 and not supported; {} says the same", instead));
}

}  // namespace

Result<> read_ref(Reading& in, const Json& value) {
  if (!value.is_string()) return in.malformed("$ref", "a string");
  ESP_TRY(const SchemaNumber target, in.document().resolve(in.number, value.get_ref<const std::string&>()));
  in.parts.push_back(in.applied(target));
  return success();
}

Result<> read_dynamic_ref(Reading& in, const Json& value) {
  const bool recursive = in.find("$recursiveRef") == &value;
  if (in.draft() != (recursive ? Draft::of_2019 : Draft::of_2020)) return success();
  if (!value.is_string()) return in.malformed(recursive ? "$recursiveRef" : "$dynamicRef", "a string");
  ESP_TRY(const SchemaNumber target,
          in.document().resolve_dynamic(in.number, value.get_ref<const std::string&>(), recursive));
  in.parts.push_back(in.applied(target));
  return success();
}

Result<> read_type(Reading& in, const Json& value) {
  std::uint32_t types = 0;
  const auto add = [&](const Json& name) {
    const std::uint32_t named = name.is_string() ? types_named(name.get_ref<const std::string&>()) : 0;
    types |= named;
    return named != 0;
  };
  bool good = value.is_array() ? !value.empty() : add(value);
  if (value.is_array()) {
    for (const Json& name : value) good = good && add(name);
  }
  if (!good) {
    return in.malformed("type", "null, boolean, integer, number, string, array, object, or a list of them");
  }
  in.parts.push_back(in.one(Kind::type, types));
  return success();
}

Result<> read_enum(Reading& in, const Json& value) {
  if (!value.is_array()) return in.malformed("enum", "a list of values");
  std::vector<Formula> ways;
  for (const Json& one_value : value) {
    ESP_TRY(const Formula way, EqualValues(in.tables()).of(one_value));
    ways.push_back(way);
  }
  in.parts.push_back(in.tables().formulas.any(ways));
  return success();
}

Result<> read_const(Reading& in, const Json& value) {
  ESP_TRY(const Formula equal, EqualValues(in.tables()).of(value));
  in.parts.push_back(equal);
  return success();
}

Result<> read_extends(Reading& in, const Json&) {
  return read_draft3_only(in, "extends", "allOf of a later draft");
}

Result<> read_disallow(Reading& in, const Json&) {
  return read_draft3_only(in, "disallow", "not of a later draft");
}

}  // namespace espalier::grammar
