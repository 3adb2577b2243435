#include "grammar/json_schema/objects/object_ways.h"

#include <algorithm>

#include "grammar/json_schema/formulas/formula_steps.h"

namespace espalier::grammar {

using Kind = Demand::Kind;

namespace {

constexpr std::size_t kMostAlternatives = 64;  // alternatives of which each is compared with each
constexpr std::size_t kMostSplit = 8;          // alternatives of an object of a document that are told apart

}  // namespace

std::vector<Container> ObjectWays::open(Formula formula) {
  std::vector<Container> ways = in_order(formula);
  for (std::size_t i = 0, count = ways.size(); i < count; ++i) {
    if (ways[i].order == NameOrder::required && shapes_.has_two_orders(shapes_[ways[i].shape])) {
      ways.push_back(ways[i]);
      ways.back().shape = shapes_.required_first(ways[i].shape);
    }
  }
  return ways;
}

// In documents alternatives stand as one object, whose names are mostly in nobody's order; where each of them has an
// order they are told apart.
std::vector<Container> ObjectWays::in_order(Formula formula) {
  std::vector<Container> ways = open_all(alternatives(formula));
  const auto has_no_order = [](const Container& way) { return way.order == NameOrder::none; };
  std::vector<Formula> choices;
  if (!shapes_.any_order() || std::ranges::none_of(ways, has_no_order) || !add_choices(formula, choices)) return ways;
  std::vector<Container> finer = open_all(choices);
  return std::ranges::none_of(finer, has_no_order) ? finer : ways;
}

std::vector<Container> ObjectWays::open_all(const std::vector<Formula>& formulas) {
  std::vector<Container> ways;
  for (const Formula way : formulas) ways.push_back(open_one(way));
  if (ways.size() > kMostAlternatives) return ways;
  for (Container& a : ways) {
    for (const Container& b : ways) {
      const ObjectShape &one = shapes_[a.shape], &other = shapes_[b.shape];
      if (!(one.written_twice() && other.written_twice()) && contradict(one, other)) a.order = NameOrder::none;
    }
  }
  return ways;
}

// All alternatives, those within alternatives too. False when they are too many.
bool ObjectWays::add_choices(Formula formula, std::vector<Formula>& choices) {
  const auto ways = choices_of(formula);
  if (ways.size() == 1 && ways[0] == formula) {
    choices.push_back(formula);
    return choices.size() <= kMostSplit;
  }
  return std::ranges::all_of(ways, [&](Formula way) { return add_choices(way, choices); });
}

// The formula as alternatives of their own. Where members come in declared order, that of an anyOf beside other
// keywords is the order of each of its schemas.
std::vector<Formula> ObjectWays::alternatives(Formula formula) {
  if (formulas_.op(formula) == FormulaStore::Op::all && shapes_.any_order()) return {formula};
  return choices_of(formula);
}

std::vector<Formula> ObjectWays::choices_of(Formula formula) {
  using Form = FormulaStore::Op;
  if (formula == FormulaStore::never) return {};
  const auto parts = formulas_.parts(formula);
  if (formulas_.op(formula) == Form::any) return {parts.begin(), parts.end()};
  if (formulas_.op(formula) != Form::all) return {formula};
  const auto names_members = [&](Formula part) {
    bool names = false;
    formulas_.each(part, [&](const Demand& d, bool negated) { names |= d.kind == Kind::property && !negated; });
    return names;
  };
  const auto is_choice = [&](Formula part) {
    return formulas_.op(part) == Form::any && std::ranges::all_of(formulas_.parts(part), names_members);
  };
  if (std::ranges::count_if(parts, is_choice) != 1) return {formula};
  const std::vector<Formula> all(parts.begin(), parts.end());
  const auto choice = std::ranges::find_if(all, is_choice) - all.begin();
  std::vector<Formula> ways;
  for (const Formula way : formulas_.parts(all[static_cast<std::size_t>(choice)])) {
    std::vector<Formula> with = all;
    with[static_cast<std::size_t>(choice)] = way;
    ways.push_back(formulas_.all(with));
  }
  std::erase(ways, FormulaStore::never);
  return ways;
}

Container ObjectWays::open_one(Formula formula) {
  Container object;
  object.object = true;
  std::vector<Formula> rest;
  for (const Formula part : conjuncts(formulas_, formula)) {
    const bool simple = formulas_.op(part) == FormulaStore::Op::one;
    const Demand c = simple ? formulas_.demand(part) : Demand{};
    if (!simple)
      rest.push_back(part);
    else if (c.kind == Kind::min_members)
      object.min_left = std::max(object.min_left, c.a);
    else if (c.kind == Kind::max_members)
      object.max_left = std::min(object.max_left, c.a);
  }
  object.rest = formulas_.all(rest);
  object.shape = shapes_.of(formula);
  object.order = shapes_.order_of(shapes_[object.shape]);
  return object;
}

}  // namespace espalier::grammar
