// Keywords for arrays.
#include "grammar/json_schema/reading/keywords.h"

namespace espalier::grammar {

using Kind = Demand::Kind;

Result<> read_prefix_items(Reading& in, const Json& value) {
  ESP_TRY(const std::vector<Formula> parts, in.list(value, "prefixItems"));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    in.parts.push_back(in.one(Kind::item, static_cast<std::uint32_t>(i), parts[i]));
  }
  return success();
}

Result<> read_items(Reading& in, const Json& value) {
  if (value.is_array()) {  // as prefixItems is called before 2020-12
    for (std::size_t i = 0; i < value.size(); ++i) {
      in.parts.push_back(
          in.one(Kind::item, static_cast<std::uint32_t>(i), in.subschema(value[i], "items", std::to_string(i))));
    }
    return success();
  }
  const Json* prefix = in.find("prefixItems");
  const auto from = static_cast<std::uint32_t>(prefix != nullptr && prefix->is_array() ? prefix->size() : 0);
  in.parts.push_back(in.one(Kind::items, from, in.subschema(value, "items")));
  return success();
}

Result<> read_additional_items(Reading& in, const Json& value) {
  const Json* items = in.find("items");
  if (items == nullptr || !items->is_array()) return success();
  in.parts.push_back(
      in.one(Kind::items, static_cast<std::uint32_t>(items->size()), in.subschema(value, "additionalItems")));
  return success();
}

Result<> read_contains(Reading& in, const Json& value) {
  in.traits().describes_documents = true;
  std::uint32_t least = 1, most = kUnbounded;
  if (in.draft() >= Draft::of_2019) {
    if (const Json* min = in.find("minContains")) {
      ESP_TRY(least, in.count(*min, "minContains"));
    }
    if (const Json* max = in.find("maxContains")) {
      ESP_TRY(most, in.count(*max, "maxContains"));
    }
  }
  const Formula item = in.subschema(value, "contains"), counted = in.condition(value, "contains");
  const bool apart = item != counted && most != kUnbounded;
  in.parts.push_back(in.one(Kind::contains, item, least, apart ? kUnbounded : most));
  if (apart) in.parts.push_back(in.one(Kind::contains, counted, 0, most));
  return success();
}

Result<> read_min_items(Reading& in, const Json& value) {
  ESP_TRY(const std::uint32_t n, in.count(value, "minItems"));
  in.parts.push_back(in.one(Kind::min_items, n));
  return success();
}

Result<> read_max_items(Reading& in, const Json& value) {
  ESP_TRY(const std::uint32_t n, in.count(value, "maxItems"));
  in.parts.push_back(in.one(Kind::max_items, n));
  return success();
}

Result<> read_unique_items(Reading& in, const Json& value) {
  if (!value.is_boolean()) return in.malformed("uniqueItems", "true or false");
  if (!value.get<bool>()) return success();
  const Json* most = in.find("maxItems");
  if (most != nullptr && most->is_number() && most->get<double>() <= 1) return success();
  in.traits().compares_items = true;
  in.parts.push_back(in.one(Kind::unique, 0));
  return success();
}

void close_array(Reading& in) {
  const auto has = [&](const char* keyword) { return in.schema.contains(keyword); };
  const bool lists = (has("type") && in.schema["type"] == "array") || has("prefixItems");
  if (!in.context.all_closed || !lists || has("items") || has("unevaluatedItems")) return;
  const Json* prefix = in.find("prefixItems");
  const auto from = static_cast<std::uint32_t>(prefix != nullptr && prefix->is_array() ? prefix->size() : 0);
  in.parts.push_back(in.one(Kind::items, from, FormulaStore::never));
}

}  // namespace espalier::grammar
