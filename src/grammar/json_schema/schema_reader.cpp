#include "grammar/json_schema/schema_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>
#include <utility>

#include "base/yield_to_model.h"
#include "grammar/json_schema/formats.h"

namespace espalier::grammar {
namespace {

using Kind = Demand::Kind;

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

// The strings of a list.
std::unordered_set<std::string_view> strings_in(const Json* list) {
  std::unordered_set<std::string_view> strings;
  if (list == nullptr || !list->is_array()) return strings;
  for (const Json& one : *list)
    if (one.is_string()) strings.insert(one.get_ref<const std::string&>());
  return strings;
}

// Whether closing could leave out some value: most conditions are of single values, and need not be read twice.
bool may_close(const Json& schema) {
  const auto holds_schema = [](const Json& value) {
    return value.is_object() || (value.is_array() && std::ranges::any_of(value, &Json::is_object));
  };
  const auto type = schema.find("type");
  if (type != schema.end() && (*type == "object" || *type == "array")) return true;
  return std::ranges::any_of(schema, holds_schema) || schema.contains("$ref") || schema.contains("$dynamicRef") ||
         schema.contains("$recursiveRef") || schema.contains("prefixItems");
}

}  // namespace

// In this order, whatever the schema's: declared properties come before names that only `required` mentions.
const std::vector<SchemaReader::Keyword>& SchemaReader::keywords() {
  using Self = SchemaReader;
  static const std::vector<Keyword> table{
      {"type", &Self::read_type},
      {"enum", &Self::read_enum},
      {"const", &Self::read_const},
      {"minLength", &Self::read_min_length},
      {"maxLength", &Self::read_max_length},
      {"pattern", &Self::read_pattern},
      {"format", &Self::read_format},
      {"minimum", &Self::read_minimum},
      {"maximum", &Self::read_maximum},
      {"exclusiveMinimum", &Self::read_exclusive_minimum},
      {"exclusiveMaximum", &Self::read_exclusive_maximum},
      {"multipleOf", &Self::read_multiple_of},
      {"divisibleBy", &Self::read_multiple_of},
      {"prefixItems", &Self::read_prefix_items},
      {"items", &Self::read_items},
      {"additionalItems", &Self::read_additional_items},
      {"contains", &Self::read_contains},
      {"minItems", &Self::read_min_items},
      {"maxItems", &Self::read_max_items},
      {"uniqueItems", &Self::read_unique_items},
      {"properties", &Self::read_properties, true},
      {"$ref", &Self::read_ref, true},
      {"$dynamicRef", &Self::read_dynamic_ref},
      {"$recursiveRef", &Self::read_dynamic_ref},
      {"allOf", &Self::read_all_of, true},
      {"anyOf", &Self::read_any_of},
      {"oneOf", &Self::read_one_of},
      {"if", &Self::read_if},
      {"not", &Self::read_not},
      {"patternProperties", &Self::read_pattern_properties},
      {"additionalProperties", &Self::read_additional_properties},
      {"propertyNames", &Self::read_property_names},
      {"required", &Self::read_required},
      {"minProperties", &Self::read_min_properties},
      {"maxProperties", &Self::read_max_properties},
      {"dependentRequired", &Self::read_dependent_required},
      {"dependentSchemas", &Self::read_dependent_schemas},
      {"dependencies", &Self::read_dependencies},
      {"unevaluatedProperties", &Self::read_unevaluated_properties},
      {"unevaluatedItems", &Self::read_unevaluated_items},
      {"extends", &Self::read_extends},
      {"disallow", &Self::read_disallow},
  };
  return table;
}

Error SchemaReader::refuse(const Reading& in, std::string_view keyword, std::string_view why) const {
  const std::string place = document_.pointer(in.number) + pointer_token(keyword);
  return {Error::Kind::unsupported, fmt::format("JSON schema: {} at {} {}", keyword, place, why), place, {}};
}

Error SchemaReader::malformed(const Reading& in, std::string_view keyword, std::string_view wanted,
                              std::optional<std::string_view> token) const {
  std::string place = document_.pointer(in.number) + pointer_token(keyword);
  if (token) place += pointer_token(*token);
  return bad_request(fmt::format("JSON schema: {} at {} must be {}", keyword, place, wanted), place, "grammar_invalid");
}

Formula SchemaReader::one(Kind kind, std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  return tables_.formulas.one({kind, a, b, c});
}

// The formula for values of these types, whatever it says of others.
Formula SchemaReader::typed(std::uint32_t types, Formula formula) {
  return tables_.formulas.any(one(Kind::type, ~types & kAnyType), formula);
}

Formula SchemaReader::applied(const Reading& in, SchemaNumber number) {
  if (in.as_written && known_conditions_.insert(number).second) conditions_.push_back(number);
  return one(Kind::schema, number, in.as_written ? 1 : 0);
}

Formula SchemaReader::subschema(const Reading& in, const Json& value, std::string_view keyword,
                                std::string_view token) {
  if (!tables_.goes_on()) return FormulaStore::never;
  if (value.is_boolean()) return value.get<bool>() ? FormulaStore::always : FormulaStore::never;
  if (value.is_object() && value.empty()) return FormulaStore::always;
  return applied(in, document_.number(value, in.number, keyword, token));
}

Formula SchemaReader::condition(const Reading& in, const Json& value, std::string_view keyword,
                                std::string_view token) {
  const bool as_written = in.as_written || (closes_ && may_close(value));
  return subschema({in.number, in.schema, as_written}, value, keyword, token);
}

Result<Formula> SchemaReader::formula(SchemaNumber number, bool as_written) {
  const std::uint64_t key = std::uint64_t{number} * 2 + (as_written ? 1 : 0);
  if (const auto known = formulas_.find(key); known != formulas_.end()) return known->second;
  yield_to_model();
  const Json& schema = document_.schema(number);
  Reading in{number, schema, as_written};
  if (schema.is_boolean()) return formulas_[key] = schema.get<bool>() ? FormulaStore::always : FormulaStore::never;
  if (!schema.is_object()) {
    return bad_request(fmt::format("JSON schema: {} must be an object or a boolean, but is {}",
                                   document_.pointer(number), type_name(schema)),
                       document_.pointer(number), "grammar_invalid");
  }
  const bool only_ref = schema.contains("$ref") && document_.draft(number) <= Draft::seven;
  bool ordered_read = false;
  for (const Keyword& keyword : keywords()) {
    if (keyword.in_order) {
      if (!std::exchange(ordered_read, true)) ESP_CHECK(read_in_order(in, only_ref));
      continue;
    }
    const auto value = only_ref ? schema.end() : schema.find(keyword.name);
    if (value != schema.end()) ESP_CHECK((this->*keyword.read)(in, *value));
  }
  if (!only_ref && closes_ && !as_written) close(in);
  return formulas_[key] = tables_.formulas.all(in.parts);
}

// Keywords that name members, one after the other as the document has them.
Result<> SchemaReader::read_in_order(Reading& in, bool only_ref) {
  for (const auto& [name, value] : in.schema.items()) {
    if (only_ref && name != "$ref") continue;
    const auto keyword = std::ranges::find(keywords(), std::string_view(name), &Keyword::name);
    if (keyword != keywords().end() && keyword->in_order) ESP_CHECK((this->*keyword->read)(in, value));
  }
  return success();
}

// ---- what every type has

Result<> SchemaReader::read_ref(Reading& in, const Json& value) {
  if (!value.is_string()) return malformed(in, "$ref", "a string");
  ESP_TRY(const SchemaNumber target, document_.resolve(in.number, value.get_ref<const std::string&>()));
  in.parts.push_back(applied(in, target));
  return success();
}

Result<> SchemaReader::read_dynamic_ref(Reading& in, const Json& value) {
  const bool recursive = in.find("$recursiveRef") == &value;
  if (document_.draft(in.number) != (recursive ? Draft::of_2019 : Draft::of_2020)) return success();
  if (!value.is_string()) return malformed(in, recursive ? "$recursiveRef" : "$dynamicRef", "a string");
  ESP_TRY(const SchemaNumber target,
          document_.resolve_dynamic(in.number, value.get_ref<const std::string&>(), recursive));
  in.parts.push_back(applied(in, target));
  return success();
}

Result<> SchemaReader::read_type(Reading& in, const Json& value) {
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
    return malformed(in, "type", "null, boolean, integer, number, string, array, object, or a list of them");
  }
  in.parts.push_back(one(Kind::type, types));
  return success();
}

