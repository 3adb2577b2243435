#include "grammar/tags/parameter_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "base/json/json_fields.h"
#include "grammar/json_schema/reading/formats.h"
#include "grammar/json_schema/reading/schema_document.h"
#include "grammar/regex/regex.h"

namespace espalier::grammar {
namespace {

constexpr int kDeepestChoice = 32;  // of references and alternatives, one inside the other

using Keywords = std::span<const std::string_view>;
constexpr std::array<std::string_view, 11> kDescribing = {"title",      "description", "default",    "examples",
                                                          "deprecated", "readOnly",    "writeOnly",  "$comment",
                                                          "$schema",    "$defs",       "definitions"};
constexpr std::array<std::string_view, 4> kOfObject = {"type", "properties", "required", "additionalProperties"};
constexpr std::array<std::string_view, 5> kOfText = {"type", "minLength", "maxLength", "pattern", "format"};
constexpr std::array<std::string_view, 19> kOfOthers = {
    "properties", "patternProperties", "additionalProperties", "propertyNames", "required",
    "items",      "prefixItems",       "additionalItems",      "contains",      "minItems",
    "maxItems",   "uniqueItems",       "minProperties",        "maxProperties", "minimum",
    "maximum",    "exclusiveMinimum",  "exclusiveMaximum",     "multipleOf"};

bool has_keyword(Keywords keywords, std::string_view name) {
  return std::ranges::find(keywords, name) != keywords.end();
}

Error not_as_parameter(const std::string& place, std::string_view why) {
  return {Error::Kind::unsupported,
          fmt::format("structural tag: the schema of parameters at {}: {}", place, why),
          place,
          {}};
}

Error malformed_parameter(const std::string& place, std::string_view wanted) {
  return bad_request(fmt::format("structural tag: the schema of parameters: {} must be {}", place, wanted), place,
                     "grammar_invalid");
}

// Whether there are others than these and those that only describe.
Result<> check_keywords(const Json& schema, const std::string& place, Keywords known, Keywords more = {}) {
  for (const auto& [name, ignored] : schema.items()) {
    if (has_keyword(kDescribing, name) || has_keyword(known, name) || has_keyword(more, name)) continue;
    return not_as_parameter(
        place + pointer_token(name),
        fmt::format("{} cannot be enforced beside its keywords in this style; the style json can", in_quotes(name)));
  }
  return success();
}

Result<std::vector<std::string>> types_of(const Json& schema, const std::string& place) {
  std::vector<std::string> types;
  const Json* type = find_field(schema, "type");
  if (type == nullptr) return types;
  if (type->is_string()) types.push_back(type->get<std::string>());
  if (type->is_array()) {
    for (const Json& one : *type)
      if (one.is_string()) types.push_back(one.get<std::string>());
  }
  if (types.empty() || (type->is_array() && types.size() != type->size()))
    return malformed_parameter(place + "/type", "a type or a list of them");
  return types;
}

bool is_reference_to_definition(const Json& reference) {
  if (!reference.is_string()) return true;  // a member of that name
  const auto& text = reference.get_ref<const std::string&>();
  return text.starts_with("#/$defs/") || text.starts_with("#/definitions/");
}

}  // namespace

std::span<const ParameterStyle> parameter_styles() {
  static constexpr std::array<ParameterStyle, 5> kStyles{{
      {"qwen_xml", "<parameter=", ">", "", "", "", "</parameter>"},
      {"minimax_xml", "<parameter name=\"", "\">", "", "", "", "</parameter>"},
      {"glm_xml", "<arg_key>", "</arg_key>", "<arg_value>", "", "", "</arg_value>"},
      {"deepseek_xml", "<｜DSML｜parameter name=\"", "\" string=\"", "", "true\">", "false\">", "</｜DSML｜parameter>"},
      {"deepseek_v4_1_xml", "<｜DSML｜ parameter name=\"", "\" string=\"", "", "true\">", "false\">",
       "</｜DSML｜ parameter>"},
  }};
  return kStyles;
}

ParameterText::ParameterText(ExpressionStore& store, const ParameterStyle& style, Expression space, MakeJson make_json)
    : store_(store),
      style_(style),
      spelling_(store, Spelling::Kind::plain),
      free_text_(store, spelling_.any_character()),
      space_(space),
      make_json_(std::move(make_json)) {}

Result<Expression> ParameterText::whole(const Json& schema) {
  root_ = &schema;
  ESP_CHECK(check_references());
  std::string place = "#";
  ESP_TRY(const Json* object, resolved(schema, place));
  ESP_CHECK(check_object(*object, place));
  ESP_TRY(const auto names, required(*object, place));
  std::vector<Expression> members;
  for (const auto& [name, member_schema] : (*object)["properties"].items()) {
    ESP_TRY(const Expression one, member(name, member_schema, place + "/properties" + pointer_token(name)));
    members.push_back(names.contains(name) ? one : store_.optional(one));
  }
  Expression all = ExpressionStore::empty;
  for (std::size_t i = members.size(); i-- > 0;) all = store_.concat(members[i], all);
  return store_.concat(space_, all);
}

// Parts of the schema become schemas of their own, in which no other references would lead to the same place.
Result<> ParameterText::check_references() const {
  std::vector<const Json*> open{root_};
  while (!open.empty()) {
    const Json& at = *open.back();
    open.pop_back();
    for (const auto& [name, value] : at.items()) {
      const bool refers = name == "$dynamicRef" || name == "$recursiveRef";
      if (at.is_object() && ((refers && value.is_string()) || (name == "$ref" && !is_reference_to_definition(value))))
        return not_as_parameter("#", fmt::format("its references must lead to #/$defs or #/definitions, not to {}",
                                                 in_quotes(value.get_ref<const std::string&>())));
      if (value.is_structured()) open.push_back(&value);
    }
  }
  return success();
}

// Behind references, which stand alone.
Result<const Json*> ParameterText::resolved(const Json& schema, std::string& place) const {
  const Json* at = &schema;
  for (int steps = 0; at->is_object() && find_field(*at, "$ref") != nullptr; ++steps) {
    constexpr std::array<std::string_view, 1> kReference = {"$ref"};
    ESP_CHECK(check_keywords(*at, place, kReference));
    const Json& reference = (*at)["$ref"];
    const bool readable = reference.is_string() && steps < kDeepestChoice;
    const std::string target = readable ? reference.get<std::string>() : "";
    const std::size_t slash = target.find('/', 2);
    const Json* defined = slash == std::string::npos ? nullptr : find_field(*root_, target.substr(2, slash - 2));
    if (defined != nullptr) defined = find_field(*defined, target.substr(slash + 1));
    if (defined == nullptr) return malformed_parameter(place + "/$ref", "the plain name of a definition that is there");
    at = defined;
    place = target;
  }
  return at;
}

Result<> ParameterText::check_object(const Json& object, const std::string& place) const {
  if (!object.is_object()) return not_as_parameter(place, "it must be an object with properties");
  ESP_CHECK(check_keywords(object, place, kOfObject));
  const Json* properties = find_field(object, "properties");
  if (properties == nullptr || !properties->is_object())
    return not_as_parameter(place, "it must list its properties, which may be none");
  if (const Json* type = find_field(object, "type"); type != nullptr && *type != "object")
    return not_as_parameter(place + "/type", "only objects have parameters");
  const Json* others = find_field(object, "additionalProperties");
  if (others != nullptr && *others != false)
    return not_as_parameter(place + "/additionalProperties", "only the listed properties can come; false works");
  return success();
}

Result<std::set<std::string>> ParameterText::required(const Json& object, const std::string& place) const {
  std::set<std::string> names;
  const Json* list = find_field(object, "required");
  if (list == nullptr) return names;
  std::set<std::string> properties;
  for (const auto& [name, ignored] : object["properties"].items()) properties.insert(name);
  const auto is_listed = [&](const Json& name) {
    return name.is_string() && properties.contains(name.get_ref<const std::string&>());
  };
  if (!list->is_array() || !std::ranges::all_of(*list, is_listed))
    return malformed_parameter(place + "/required", "a list of names of its properties");
  for (const Json& name : *list) names.insert(name.get<std::string>());
  return names;
}

Result<Expression> ParameterText::member(const std::string& name, const Json& schema, const std::string& place) {
  ESP_TRY(Value found, value(schema, place, 0));
  std::vector<Expression> ways;
  if (!found.texts.empty())
    ways.push_back(store_.concat(store_.text(style_.before_text), store_.either(std::move(found.texts))));
  if (!found.schemas.empty()) {
    ESP_TRY(const Expression inner, json(found.schemas));
    ways.push_back(store_.concat(store_.text(style_.before_json), spaced(inner)));
  }
  Expression begin = store_.concat({store_.text(style_.begin), store_.text(name), store_.text(style_.after_name)});
  if (!style_.of_value.empty()) begin = store_.concat({begin, space_, store_.text(style_.of_value)});
  return store_.concat({begin, store_.either(std::move(ways)), store_.text(style_.end), space_});
}

Result<Expression> ParameterText::json(const std::vector<Json>& schemas) {
  if (schemas.size() == 1) return make_json_(document_of(schemas[0]));
  Json all = Json::object();
  all["anyOf"] = schemas;
  return make_json_(document_of(std::move(all)));
}

// With the definitions of the whole, as far as there are any.
Json ParameterText::document_of(Json schema) const {
  Json document = Json::object();
  for (const char* name : {"$schema", "$defs", "definitions"})
    if (root_->is_object() && root_->contains(name)) document[name] = (*root_)[name];
  if (document.empty()) return schema;
  std::string own = "parameter";
  while (document.contains("$defs") && document["$defs"].contains(own)) own += "_";
  document["$defs"][own] = std::move(schema);
  document["$ref"] = "#/$defs/" + own;
  return document;
}

Result<ParameterText::Value> ParameterText::value(const Json& schema, std::string place, int depth) {
  if (depth > kDeepestChoice) return not_as_parameter(place, "alternatives are nested more than 32 deep");
  ESP_TRY(const Json* at, resolved(schema, place));
  Value out;
  if (at->is_boolean()) {
    if (*at == true) out.texts.push_back(free_text_.without({std::string(style_.end)}));
    return out;
  }
  if (!at->is_object()) return malformed_parameter(place, "an object or a boolean");
  ESP_TRY(const auto types, types_of(*at, place));
  if (find_field(*at, "enum") != nullptr || at->contains("const")) return listed(*at, place, types);
  if (!types.empty()) return typed(*at, place, types);
  for (const std::string_view keyword : {"anyOf", "oneOf", "allOf"})
    if (find_field(*at, keyword) != nullptr) return chosen(*at, place, keyword, depth);
  if (!check_keywords(*at, place, {}).ok())
    return not_as_parameter(place, "a type must tell whether it is written as text or as JSON");
  out.texts.push_back(free_text_.without({std::string(style_.end)}));
  return out;
}

Result<ParameterText::Value> ParameterText::typed(const Json& schema, const std::string& place,
                                                  const std::vector<std::string>& types) {
  Value out;
  Json others = Json::array();
  for (const std::string& type : types)
    if (type != "string") others.push_back(type);
  if (others.size() < types.size()) {
    ESP_TRY(const Expression one, text(schema, place, others.empty()));
    out.texts.push_back(one);
  }
  if (others.empty()) return out;
  Json rest = schema;
  rest["type"] = std::move(others);
  out.schemas.push_back(std::move(rest));
  return out;
}

// Of values that are told one by one.
Result<ParameterText::Value> ParameterText::listed(const Json& schema, const std::string& place,
                                                   const std::vector<std::string>& types) {
  constexpr std::array<std::string_view, 3> kListing = {"type", "enum", "const"};
  ESP_CHECK(check_keywords(schema, place, kListing));
  const bool constant = schema.contains("const");
  if (constant && schema.contains("enum")) return not_as_parameter(place, "enum and const beside each other");
  const Json values = constant ? Json::array({schema["const"]}) : schema["enum"];
  if (!values.is_array()) return malformed_parameter(place + "/enum", "a list");
  const bool texts = types.empty() || std::ranges::find(types, "string") != types.end();
  std::vector<std::string> words;
  Json rest = Json::array();
  for (const Json& one : values) {
    if (!one.is_string())
      rest.push_back(one);
    else if (texts)
      words.push_back(one.get<std::string>());
  }
  Value out;
  if (!words.empty()) out.texts.push_back(spaced(free_text_.any_of(words)));
  if (rest.empty()) return out;
  Json others = Json::object();
  if (!types.empty()) others["type"] = schema["type"];
  others["enum"] = std::move(rest);
  out.schemas.push_back(std::move(others));
  return out;
}

// A text satisfies every alternative that is a text, so there must be one at most where only one may be satisfied.
Result<ParameterText::Value> ParameterText::chosen(const Json& schema, const std::string& place,
                                                   std::string_view keyword, int depth) {
  const std::array<std::string_view, 1> choosing = {keyword};
  ESP_CHECK(check_keywords(schema, place, choosing));
  const std::string at = fmt::format("{}/{}", place, keyword);
  const Json* list = find_field(schema, keyword);
  if (!list->is_array() || list->empty()) return malformed_parameter(at, "a list of schemas");
  if (keyword == "allOf" && list->size() > 1)
    return not_as_parameter(at, "only an allOf of one schema can be enforced");
  Value out;
  int with_text = 0;
  Json ways = Json::array();
  for (std::size_t i = 0; i < list->size(); ++i) {
    ESP_TRY(Value one, value((*list)[i], fmt::format("{}/{}", at, i), depth + 1));
    with_text += !one.texts.empty();
    out.texts.insert(out.texts.end(), one.texts.begin(), one.texts.end());
    if (one.schemas.size() > 1)
      ways.push_back(Json::object({{"anyOf", one.schemas}}));
    else if (!one.schemas.empty())
      ways.push_back(one.schemas[0]);
  }
  if (keyword == "oneOf" && with_text > 1) return not_as_parameter(at, "a oneOf of several texts; anyOf works");
  if (!ways.empty()) out.schemas.push_back(Json::object({{keyword == "oneOf" ? "oneOf" : "anyOf", std::move(ways)}}));
  return out;
}

Result<Expression> ParameterText::text(const Json& schema, const std::string& place, bool only_text) {
  ESP_CHECK(check_keywords(schema, place, kOfText, only_text ? Keywords() : Keywords(kOfOthers)));
  ESP_TRY(const auto low, find_integer(schema, {"minLength", place}, {0, 1'000'000'000}));
  ESP_TRY(const auto high, find_integer(schema, {"maxLength", place}, {0, 1'000'000'000}));
  ESP_TRY(const auto form, matching(schema, place));
  if (form && (low || high)) return not_as_parameter(place, "a length beside a pattern or format");
  const Expression free = free_text_.without({std::string(style_.end)});
  if (form) return spaced(store_.both(*form, free));
  if (!low && !high) return free;
  const auto bound = [](std::int64_t count) { return static_cast<std::uint32_t>(count); };
  const Expression bounded = store_.repeat(spelling_.any_character(), bound(low.value_or(0)),
                                           high ? bound(*high) : ExpressionStore::unbounded);
  return spaced(store_.both(free, bounded));
}

// What pattern and format want; of formats that nobody checks, nothing.
Result<std::optional<Expression>> ParameterText::matching(const Json& schema, const std::string& place) {
  std::vector<Expression> found;
  if (find_field(schema, "pattern") != nullptr) {
    ESP_TRY(const std::string pattern, get_string(schema, {"pattern", place}));
    RegexOptions options;
    options.dialect = RegexDialect::ecma;
    options.look_ahead = true;
    const auto regex = parse_regex(pattern, options);
    if (!regex.ok()) return not_as_parameter(place + "/pattern", regex.error().message);
    ESP_TRY(const Expression one, spelling_.search(*regex));
    found.push_back(one);
  }
  if (find_field(schema, "format") != nullptr) {
    ESP_TRY(const std::string format, get_string(schema, {"format", place}));
    if (const Regex* const regex = format_regex(format)) {
      ESP_TRY(const Expression one, spelling_.search(*regex));
      found.push_back(one);
    }
  }
  if (found.empty()) return std::optional<Expression>();
  return std::optional(store_.both(std::move(found)));
}

}  // namespace espalier::grammar
