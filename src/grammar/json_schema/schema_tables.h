// schema_tables.h: what reading and expanding a schema share: the stores of expressions and formulas, and numbers for
// what formulas refer to (texts, decimals, sets of names).
// Threads: one at a time.
// Fails:   searched(): as parse_regex(). Beyond the limits of a store goes_on() turns false for good.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "grammar/automaton/stable_pool.h"
#include "grammar/characters/spelling.h"
#include "grammar/json_schema/formulas/formula.h"
#include "grammar/json_schema/scalars/number_text.h"

namespace espalier::grammar {

// Numbers for what constraints refer to.
template <class Value>
class Numbered {
 public:
  std::uint32_t number(const std::string& key, Value value) {
    const auto [place, fresh] = numbers_.try_emplace(key, static_cast<std::uint32_t>(values_.size()));
    if (fresh) values_.push_back(std::move(value));
    return place->second;
  }
  const Value& operator[](std::uint32_t number) const { return values_[number]; }
  std::size_t size() const { return values_.size(); }

 private:
  std::vector<Value> values_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
};

// The same for texts, each of which is kept once. A schema may have a hundred thousand names: what is kept is freed in
// large pieces.
class NumberedTexts {
 public:
  std::uint32_t number(std::string_view text) {
    if (const auto known = numbers_.find(text); known != numbers_.end()) return known->second;
    const std::span<const char> kept = characters_.add(text);
    const auto number = static_cast<std::uint32_t>(texts_.size());
    numbers_.emplace(texts_.emplace_back(kept.data(), kept.size()), number);
    return number;
  }
  std::string_view operator[](std::uint32_t number) const { return texts_[number]; }
  std::size_t size() const { return texts_.size(); }
  std::size_t memory() const { return kEntry * texts_.size() + characters_.memory(); }  // bytes, about

 private:
  static constexpr std::size_t kEntry = 60;
  StablePool<char> characters_;
  std::pmr::monotonic_buffer_resource entries_;
  std::pmr::unordered_map<std::string_view, std::uint32_t> numbers_{&entries_};
  std::vector<std::string_view> texts_;
};

struct NameSet {  // what additionalProperties leaves out
  std::vector<std::uint32_t> names;
  std::vector<Expression> patterns;
  std::vector<std::uint32_t> sorted;  // the names, once it has a number: each name of a schema is looked for
};

// What reading and expanding a schema share: the stores of expressions and formulas, patterns, names.
struct SchemaTables {
  explicit SchemaTables(ExpressionStore& store) : spelling(store, Spelling::Kind::json), expressions(store) {}
  // False when there is no time left: formulas stop growing, and whoever asked for them looks at the store.
  bool goes_on() {
    if (expressions.spend() && !formulas.exhausted()) return true;
    expressions.exhaust();
    formulas.exhaust();
    return false;
  }
  std::uint32_t text(const std::string& s) { return texts.number(s); }
  std::uint32_t decimal(const Decimal& d) { return decimals.number(d.text(), d); }
  std::size_t memory() const { return formulas.memory() + texts.memory() + name_bytes; }
  Result<Expression> searched(std::string_view pattern);  // strings in which this matches somewhere (ECMA 262)

  std::uint32_t name_set(NameSet set) {
    set.sorted = set.names;
    std::ranges::sort(set.sorted);
    name_bytes += sizeof(NameSet) + 2 * set.names.size() * sizeof(set.names[0]);
    name_sets.push_back(std::move(set));
    return static_cast<std::uint32_t>(name_sets.size() - 1);
  }

  Spelling spelling;
  ExpressionStore& expressions;
  FormulaStore formulas;
  NumberedTexts texts;  // names and strings, as they are in memory
  Numbered<Decimal> decimals;
  std::unordered_map<std::uint32_t, std::vector<std::string>> spellings;  // of decimals, as the schema has them
  std::vector<NameSet> name_sets;
  std::size_t name_bytes = 0;
};

}  // namespace espalier::grammar
