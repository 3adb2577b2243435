#include "grammar/json_schema/formulas/restrictions.h"

#include <fmt/format.h>

namespace espalier::grammar {

using Kind = Demand::Kind;

namespace {

std::uint32_t type_bits(JsonType type) {
  static constexpr std::uint32_t kBits[] = {kNull, kBoolean, kNumber, kString, kArray, kObject};
  return kBits[static_cast<int>(type)];
}

// The type of the values of which the constraint says something.
JsonType concerned_type(const Demand& c) {
  switch (c.kind) {
    case Kind::is_true:
      return JsonType::boolean;
    case Kind::equals:
      return c.b == 1 ? JsonType::number : JsonType::string;
    case Kind::length:
    case Kind::matches:
      return JsonType::string;
    case Kind::at_least:
    case Kind::at_most:
    case Kind::multiple:
      return JsonType::number;
    case Kind::property:
    case Kind::pattern:
    case Kind::additional:
    case Kind::names:
    case Kind::required:
    case Kind::min_members:
    case Kind::max_members:
      return JsonType::object;
    default:
      return JsonType::array;
  }
}

}  // namespace

Formula Restrictions::of(Formula formula, JsonType type) {
  const std::uint64_t key = (std::uint64_t{formula} << 3) | static_cast<std::uint64_t>(type);
  if (const auto known = restricted_.find(key); known != restricted_.end()) return known->second;
  const Formula result =
      formulas_.map(formula, [&](const Demand& c, bool negated) { return restrict_one(c, negated, type); });
  restricted_.emplace(key, result);
  return result;
}

Formula Restrictions::restrict_one(const Demand& c, bool negated, JsonType type) {
  if (!tables_.goes_on()) return FormulaStore::never;
  if (c.kind == Kind::schema) return read_schema(c, negated, type);
  if (c.kind == Kind::type) {
    const std::uint32_t all = type_bits(type);
    return formulas_.one({Kind::type, (c.a & all) == all ? std::uint32_t{kAnyType} : c.a & all, 0, 0});
  }
  const bool concerned = concerned_type(c) == type;
  if (c.kind == Kind::property && concerned && !negated) return formulas_.named(c);
  const Formula self = concerned ? formulas_.one(c) : FormulaStore::always;
  return negated ? formulas_.no(self) : self;
}

Formula Restrictions::read_schema(const Demand& c, bool negated, JsonType type) {
  const std::uint64_t key = ((std::uint64_t{c.a} * 2 + c.b) << 3) | static_cast<std::uint64_t>(type);
  const OpenQuestions::About about(questions_, c.a);
  if (!questions_.goes_deeper()) return FormulaStore::never;
  if (!restricting_.insert(key).second) {
    // Once the document is gone nobody asks for the error any more.
    const std::string place = document_.size() > 0 ? document_.pointer(c.a) : std::string();
    error_ = bad_request(fmt::format("JSON schema: {} refers to itself without reading anything", place), place,
                         "grammar_invalid");
    return FormulaStore::never;
  }
  const OpenQuestions::Level level(questions_);
  const auto read = reader_.formula(c.a, c.b == 1);
  const Formula inner = read.ok() ? of(*read, type) : FormulaStore::never;
  if (!read.ok()) error_ = read.error();
  restricting_.erase(key);
  return negated ? formulas_.no(inner) : inner;
}

}  // namespace espalier::grammar