Result<Formula> SchemaReader::equal_to(const Json& value) {
  FormulaStore& f = tables_.formulas;
  if (!tables_.goes_on()) return FormulaStore::never;
  if (value.is_null()) return one(Kind::type, kNull);
  if (value.is_boolean()) {
    const Formula truth = one(Kind::is_true, 0);
    return f.all(one(Kind::type, kBoolean), value.get<bool>() ? truth : f.no(truth));
  }
  if (value.is_string()) {
    return f.all(one(Kind::type, kString), one(Kind::equals, tables_.text(value.get_ref<const std::string&>())));
  }
  if (const std::string text = written_number(value); !text.empty()) {
    if (reads_written_) return equal_to_written(text);
    const auto number = decimal_of(text);
    if (!number) return bad_request("JSON schema: the number " + text + " is too long", "", "grammar_invalid");
    const std::uint32_t place = tables_.decimal(*number);
    if (text != number->text() && text.find_first_of("eE") == std::string::npos) {
      tables_.spellings[place].push_back(text);
    }
    return f.all(one(Kind::type, kNumber), one(Kind::equals, place, 1));
  }
  std::vector<Formula> parts{one(Kind::type, value.is_array() ? kArray : kObject)};
  if (value.is_array()) {
    const auto size = static_cast<std::uint32_t>(value.size());
    for (std::uint32_t i = 0; i < size; ++i) {
      ESP_TRY(const Formula item, equal_to(value[i]));
      parts.push_back(one(Kind::item, i, item));
    }
    parts.push_back(one(Kind::min_items, size));
    parts.push_back(one(Kind::max_items, size));
    return f.all(parts);
  }
  NameSet all_names;
  for (const auto& [name, member] : value.items()) {
    ESP_TRY(const Formula equal, equal_to(member));
    all_names.names.push_back(tables_.text(name));
    parts.push_back(one(Kind::property, all_names.names.back(), equal));
    parts.push_back(one(Kind::required, all_names.names.back()));
  }
  parts.push_back(one(Kind::additional, tables_.name_set(std::move(all_names)), FormulaStore::never));
  return f.all(parts);
}

