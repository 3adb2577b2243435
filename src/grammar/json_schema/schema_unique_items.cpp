// Arrays whose items must differ, or must not: which values were written, and whether enough others are left.
#include <algorithm>

#include "grammar/json_schema/schema_grammar.h"
#include "grammar/json_schema/schema_steps.h"

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

// Whether so many values of a formula and one of each unknown item can all differ, also if an item takes one that
// another could have. Where values are few and known it is enough that some choice leaves all others theirs: that is
// so if no group of items has fewer values than members (Hall, 1935; without those of the formula it has been asked
// before; items with values enough for all are in no such group), and expand() leaves the other choices out.
bool SchemaGrammar::can_differ(const Container& array, Formula more, std::uint64_t count) {
  constexpr std::size_t kMostKinds = 8;  // of items in one group
  constexpr std::size_t kMostScarce = 1000;
  const std::uint64_t others = rivals(array, more);
  if (count_values(more, others + count) >= others + count) return true;
  if (others == 0) return false;
  const std::vector<Formula> unknown = written_sets_[array.unknown];
  std::vector<Formula> kinds = unknown;
  kinds.erase(std::ranges::unique(kinds).begin(), kinds.end());
  const std::uint64_t all = unknown.size() + count;
  std::erase_if(kinds, [&](Formula kind) { return count_values(kind, all) >= all; });
  if (kinds.size() > kMostKinds || scarce_values_.size() > kMostScarce) return false;
  std::vector<Formula> scarce;
  for (std::size_t i = 0; i <= kinds.size(); ++i) {
    const auto listed = listed_values(i < kinds.size() ? kinds[i] : more);
    if (!listed) return false;
    scarce.insert(scarce.end(), listed->begin(), listed->end());
  }
  for (std::size_t group = 0; group < std::size_t{1} << kinds.size(); ++group) {
    std::vector<Formula> values{more};
    std::uint64_t members = count;
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      if (((group >> i) & 1) == 0) continue;
      values.push_back(kinds[i]);
      members += static_cast<std::uint64_t>(std::ranges::count(unknown, kinds[i]));
    }
    if (count_values(formulas_.any(values), members) < members) return false;
  }
  scarce_values_.insert(scarce.begin(), scarce.end());
  return true;
}

// What an item may be without what others need.
Formula SchemaGrammar::leaving_others_theirs(const Member& item) {
  if (scarce_values_.empty() || !item.recorded || (item.next.min_left == 0 && finished(item.next.rest)))
    return item.value;
  Formula left = item.value;
  auto values = listed_values(item.value);
  if (!values) values.emplace(scarce_values_.begin(), scarce_values_.end());
  for (const Formula value : *values) {
    if (!possible(formulas_.all(item.value, value))) continue;
    Container next = item.next;
    next.written = with_written(next.written, value);
    if (!possible(next)) left = formulas_.all(left, formulas_.no(value));
  }
  return left;
}

// Whether an array whose items must differ (or must not) can be completed.
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
    std::vector<Formula> values;
    for (const Member& way : ways) values.push_back(way.value);
    return can_differ(array, formulas_.any(values), array.min_left);
  }
  const bool first = array.unknown == 0 && array.written == 0;
  return std::ranges::any_of(ways, [&](const Member& way) {
    if (unchanged(way) && array.min_left == 0 && !first) return false;
    if (!can_differ(array, way.value, 1)) return false;
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

}  // namespace espalier::grammar
