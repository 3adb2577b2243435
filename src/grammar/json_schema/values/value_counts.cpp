#include "grammar/json_schema/values/value_counts.h"

#include <algorithm>

#include "grammar/json_schema/formulas/formula_steps.h"

namespace espalier::grammar {

using Kind = Demand::Kind;

namespace {

constexpr int kMostCountSteps = 256;     // members that one count looks at
constexpr std::size_t kMostListed = 32;  // values in a list

}  // namespace

std::uint64_t ValueCounts::of(Formula formula, std::uint64_t enough) {
  const auto known = known_.find(formula);
  if (known != known_.end() && (known->second.enough >= enough || known->second.count < known->second.enough))
    return std::min(enough, known->second.count);
  const OpenQuestions::Certainty certainty(parts_.questions);
  Count count{enough, 0, kMostCountSteps};
  count.count = count_values(formula, count);
  if (certainty.holds()) known_[formula] = count;
  return count.count;
}

std::uint64_t ValueCounts::count_values(Formula formula, Count& limits) {
  const std::uint64_t enough = limits.enough;
  if (!parts_.values.possible(formula)) return 0;
  if (enough <= 1 || --limits.steps_left < 0) return enough;
  std::uint64_t count = parts_.scalars.count(formula, enough);
  if (count >= enough) return enough;
  if (const auto array = parts_.items.open(formula)) count += count_arrays(*array, limits);
  if (count >= enough) return enough;
  return std::min(enough, count + count_objects(parts_.restrictions.of(formula, JsonType::object), limits));
}

std::optional<std::vector<Formula>> ValueCounts::listed(Formula formula) {
  List list{{}, kMostCountSteps};
  if (!list_values(formula, list)) return std::nullopt;
  std::vector<Formula> values;
  for (const std::string& text : list.texts) values.push_back(EqualValues(tables_).of_text(text));
  return values;
}

// Adds their texts; false when that is too much.
bool ValueCounts::list_values(Formula formula, List& list) {
  if (!parts_.values.possible(formula)) return true;
  if (--list.steps_left < 0 || !parts_.scalars.list(formula, kMostListed, list.texts)) return false;
  if (const auto array = parts_.items.open(formula); array && !list_items(*array, "[", list)) return false;
  const Formula objects = parts_.restrictions.of(formula, JsonType::object);
  return objects == FormulaStore::never || list_objects(objects, list);
}

// Of what an item or a member may be with what stands before it.
std::optional<std::vector<std::string>> ValueCounts::begun_with(const std::string& before, Formula value, List& list) {
  List own{{}, list.steps_left};
  const bool known = list_values(value, own);
  list.steps_left = own.steps_left;
  if (!known) return std::nullopt;
  const std::string comma = before.ends_with('[') || before.ends_with('{') || before.ends_with(':') ? "" : ",";
  for (std::string& text : own.texts) text = before + comma + text;
  return std::move(own.texts);
}

bool ValueCounts::list_items(const Container& array, const std::string& begun, List& list) {
  if (!parts_.values.possible(array)) return true;
  if (--list.steps_left < 0 || speaks_of(formulas_, array.rest, Kind::unique)) return false;
  if (array.min_left == 0 && parts_.decisions.finished(array.rest)) list.texts.push_back(begun + ']');
  if (array.max_left == 0) return list.texts.size() <= kMostListed;
  for (const Member& way : parts_.items.next(array)) {
    const auto longer = begun_with(begun, way.value, list);
    if (!longer) return false;
    for (const std::string& text : *longer) {
      if (!list_items(way.next, text, list)) return false;
    }
  }
  return list.texts.size() <= kMostListed;
}

std::uint64_t ValueCounts::count_arrays(const Container& array, Count& limits) {
  if (!parts_.values.possible(array)) return 0;
  if (--limits.steps_left < 0 || speaks_of(formulas_, array.rest, Kind::unique)) return limits.enough;
  std::uint64_t count = array.min_left == 0 && parts_.decisions.finished(array.rest) ? 1 : 0;
  if (array.max_left == 0) return count;
  for (const Member& way : parts_.items.next(array)) {
    if (count >= limits.enough) break;
    const std::uint64_t values = count_values(way.value, limits);
    if (values > 0) count += values * count_arrays(way.next, limits);
  }
  return std::min(count, limits.enough);
}

// The names that the formula mentions; none of them when it speaks of others by patterns.
std::optional<std::vector<std::uint32_t>> ValueCounts::mentioned_names(Formula objects) {
  bool by_pattern = false;
  formulas_.each(objects, [&](const Demand& c, bool) {
    by_pattern |= c.kind == Kind::pattern || c.kind == Kind::names;
    by_pattern |= c.kind == Kind::additional && !tables_.name_sets[c.a].patterns.empty();
  });
  if (by_pattern) return std::nullopt;
  return grammar::mentioned_names(tables_, objects);
}

// Whether a member of a name that nobody mentions may come.
bool ValueCounts::takes_others(Formula rest) {
  const auto choices = parts_.decisions.of(parts_.members.at_other_member(rest, {}, 0), FormulaStore::always);
  return std::ranges::any_of(choices, [&](const Choice& other) { return parts_.values.possible(other.value); });
}

// By the names that the formula mentions, each of which comes or does not; in which order says nothing.
std::uint64_t ValueCounts::count_objects(Formula objects, Count& limits) {
  if (objects == FormulaStore::never) return 0;
  const auto names = mentioned_names(objects);
  return names ? count_members(objects, *names, limits) : limits.enough;
}

bool ValueCounts::list_objects(Formula objects, List& list) {
  const auto names = mentioned_names(objects);
  return names && list_members(objects, *names, "{", list);
}

bool ValueCounts::list_members(Formula rest, std::span<const std::uint32_t> names, const std::string& begun,
                               List& list) {
  if (rest == FormulaStore::never) return true;
  if (--list.steps_left < 0) return false;
  if (names.empty()) {
    if (takes_others(rest)) return false;
    if (parts_.decisions.finished(rest)) list.texts.push_back(begun + '}');
    return list.texts.size() <= kMostListed;
  }
  if (!list_members(parts_.members.pass_name(rest, names.front()), names.subspan(1), begun, list)) return false;
  const std::string comma = begun.ends_with('{') ? "" : ",";
  const std::string name = begun + comma + '"' + spelled(tables_.texts[names.front()]) + "\":";
  for (const Choice& choice :
       parts_.decisions.of(parts_.members.at_member(rest, names.front()), FormulaStore::always)) {
    const auto longer = begun_with(name, choice.value, list);
    if (!longer) return false;
    for (const std::string& text : *longer) {
      if (!list_members(choice.rest, names.subspan(1), text, list)) return false;
    }
  }
  return true;
}

std::uint64_t ValueCounts::count_members(Formula rest, std::span<const std::uint32_t> names, Count& limits) {
  if (rest == FormulaStore::never) return 0;
  if (--limits.steps_left < 0) return limits.enough;
  if (names.empty()) {
    if (takes_others(rest)) return limits.enough;
    return parts_.decisions.finished(rest) ? 1 : 0;
  }
  std::uint64_t count = count_members(parts_.members.pass_name(rest, names.front()), names.subspan(1), limits);
  for (const Choice& choice :
       parts_.decisions.of(parts_.members.at_member(rest, names.front()), FormulaStore::always)) {
    if (count >= limits.enough) break;
    const std::uint64_t values = count_values(choice.value, limits);
    if (values > 0) count += values * count_members(choice.rest, names.subspan(1), limits);
  }
  return std::min(count, limits.enough);
}

}  // namespace espalier::grammar