// A number that has been written. One of more than 600 digits, or with an exponent that nobody can write out, stands
// for its neighbours too: those beyond 10^39, or with the same first 40 digits behind the point.
Formula SchemaReader::equal_to_written(const std::string& number) {
  constexpr std::size_t kMostExact = 600, kDigits = 40;
  FormulaStore& f = tables_.formulas;
  const auto exact = decimal_of(number, std::max(kMostDigits, number.size()));
  if (exact && exact->whole.size() + exact->fraction.size() <= kMostExact)
    return f.all(one(Kind::type, kNumber), one(Kind::equals, tables_.decimal(*exact), 1));
  const bool negative = number.starts_with('-');
  const Kind inwards = negative ? Kind::at_most : Kind::at_least, outwards = negative ? Kind::at_least : Kind::at_most;
  const bool is_tiny = !exact && number.find_first_of('-', 1) != std::string::npos;
  const Decimal near = exact ? cut(*exact, kDigits) : Decimal();
  const bool is_huge = near.whole.size() > kDigits || (!exact && !is_tiny);
  if (is_huge) {
    const std::uint32_t far = tables_.decimal({negative, '1' + std::string(kDigits - 1, '0'), ""});
    return f.all(one(Kind::type, kNumber), one(inwards, far));
  }
  Decimal next = next_decimal(near, kDigits);
  next.negative = negative;
  return f.all(
      {one(Kind::type, kNumber), one(inwards, tables_.decimal(near), 1), one(outwards, tables_.decimal(next), 1)});
}

