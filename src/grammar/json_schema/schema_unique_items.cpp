// Arrays whose items must differ, or must not: which values were written, and whether enough others are left.
#include <algorithm>

#include "grammar/json_schema/schema_grammar.h"
#include "grammar/json_schema/schema_steps.h"
#include "grammar/text_count.h"

namespace espalier::grammar {

bool SchemaGrammar::speaks_of(Formula formula, Kind kind) const {
  bool found = false;
  formulas_.each(formula, [&](const Demand& c, bool) { found = found || c.kind == kind; });
  return found;
}

std::uint32_t SchemaGrammar::numbered(std::vector<Formula> sorted) {
  const auto [known, fresh] = written_numbers_.try_emplace(sorted, static_cast<std::uint32_t>(written_sets_.size()));
  if (fresh) written_sets_.push_back(std::move(sorted));
  return known->second;
}

std::uint32_t SchemaGrammar::with_written(std::uint32_t set, Formula value) {
  std::vector<Formula> more = written_sets_[set];
  const auto place = std::ranges::lower_bound(more, value);
  if (place == more.end() || *place != value) more.insert(place, value);
  return numbered(std::move(more));
}

// The unknown items behind this one, if anything depends on its value.
std::uint32_t SchemaGrammar::with_unknown(const Member& item) {
  if (!item.recorded) return item.next.unknown;
  std::vector<Formula> more = written_sets_[item.next.unknown];
  more.insert(std::ranges::lower_bound(more, item.value), item.value);
  return numbered(std::move(more));
}

// How many of the unknown items may have a value that satisfies the formula too.
std::uint64_t SchemaGrammar::rivals(const Container& array, Formula value) {
  const std::vector<Formula> unknown = written_sets_[array.unknown];
  return static_cast<std::uint64_t>(
      std::ranges::count_if(unknown, [&](Formula other) { return possible(formulas_.all(other, value)); }));
}

// Whether an array whose items must differ (or must not) can be completed: an item must have more values than there are
// items before it that might take one of them.
bool SchemaGrammar::search_unique(const Container& array) {
  const bool ends = finished(array.rest);
  if (array.min_left == 0 && ends) return true;
  if (array.max_left == 0 || array.min_left > array.max_left) return false;
  for (const Member& way : repeating_items(array)) {
    if (possible(way.value) && possible(way.next)) return true;
  }
  const auto unchanged = [&](const Member& way) {
    return way.next.rest == array.rest && way.next.place == array.place;
  };
  std::vector<Member> ways = items(array);
  std::ranges::stable_partition(ways, [&](const Member& way) { return way.next.rest != array.rest; });
  if (ends && std::ranges::all_of(ways, unchanged)) {
    std::uint64_t values = 0;  // that nobody else wants
    for (const Member& way : ways) {
      const std::uint64_t others = rivals(array, way.value);
      values += count_values(way.value, others + array.min_left) - std::min(others, count_values(way.value, others));
    }
    return values >= array.min_left;
  }
  const bool first = array.unknown == 0 && array.written == 0;
  return std::ranges::any_of(ways, [&](const Member& way) {
    if (unchanged(way) && array.min_left == 0 && !first) return false;
    const std::uint64_t others = rivals(array, way.value);
    if (count_values(way.value, others + 1) <= others) return false;
    Container next = way.next;
    next.unknown = with_unknown(way);
    return possible(next);
  });
}

// Ways in which the next item can be one of those whose values are not known. Whether theirs is a value that it may
// have is taken for granted.
std::vector<SchemaGrammar::Member> SchemaGrammar::repeating_items(const Container& array) {
  if (array.unknown == 0) return {};
  Container repeats = array;
  repeats.rest = formulas_.map(array.rest, [&](const Demand& c, bool negated) {
    if (c.kind == Kind::unique) return constant(negated);
    const Formula self = formulas_.one(c);
    return negated ? formulas_.no(self) : self;
  });
  return items(repeats);
}

// How many values satisfy a formula, up to `enough`; containers are taken to be enough, if there are any.
std::uint64_t SchemaGrammar::count_values(Formula formula, std::uint64_t enough) {
  if (!possible(formula)) return 0;
  if (enough <= 1) return enough;
  const auto array = open_array(formula);
  if (restrict(formula, Type::object) != FormulaStore::never || (array && possible(*array))) return enough;
  std::uint64_t count = restrict(formula, Type::null) != FormulaStore::never ? 1 : 0;
  const Formula truth = restrict(formula, Type::boolean);
  for (const bool one : {false, true}) {
    const Formula holds = formulas_.map(truth, [&](const Demand&, bool negated) { return constant(one != negated); });
    count += holds != FormulaStore::never ? 1 : 0;
  }
  const Expression numbers = number_part(restrict(formula, Type::number));
  const bool two_zeros = store_.accepts(numbers, "0") && store_.accepts(numbers, "-0");
  const std::uint64_t texts = TextCount(store_, enough + 1).of(numbers);
  count += texts - ((two_zeros && texts <= enough) ? 1 : 0);
  count += TextCount(store_, enough).of(string_part(restrict(formula, Type::string)));
  return std::min(count, enough);
}

}  // namespace espalier::grammar
