#include "grammar/json_schema/arrays/array_completion.h"

#include <algorithm>

#include "grammar/json_schema/formulas/formula_steps.h"

namespace espalier::grammar {

using Kind = Demand::Kind;

bool ArrayCompletion::search(const Container& array) {
  return speaks_of(formulas_, array.rest, Kind::unique) ? search_unique(array) : search_any(array);
}

bool ArrayCompletion::search_any(const Container& array) {
  const bool ends = decisions_.finished(array.rest);
  if (array.min_left == 0 && ends) return true;
  if (array.max_left == 0 || array.min_left > array.max_left) return false;
  std::vector<Member> ways = items_.next(array);
  std::ranges::stable_partition(ways, [&](const Member& way) { return way.next.rest != array.rest; });
  // Counting on through equal items says nothing new.
  const bool steady = std::ranges::all_of(
      ways, [&](const Member& way) { return way.next.rest == array.rest && way.next.place == array.place; });
  if (steady) return ends && std::ranges::any_of(ways, [&](const Member& way) { return values_.possible(way.value); });
  return std::ranges::any_of(
      ways, [&](const Member& way) { return values_.possible(way.value) && values_.possible(way.next); });
}

// How many of the unknown items may have a value that satisfies the formula too.
std::uint64_t ArrayCompletion::rivals(const Container& array, Formula value) {
  const std::vector<Formula> unknown = written_[array.unknown];
  return static_cast<std::uint64_t>(
      std::ranges::count_if(unknown, [&](Formula other) { return values_.possible(formulas_.all(other, value)); }));
}

// Whether so many values of a formula and one of each unknown item can all differ, also if an item takes one that
// another could have. Where values are few and known it is enough that some choice leaves all others theirs: that is
// so if no group of items has fewer values than members (Hall, 1935; without those of the formula it has been asked
// before; items with values enough for all are in no such group), and expand() leaves the other choices out.
bool ArrayCompletion::can_differ(const Container& array, Formula more, std::uint64_t count) {
  constexpr std::size_t kMostKinds = 8;  // of items in one group
  constexpr std::size_t kMostScarce = 1000;
  const std::uint64_t others = rivals(array, more);
  if (counts_.of(more, others + count) >= others + count) return true;
  if (others == 0) return false;
  const std::vector<Formula> unknown = written_[array.unknown];
  std::vector<Formula> kinds = unknown;
  kinds.erase(std::ranges::unique(kinds).begin(), kinds.end());
  const std::uint64_t all = unknown.size() + count;
  std::erase_if(kinds, [&](Formula kind) { return counts_.of(kind, all) >= all; });
  if (kinds.size() > kMostKinds || scarce_values_.size() > kMostScarce) return false;
  std::vector<Formula> scarce;
  for (std::size_t i = 0; i <= kinds.size(); ++i) {
    const auto listed = counts_.listed(i < kinds.size() ? kinds[i] : more);
    if (!listed) return false;
    scarce.insert(scarce.end(), listed->begin(), listed->end());
  }
  if (!fits_every_group(kinds, unknown, more, count)) return false;
  scarce_values_.insert(scarce.begin(), scarce.end());
  return true;
}

// Whether no group of items, those of `more` always among them, has fewer values than members.
bool ArrayCompletion::fits_every_group(const std::vector<Formula>& kinds, const std::vector<Formula>& unknown,
                                       Formula more, std::uint64_t count) {
  for (std::size_t group = 0; group < std::size_t{1} << kinds.size(); ++group) {
    std::vector<Formula> values{more};
    std::uint64_t members = count;
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      if (((group >> i) & 1) == 0) continue;
      values.push_back(kinds[i]);
      members += static_cast<std::uint64_t>(std::ranges::count(unknown, kinds[i]));
    }
    if (counts_.of(formulas_.any(values), members) < members) return false;
  }
  return true;
}

Formula ArrayCompletion::leaving_others_theirs(const Member& item) {
  if (scarce_values_.empty() || !item.recorded || (item.next.min_left == 0 && decisions_.finished(item.next.rest)))
    return item.value;
  Formula left = item.value;
  auto values = counts_.listed(item.value);
  if (!values) values.emplace(scarce_values_.begin(), scarce_values_.end());
  for (const Formula value : *values) {
    if (!values_.possible(formulas_.all(item.value, value))) continue;
    Container next = item.next;
    next.written = written_.with(next.written, value);
    if (!values_.possible(next)) left = formulas_.all(left, formulas_.no(value));
  }
  return left;
}

// Whether an array whose items must differ (or must not) can be completed.
bool ArrayCompletion::search_unique(const Container& array) {
  const bool ends = decisions_.finished(array.rest);
  if (array.min_left == 0 && ends) return true;
  if (array.max_left == 0 || array.min_left > array.max_left) return false;
  for (const Member& way : items_.repeating(array)) {
    if (values_.possible(way.value) && values_.possible(way.next)) return true;
  }
  const auto unchanged = [&](const Member& way) {
    return way.next.rest == array.rest && way.next.place == array.place;
  };
  std::vector<Member> ways = items_.next(array);
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
    next.unknown = items_.with_unknown(way);
    return values_.possible(next);
  });
}

}  // namespace espalier::grammar