Formula SchemaReader::equal_to_text(std::string_view json) {
  JsonLimits limits;
  limits.depth = 1000;
  limits.number_characters = json.size();
  limits.exact_numbers = limits.repeated_keys = true;
  const auto value = parse_json(json, limits);
  if (!value.ok()) return one(Kind::type, json.starts_with('[') ? kArray : kObject);
  const bool before = std::exchange(reads_written_, true);
  const auto equal = equal_to(*value);
  reads_written_ = before;
  return equal.ok() ? *equal : FormulaStore::always;
}

Result<> SchemaReader::read_enum(Reading& in, const Json& value) {
  if (!value.is_array()) return malformed(in, "enum", "a list of values");
  std::vector<Formula> ways;
  for (const Json& one_value : value) {
    ESP_TRY(const Formula way, equal_to(one_value));
    ways.push_back(way);
  }
  in.parts.push_back(tables_.formulas.any(ways));
  return success();
}

Result<> SchemaReader::read_const(Reading& in, const Json& value) {
  ESP_TRY(const Formula equal, equal_to(value));
  in.parts.push_back(equal);
  return success();
}

// ---- combinations

Result<std::vector<Formula>> SchemaReader::list(Reading& in, const Json& value, std::string_view keyword) {
  if (!value.is_array() || value.empty()) return malformed(in, keyword, "a list of schemas");
  std::vector<Formula> parts;
  for (std::size_t i = 0; i < value.size(); ++i) parts.push_back(subschema(in, value[i], keyword, std::to_string(i)));
  return parts;
}

Result<> SchemaReader::read_all_of(Reading& in, const Json& value) {
  ESP_TRY(std::vector<Formula> parts, list(in, value, "allOf"));
  in.parts.insert(in.parts.end(), parts.begin(), parts.end());
  return success();
}

Result<> SchemaReader::read_any_of(Reading& in, const Json& value) {
  ESP_TRY(std::vector<Formula> parts, list(in, value, "anyOf"));
  in.parts.push_back(tables_.formulas.any(parts));
  return success();
}

Result<> SchemaReader::read_one_of(Reading& in, const Json& value) {
  ESP_TRY(const std::vector<Formula> parts, list(in, value, "oneOf"));
  chooses_ = true;
  const auto is_object = [&](const Json& way) { return may_be_object(in, way); };
  describes_documents_ |= std::ranges::count_if(value, is_object) > 1;
  std::vector<Formula> excluded = parts;
  for (std::size_t i = 0; closes_ && i < value.size(); ++i)
    excluded[i] = condition(in, value[i], "oneOf", std::to_string(i));
  in.parts.push_back(tables_.formulas.exactly_one(parts, excluded));
  return success();
}

// Whether a schema's own words leave objects possible.
bool SchemaReader::may_be_object(const Reading& in, const Json& schema) {
  const Json* at = &schema;
  SchemaNumber from = in.number;
  for (int references = 0; references < 20 && at->is_object() && at->contains("$ref"); ++references) {
    const Json& reference = (*at)["$ref"];
    if (!reference.is_string()) return true;
    const auto target = document_.resolve(from, reference.get_ref<const std::string&>());
    if (!target.ok()) return true;
    from = *target;
    at = &document_.schema(from);
  }
  if (!at->is_object()) return !at->is_boolean() || at->get<bool>();
  const auto is_object = [](const Json& value) { return value == "object"; };
  if (const auto type = at->find("type"); type != at->end())
    return type->is_array() ? std::ranges::any_of(*type, is_object) : is_object(*type);
  if (const auto listed = at->find("enum"); listed != at->end() && listed->is_array())
    return std::ranges::any_of(*listed, [](const Json& value) { return value.is_object(); });
  const auto value = at->find("const");
  return value == at->end() || value->is_object();
}

Result<> SchemaReader::read_not(Reading& in, const Json& value) {
  describes_documents_ = true;
  in.parts.push_back(tables_.formulas.no(condition(in, value, "not")));
  return success();
}

