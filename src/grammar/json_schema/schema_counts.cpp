// How many values satisfy a formula, as far as anybody wants to know: values that must differ need as many.
#include <algorithm>

#include "grammar/automaton/text_count.h"
#include "grammar/json_schema/schema_grammar.h"

namespace espalier::grammar {
namespace {

constexpr int kMostSteps = 256;    // members that one count looks at
constexpr std::size_t kMost = 32;  // values in a list

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

// Strings without those that are others in another spelling: \u001f and \u001F are one.
Expression SchemaGrammar::each_once(Expression strings) {
  if (each_text_once_ == ExpressionStore::nothing) each_text_once_ = each_json_text_once(store_);
  return store_.both(strings, each_text_once_);
}

// A number is counted in its shortest form only: 1 and 1.0 are one value.
std::uint64_t SchemaGrammar::count_scalars(Formula formula, std::uint64_t enough) {
  std::uint64_t count = restrict(formula, Type::null) != FormulaStore::never ? 1 : 0;
  for (const bool one : {false, true}) count += allows_truth(formula, one) ? 1 : 0;
  const Expression numbers = number_part(restrict(formula, Type::number));
  if (numbers != ExpressionStore::nothing)
    count += TextCount(store_, enough).of(store_.both(numbers, shortest_number(store_)));
  return count + TextCount(store_, enough).of(each_once(string_part(restrict(formula, Type::string))));
}

// Each as a formula, unless they are many.
std::optional<std::vector<Formula>> SchemaGrammar::listed_values(Formula formula) {
  ValueList list{{}, kMostSteps};
  if (!list_values(formula, list)) return std::nullopt;
  std::vector<Formula> values;
  for (const std::string& text : list.texts) values.push_back(reader_.equal_to_text(text));
  return values;
}

// Adds their texts; false when that is too much.
bool SchemaGrammar::list_values(Formula formula, ValueList& list) {
  if (!possible(formula)) return true;
  if (--list.steps_left < 0 || !list_scalars(formula, list.texts)) return false;
  if (const auto array = open_array(formula); array && !list_items(*array, "[", list)) return false;
  const Formula objects = restrict(formula, Type::object);
  return objects == FormulaStore::never || list_objects(objects, list);
}

bool SchemaGrammar::list_scalars(Formula formula, std::vector<std::string>& texts) {
  if (restrict(formula, Type::null) != FormulaStore::never) texts.emplace_back("null");
  for (const bool one : {false, true}) {
    if (allows_truth(formula, one)) texts.emplace_back(one ? "true" : "false");
  }
  const Expression numbers = store_.both(number_part(restrict(formula, Type::number)), shortest_number(store_));
  const auto of_numbers = listed_texts(store_, numbers, kMost);
  const Expression strings = each_once(string_part(restrict(formula, Type::string)));
  const auto of_strings = listed_texts(store_, strings, kMost);
  if (!of_numbers || !of_strings) return false;
  texts.insert(texts.end(), of_numbers->begin(), of_numbers->end());
  for (const std::string& text : *of_strings) texts.push_back('"' + text + '"');
  return texts.size() <= kMost;
}

// Of what an item or a member may be with what stands before it.
std::optional<std::vector<std::string>> SchemaGrammar::begun_with(const std::string& before, Formula value,
                                                                  ValueList& list) {
  ValueList own{{}, list.steps_left};
  const bool known = list_values(value, own);
  list.steps_left = own.steps_left;
  if (!known) return std::nullopt;
  const std::string comma = before.ends_with('[') || before.ends_with('{') || before.ends_with(':') ? "" : ",";
  for (std::string& text : own.texts) text = before + comma + text;
  return std::move(own.texts);
}

bool SchemaGrammar::list_items(const Container& array, const std::string& begun, ValueList& list) {
  if (!possible(array)) return true;
  if (--list.steps_left < 0 || speaks_of(array.rest, Kind::unique)) return false;
  if (array.min_left == 0 && finished(array.rest)) list.texts.push_back(begun + ']');
  if (array.max_left == 0) return list.texts.size() <= kMost;
  for (const Member& way : items(array)) {
    const auto longer = begun_with(begun, way.value, list);
    if (!longer) return false;
    for (const std::string& text : *longer) {
      if (!list_items(way.next, text, list)) return false;
    }
  }
  return list.texts.size() <= kMost;
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

// The names that the formula mentions; none of them when it speaks of others by patterns.
std::optional<std::vector<std::uint32_t>> SchemaGrammar::mentioned_names(Formula objects) {
  bool by_pattern = false;
  formulas_.each(objects, [&](const Demand& c, bool) {
    by_pattern |= c.kind == Kind::pattern || c.kind == Kind::names;
    by_pattern |= c.kind == Kind::additional && !tables_.name_sets[c.a].patterns.empty();
  });
  if (by_pattern) return std::nullopt;
  Shape shape;
  collect_names(objects, shape);
  return std::move(shape.names);
}

// Whether a member of a name that nobody mentions may come.
bool SchemaGrammar::takes_others(Formula rest) {
  const auto choices = decide(at_other_member(rest, {}, 0), FormulaStore::always);
  return std::ranges::any_of(choices, [&](const Choice& other) { return possible(other.value); });
}

// By the names that the formula mentions, each of which comes or does not; in which order says nothing.
std::uint64_t SchemaGrammar::count_objects(Formula objects, ValueCount& limits) {
  if (objects == FormulaStore::never) return 0;
  const auto names = mentioned_names(objects);
  return names ? count_members(objects, *names, limits) : limits.enough;
}

bool SchemaGrammar::list_objects(Formula objects, ValueList& list) {
  const auto names = mentioned_names(objects);
  return names && list_members(objects, *names, "{", list);
}

bool SchemaGrammar::list_members(Formula rest, std::span<const std::uint32_t> names, const std::string& begun,
                                 ValueList& list) {
  if (rest == FormulaStore::never) return true;
  if (--list.steps_left < 0) return false;
  if (names.empty()) {
    if (takes_others(rest)) return false;
    if (finished(rest)) list.texts.push_back(begun + '}');
    return list.texts.size() <= kMost;
  }
  if (!list_members(pass_name(rest, names.front()), names.subspan(1), begun, list)) return false;
  const std::string comma = begun.ends_with('{') ? "" : ",";
  const std::string name = begun + comma + '"' + spelled(tables_.texts[names.front()]) + "\":";
  for (const Choice& choice : decide(at_member(rest, names.front()), FormulaStore::always)) {
    const auto longer = begun_with(name, choice.value, list);
    if (!longer) return false;
    for (const std::string& text : *longer) {
      if (!list_members(choice.rest, names.subspan(1), text, list)) return false;
    }
  }
  return true;
}

std::uint64_t SchemaGrammar::count_members(Formula rest, std::span<const std::uint32_t> names, ValueCount& limits) {
  if (rest == FormulaStore::never) return 0;
  if (--limits.steps_left < 0) return limits.enough;
  if (names.empty()) {
    if (takes_others(rest)) return limits.enough;
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
