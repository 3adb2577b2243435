// How many values satisfy a formula, as far as anybody wants to know: values that must differ need as many.
#include <algorithm>

#include "grammar/json_schema/schema_grammar.h"
#include "grammar/text_count.h"

namespace espalier::grammar {
namespace {

constexpr int kMostSteps = 256;  // members that one count looks at

}  // namespace

// Up to `enough`. What is larger or more involved than anyone cares for counts as enough.
std::uint64_t SchemaGrammar::count_values(Formula formula, std::uint64_t enough) {
  const auto known = value_counts_.find(formula);
  if (known != value_counts_.end() && (known->second.enough >= enough || known->second.count < known->second.enough))
    return std::min(enough, known->second.count);
  const bool outer = std::exchange(assumed_, false);
  ValueCount count{enough, 0, kMostSteps};
  count.count = count_values(formula, count);
  if (!assumed_) value_counts_[formula] = count;
  assumed_ |= outer;
  return count.count;
}

std::uint64_t SchemaGrammar::count_values(Formula formula, ValueCount& limits) {
  const std::uint64_t enough = limits.enough;
  if (!possible(formula)) return 0;
  if (enough <= 1 || --limits.steps_left < 0) return enough;
  std::uint64_t count = count_scalars(formula, enough);
  if (count >= enough) return enough;
  if (const auto array = open_array(formula)) count += count_arrays(*array, limits);
  if (count >= enough) return enough;
  return std::min(enough, count + count_objects(restrict(formula, Type::object), limits));
}

// A number is counted in its shortest form only: 1 and 1.0 are one value.
std::uint64_t SchemaGrammar::count_scalars(Formula formula, std::uint64_t enough) {
  std::uint64_t count = restrict(formula, Type::null) != FormulaStore::never ? 1 : 0;
  for (const bool one : {false, true}) count += allows_truth(formula, one) ? 1 : 0;
  const Expression numbers = number_part(restrict(formula, Type::number));
  if (numbers != ExpressionStore::nothing)
    count += TextCount(store_, enough).of(store_.both(numbers, shortest_number(store_)));
  return count + TextCount(store_, enough).of(string_part(restrict(formula, Type::string)));
}

// Each as a formula, unless they are many or objects and arrays are among them.
std::optional<std::vector<Formula>> SchemaGrammar::listed_values(Formula formula) {
  constexpr std::size_t kMost = 32;
  const auto array = open_array(formula);
  if ((array && possible(*array)) || restrict(formula, Type::object) != FormulaStore::never) return std::nullopt;
  std::vector<std::string> texts;
  if (restrict(formula, Type::null) != FormulaStore::never) texts.emplace_back("null");
  for (const bool one : {false, true}) {
    if (allows_truth(formula, one)) texts.emplace_back(one ? "true" : "false");
  }
  const Expression numbers = store_.both(number_part(restrict(formula, Type::number)), shortest_number(store_));
  const auto of_numbers = listed_texts(store_, numbers, kMost);
  const auto of_strings = listed_texts(store_, string_part(restrict(formula, Type::string)), kMost);
  if (!of_numbers || !of_strings) return std::nullopt;
  texts.insert(texts.end(), of_numbers->begin(), of_numbers->end());
  for (const std::string& text : *of_strings) texts.push_back('"' + text + '"');
  if (texts.size() > kMost) return std::nullopt;
  std::vector<Formula> values;
  for (const std::string& text : texts) values.push_back(reader_.equal_to_text(text));
  return values;
}

std::uint64_t SchemaGrammar::count_arrays(const Container& array, ValueCount& limits) {
  if (!possible(array)) return 0;
  if (--limits.steps_left < 0 || speaks_of(array.rest, Kind::unique)) return limits.enough;
  std::uint64_t count = array.min_left == 0 && finished(array.rest) ? 1 : 0;
  if (array.max_left == 0) return count;
  for (const Member& way : items(array)) {
    if (count >= limits.enough) break;
    const std::uint64_t values = count_values(way.value, limits);
    if (values > 0) count += values * count_arrays(way.next, limits);
  }
  return std::min(count, limits.enough);
}

// By the names that the formula mentions, each of which comes or does not; in which order says nothing.
std::uint64_t SchemaGrammar::count_objects(Formula objects, ValueCount& limits) {
  if (objects == FormulaStore::never) return 0;
  bool by_pattern = false;
  formulas_.each(objects, [&](const Demand& c, bool) {
    by_pattern |= c.kind == Kind::pattern || c.kind == Kind::names;
    by_pattern |= c.kind == Kind::additional && !tables_.name_sets[c.a].patterns.empty();
  });
  if (by_pattern) return limits.enough;
  Shape shape;
  collect_names(objects, shape);
  return count_members(objects, shape.names, limits);
}

std::uint64_t SchemaGrammar::count_members(Formula rest, std::span<const std::uint32_t> names, ValueCount& limits) {
  if (rest == FormulaStore::never) return 0;
  if (--limits.steps_left < 0) return limits.enough;
  if (names.empty()) {
    for (const Choice& other : decide(at_other_member(rest, {}, 0), FormulaStore::always)) {
      if (possible(other.value)) return limits.enough;
    }
    return finished(rest) ? 1 : 0;
  }
  std::uint64_t count = count_members(pass_name(rest, names.front()), names.subspan(1), limits);
  for (const Choice& choice : decide(at_member(rest, names.front()), FormulaStore::always)) {
    if (count >= limits.enough) break;
    const std::uint64_t values = count_values(choice.value, limits);
    if (values > 0) count += values * count_members(choice.rest, names.subspan(1), limits);
  }
  return std::min(count, limits.enough);
}

}  // namespace espalier::grammar