Result<> SchemaReader::read_if(Reading& in, const Json& value) {
  if (document_.draft(in.number) < Draft::seven) return success();
  describes_documents_ = true;
  FormulaStore& f = tables_.formulas;
  const Formula holds = condition(in, value, "if");
  if (const Json* then = in.find("then")) in.parts.push_back(f.any(f.no(holds), subschema(in, *then, "then")));
  if (const Json* other = in.find("else")) in.parts.push_back(f.any(holds, subschema(in, *other, "else")));
  return success();
}

// ---- objects

Result<> SchemaReader::read_properties(Reading& in, const Json& value) {
  if (!value.is_object()) return malformed(in, "properties", "an object of schemas");
  const auto required = strings_in(in.find("required"));
  for (const auto& [name, schema] : value.items()) {
    const std::uint32_t text = tables_.text(name);
    const auto* const draft3_required =
        schema.is_object() && schema.contains("required") ? &schema["required"] : nullptr;
    const bool required_here =
        draft3_required != nullptr && draft3_required->is_boolean() && draft3_required->get<bool>();
    // Also names that may have any value: their place in the order counts.
    in.parts.push_back(tables_.formulas.named({Kind::property, text, subschema(in, schema, "properties", name),
                                               required_here || required.contains(name) ? 1u : 0u}));
    if (required_here) in.parts.push_back(one(Kind::required, text));
  }
  return success();
}

Result<Expression> SchemaTables::searched(std::string_view pattern) {
  RegexOptions options;
  options.dialect = RegexDialect::ecma;
  options.look_ahead = true;
  ESP_TRY(const auto regex, parse_regex(pattern, options));
  return spelling.search(regex);
}

Result<Expression> SchemaReader::pattern(Reading& in, const std::string& source, std::string_view keyword) {
  if (const auto known = patterns_.find(source); known != patterns_.end()) return known->second;
  const std::string place = document_.pointer(in.number) + pointer_token(keyword);
  auto found = tables_.searched(source);
  if (found.ok()) return patterns_[source] = *found;
  Error error = std::move(found).error();
  error.message = fmt::format("JSON schema: pattern {} at {}: {}", in_quotes(source), place, error.message);
  error.field = place;
  return error;
}

Result<> SchemaReader::read_pattern_properties(Reading& in, const Json& value) {
  if (!value.is_object()) return malformed(in, "patternProperties", "an object of schemas");
  for (const auto& [source, schema] : value.items()) {
    ESP_TRY(const Expression names, pattern(in, source, "patternProperties"));
    in.parts.push_back(one(Kind::pattern, names, subschema(in, schema, "patternProperties", source)));
  }
  return success();
}

// The names that `properties` and `patternProperties` speak of.
Result<NameSet> SchemaReader::declared_names(Reading& in) {
  NameSet declared;
  if (const Json* properties = in.find("properties"); properties != nullptr && properties->is_object()) {
    for (const auto& [name, schema] : properties->items()) declared.names.push_back(tables_.text(name));
  }
  if (const Json* patterns = in.find("patternProperties"); patterns != nullptr && patterns->is_object()) {
    for (const auto& [source, schema] : patterns->items()) {
      ESP_TRY(const Expression names, pattern(in, source, "patternProperties"));
      declared.patterns.push_back(names);
    }
  }
  return declared;
}

Formula SchemaReader::additional(NameSet others, Formula value) {
  return one(Kind::additional, tables_.name_set(std::move(others)), value);
}

Result<> SchemaReader::read_additional_properties(Reading& in, const Json& value) {
  ESP_TRY(NameSet others, declared_names(in));
  in.parts.push_back(additional(std::move(others), subschema(in, value, "additionalProperties")));
  return success();
}

Result<> SchemaReader::read_property_names(Reading& in, const Json& value) {
  describes_documents_ = true;
  in.parts.push_back(one(Kind::names, 0, subschema(in, value, "propertyNames")));
  return success();
}

