#include "grammar/json_schema/objects/object_names.h"

#include <algorithm>

#include "grammar/characters/spelling.h"

namespace espalier::grammar {

bool ObjectNames::matches(std::uint32_t name, Expression pattern) {
  const std::uint64_t key = (std::uint64_t{name} << 32) | pattern;
  if (const auto known = matches_.find(key); known != matches_.end()) return known->second;
  return matches_[key] = store_.accepts(pattern, spelled(tables_.texts[name]));
}

bool ObjectNames::in_set(std::uint32_t name, const NameSet& set) {
  return std::ranges::binary_search(set.sorted, name) ||
         std::ranges::any_of(set.patterns, [&](Expression e) { return matches(name, e); });
}

Expression ObjectNames::pattern(Formula formula) {
  return strings_.part(restrictions_.of(formula, JsonType::string));
}

Expression ObjectNames::key(std::uint32_t name) {
  const auto [known, fresh] = keys_.try_emplace(name, ExpressionStore::nothing);
  if (fresh) {
    known->second = store_.concat(tables_.spelling.text(tables_.texts[name]), form_.quote_and_colon);
  }
  return known->second;
}

}  // namespace espalier::grammar