Result<> SchemaReader::read_required(Reading& in, const Json& value) {
  if (value.is_boolean()) return success();  // draft 3: the object around looks at it
  if (!value.is_array()) return malformed(in, "required", "a list of names");
  for (const Json& name : value) {
    if (!name.is_string()) return malformed(in, "required", "a list of names");
    in.parts.push_back(one(Kind::required, tables_.text(name.get_ref<const std::string&>())));
  }
  return success();
}

// What must come with `name`: a list of names.
Result<std::vector<Formula>> SchemaReader::required_names(Reading& in, const std::string& name, const Json& value,
                                                          std::string_view keyword) {
  std::vector<Formula> parts;
  const auto is_name = [](const Json& other) { return other.is_string(); };
  if (!value.is_array() || !std::ranges::all_of(value, is_name)) return malformed(in, keyword, "a list of names", name);
  for (const Json& other : value)
    parts.push_back(one(Kind::required, tables_.text(other.get_ref<const std::string&>())));
  return parts;
}

void SchemaReader::depend(Reading& in, const std::string& name, Formula then) {
  describes_documents_ = true;
  FormulaStore& f = tables_.formulas;
  in.parts.push_back(typed(kObject, f.any(f.no(one(Kind::required, tables_.text(name))), then)));
}

// Of either kind; draft 3 has a name alone, too.
Result<> SchemaReader::read_dependencies(Reading& in, const Json& value) {
  if (!value.is_object()) return malformed(in, "dependencies", "an object of schemas and lists of names");
  for (const auto& [name, then] : value.items()) {
    if (then.is_object() || then.is_boolean()) {
      depend(in, name, subschema(in, then, "dependencies", name));
    } else if (then.is_string()) {
      depend(in, name, one(Kind::required, tables_.text(then.get_ref<const std::string&>())));
    } else if (then.is_array()) {
      ESP_TRY(const auto names, required_names(in, name, then, "dependencies"));
      depend(in, name, tables_.formulas.all(names));
    } else {
      return malformed(in, "dependencies", "a schema or a list of names", name);
    }
  }
  return success();
}

Result<> SchemaReader::read_dependent_required(Reading& in, const Json& value) {
  if (!value.is_object()) return malformed(in, "dependentRequired", "an object of lists of names");
  for (const auto& [name, then] : value.items()) {
    ESP_TRY(const auto names, required_names(in, name, then, "dependentRequired"));
    depend(in, name, tables_.formulas.all(names));
  }
  return success();
}

Result<> SchemaReader::read_dependent_schemas(Reading& in, const Json& value) {
  if (!value.is_object()) return malformed(in, "dependentSchemas", "an object of schemas");
  for (const auto& [name, then] : value.items()) depend(in, name, subschema(in, then, "dependentSchemas", name));
  return success();
}

Result<std::uint32_t> SchemaReader::count(Reading& in, const Json& value, std::string_view keyword) {
  const bool whole =
      value.is_number() && value.get<double>() >= 0 && std::floor(value.get<double>()) == value.get<double>();
  if (!whole) return malformed(in, keyword, "a whole number, 0 or more");
  return static_cast<std::uint32_t>(std::min(value.get<double>(), static_cast<double>(kUnbounded - 1)));
}

Result<> SchemaReader::read_min_properties(Reading& in, const Json& value) {
  ESP_TRY(const std::uint32_t n, count(in, value, "minProperties"));
  in.parts.push_back(one(Kind::min_members, n));
  return success();
}

Result<> SchemaReader::read_max_properties(Reading& in, const Json& value) {
  ESP_TRY(const std::uint32_t n, count(in, value, "maxProperties"));
  in.parts.push_back(one(Kind::max_members, n));
  return success();
}

// ---- arrays

Result<> SchemaReader::read_prefix_items(Reading& in, const Json& value) {
  ESP_TRY(const std::vector<Formula> parts, list(in, value, "prefixItems"));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    in.parts.push_back(one(Kind::item, static_cast<std::uint32_t>(i), parts[i]));
  }
  return success();
}

Result<> SchemaReader::read_items(Reading& in, const Json& value) {
  if (value.is_array()) {  // as prefixItems is called before 2020-12
    for (std::size_t i = 0; i < value.size(); ++i) {
      in.parts.push_back(
          one(Kind::item, static_cast<std::uint32_t>(i), subschema(in, value[i], "items", std::to_string(i))));
    }
    return success();
  }
  const Json* prefix = in.find("prefixItems");
  const auto from = static_cast<std::uint32_t>(prefix != nullptr && prefix->is_array() ? prefix->size() : 0);
  in.parts.push_back(one(Kind::items, from, subschema(in, value, "items")));
  return success();
}

Result<> SchemaReader::read_additional_items(Reading& in, const Json& value) {
  const Json* items = in.find("items");
  if (items == nullptr || !items->is_array()) return success();
  in.parts.push_back(
      one(Kind::items, static_cast<std::uint32_t>(items->size()), subschema(in, value, "additionalItems")));
  return success();
}

Result<> SchemaReader::read_contains(Reading& in, const Json& value) {
  describes_documents_ = true;
  std::uint32_t least = 1, most = kUnbounded;
  if (document_.draft(in.number) >= Draft::of_2019) {
    if (const Json* min = in.find("minContains")) {
      ESP_TRY(least, count(in, *min, "minContains"));
    }
    if (const Json* max = in.find("maxContains")) {
      ESP_TRY(most, count(in, *max, "maxContains"));
    }
  }
  const Formula item = subschema(in, value, "contains"), counted = condition(in, value, "contains");
  const bool apart = item != counted && most != kUnbounded;
  in.parts.push_back(one(Kind::contains, item, least, apart ? kUnbounded : most));
  if (apart) in.parts.push_back(one(Kind::contains, counted, 0, most));
  return success();
}

Result<> SchemaReader::read_min_items(Reading& in, const Json& value) {
  ESP_TRY(const std::uint32_t n, count(in, value, "minItems"));
  in.parts.push_back(one(Kind::min_items, n));
  return success();
}

Result<> SchemaReader::read_max_items(Reading& in, const Json& value) {
  ESP_TRY(const std::uint32_t n, count(in, value, "maxItems"));
  in.parts.push_back(one(Kind::max_items, n));
  return success();
}

Result<> SchemaReader::read_unique_items(Reading& in, const Json& value) {
  if (!value.is_boolean()) return malformed(in, "uniqueItems", "true or false");
  if (!value.get<bool>()) return success();
  const Json* most = in.find("maxItems");
  if (most != nullptr && most->is_number() && most->get<double>() <= 1) return success();
  compares_items_ = true;
  in.parts.push_back(one(Kind::unique, 0));
  return success();
}

// ---- strings and numbers

Result<> SchemaReader::read_min_length(Reading& in, const Json& value) {
  ESP_TRY(const std::uint32_t n, count(in, value, "minLength"));
  if (n > 0) in.parts.push_back(one(Kind::length, n, kUnbounded));
  return success();
}

Result<> SchemaReader::read_max_length(Reading& in, const Json& value) {
  ESP_TRY(const std::uint32_t n, count(in, value, "maxLength"));
  in.parts.push_back(one(Kind::length, 0, n));
  return success();
}

Result<> SchemaReader::read_pattern(Reading& in, const Json& value) {
  if (!value.is_string()) return malformed(in, "pattern", "a string");
  ESP_TRY(const Expression matching, pattern(in, value.get_ref<const std::string&>(), "pattern"));
  in.parts.push_back(one(Kind::matches, matching));
  return success();
}

Result<> SchemaReader::read_format(Reading& in, const Json& value) {
  if (!value.is_string()) return malformed(in, "format", "a string");
  const std::string& format = value.get_ref<const std::string&>();
  const Regex* const regex = format_regex(format);
  if (regex == nullptr) {
    describes_documents_ = describes_documents_ || !is_number_type(format);
    return success();
  }
  const auto [known, fresh] = formats_.try_emplace(regex);
  if (fresh) {
    ESP_TRY(known->second, tables_.spelling.search(*regex));
  }
  in.parts.push_back(one(Kind::matches, known->second, partial_format(format)));
  return success();
}

Result<Decimal> SchemaReader::decimal(Reading& in, const Json& value, std::string_view keyword) {
  const std::string written = written_number(value);
  if (written.empty()) return malformed(in, keyword, "a number");
  const auto number = decimal_of(written);
  if (!number) return malformed(in, keyword, "a number of at most 2000 digits");
  return *number;
}

// `minimum` with draft 4's boolean beside it, or a number of its own.
Result<> SchemaReader::flag_bound(Reading& in, const Json& value, std::string_view keyword, std::string_view flag,
                                  Kind kind) {
  ESP_TRY(const Decimal bound, decimal(in, value, keyword));
  const auto found = in.schema.find(flag);
  const bool excluded = found != in.schema.end() && found->is_boolean() && found->get<bool>();
  in.parts.push_back(one(kind, tables_.decimal(bound), excluded ? 1 : 0));
  return success();
}

Result<> SchemaReader::read_minimum(Reading& in, const Json& value) {
  return flag_bound(in, value, "minimum", "exclusiveMinimum", Kind::at_least);
}

Result<> SchemaReader::read_maximum(Reading& in, const Json& value) {
  return flag_bound(in, value, "maximum", "exclusiveMaximum", Kind::at_most);
}

Result<> SchemaReader::read_exclusive_minimum(Reading& in, const Json& value) {
  if (value.is_boolean()) return success();  // read with minimum
  ESP_TRY(const Decimal bound, decimal(in, value, "exclusiveMinimum"));
  in.parts.push_back(one(Kind::at_least, tables_.decimal(bound), 1));
  return success();
}

Result<> SchemaReader::read_exclusive_maximum(Reading& in, const Json& value) {
  if (value.is_boolean()) return success();
  ESP_TRY(const Decimal bound, decimal(in, value, "exclusiveMaximum"));
  in.parts.push_back(one(Kind::at_most, tables_.decimal(bound), 1));
  return success();
}

Result<> SchemaReader::read_multiple_of(Reading& in, const Json& value) {
  ESP_TRY(const Decimal factor, decimal(in, value, "multipleOf"));
  if (factor.negative || factor.is_zero()) return malformed(in, "multipleOf", "a number above 0");
  const std::size_t digits =
      factor.whole == "0" ? factor.fraction.size() : factor.whole.size() + factor.fraction.size();
  if (digits > 9) {
    return refuse(in, "multipleOf", "has more than nine digits, which is not supported");
  }
  in.parts.push_back(one(Kind::multiple, tables_.decimal(factor)));
  return success();
}

Result<> SchemaReader::read_draft3_only(Reading& in, std::string_view keyword, std::string_view instead) {
  if (document_.draft(in.number) != Draft::three) return success();  // a name like any other
  return refuse(in, keyword, fmt::format("is of draft 3 and not supported; {} says the same", instead));
}

Result<> SchemaReader::read_extends(Reading& in, const Json&) {
  return read_draft3_only(in, "extends", "allOf of a later draft");
}

Result<> SchemaReader::read_disallow(Reading& in, const Json&) {
  return read_draft3_only(in, "disallow", "not of a later draft");
}

void SchemaReader::close(Reading& in) {
  const bool all = all_closed_;
  const auto has = [&](const char* keyword) { return in.schema.contains(keyword); };
  const auto is = [&](const char* type) { return has("type") && in.schema["type"] == type; };
  const bool patterns = !all && has("patternProperties");
  if (((all && is("object")) || has("properties")) && !patterns && !has("additionalProperties") &&
      !has("unevaluatedProperties")) {
    static const Json kNone = false;
    (void)read_additional_properties(in, kNone);
  }
  if (all && (is("array") || has("prefixItems")) && !has("items") && !has("unevaluatedItems")) {
    const Json* prefix = in.find("prefixItems");
    const auto from = static_cast<std::uint32_t>(prefix != nullptr && prefix->is_array() ? prefix->size() : 0);
    in.parts.push_back(one(Kind::items, from, FormulaStore::never));
  }
}

}  // namespace espalier::grammar
