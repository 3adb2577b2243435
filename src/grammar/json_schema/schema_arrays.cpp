// Arrays, item by item: what an item must satisfy, and what is then left of the formula.
#include <algorithm>

#include "grammar/json_schema/schema_grammar.h"
#include "grammar/json_schema/schema_steps.h"

namespace espalier::grammar {

std::optional<SchemaGrammar::Container> SchemaGrammar::open_array(Formula formula) {
  const Formula all = restrict(formula, Type::array);
  if (all == FormulaStore::never) return std::nullopt;
  Container array;
  std::vector<Formula> rest;
  const bool conjunction = formulas_.op(all) == FormulaStore::Op::all;
  for (const Formula part : conjunction ? formulas_.parts(all) : std::span<const Formula>(&all, 1)) {
    if (formulas_.op(part) == FormulaStore::Op::one) {
      const Demand c = formulas_.demand(part);
      if (c.kind == Kind::min_items) {
        array.min_left = std::max(array.min_left, c.a);
        continue;
      }
      if (c.kind == Kind::max_items) {
        array.max_left = std::min(array.max_left, c.a);
        continue;
      }
    }
    rest.push_back(part);
  }
  array.rest = formulas_.all(rest);
  formulas_.each(array.rest, [&](const Demand& c, bool) {
    if (c.kind == Kind::item) array.cap = std::max(array.cap, c.a + 1);
    if (c.kind == Kind::items) array.cap = std::max(array.cap, c.a);
  });
  return array;
}

std::vector<SchemaGrammar::Member> SchemaGrammar::items(const Container& at) {
  std::vector<Member> ways;
  for (const Choice& choice : decide(at_item(at.rest, at.place, at.written), FormulaStore::always)) {
    Member way{ExpressionStore::empty, choice.value, at, speaks_of(choice.rest, Kind::unique)};
    way.next.first = false;
    way.next.place = std::min(at.place + 1, at.cap);
    way.next.min_left = less_one(at.min_left);
    way.next.max_left = less_one(at.max_left);
    way.next.rest = choice.rest;
    ways.push_back(way);
  }
  return ways;
}

// What is left of constraints on arrays once the item at `place` is read; what they ask of it becomes `value`.
Formula SchemaGrammar::at_item(Formula formula, std::uint32_t place, std::uint32_t written) {
  return formulas_.map(formula, [&](const Demand& c, bool negated) {
    const auto answer = [&](Formula f) { return negated ? formulas_.no(f) : f; };
    const Formula self = formulas_.one(c);
    switch (c.kind) {
      case Kind::item:
        if (c.a == place) return answer(formulas_.one({Kind::value, c.b, 0, 0}));
        return c.a < place ? answer(FormulaStore::always) : answer(self);
      case Kind::items:
        if (place < c.a) return answer(self);
        return answer(formulas_.all(formulas_.one({Kind::value, c.b, 0, 0}), self));
      case Kind::contains: {
        const Formula counts = formulas_.one({Kind::value, c.a, 0, 0});
        const Formula one_less =
            c.c == 0 ? FormulaStore::never : formulas_.one({Kind::contains, c.a, less_one(c.b), less_one(c.c)});
        return answer(formulas_.any(formulas_.all(counts, one_less), formulas_.all(formulas_.no(counts), self)));
      }
      case Kind::min_items:
        return answer(formulas_.one({Kind::min_items, less_one(c.a), 0, 0}));
      case Kind::max_items:
        return answer(c.a == 0 ? FormulaStore::never : formulas_.one({Kind::max_items, less_one(c.a), 0, 0}));
      case Kind::unique: {
        const Formula repeats = formulas_.any(written_sets_[written]);
        return answer(formulas_.all(formulas_.one({Kind::value, formulas_.no(repeats), 0, 0}), self));
      }
      default:
        return answer(self);
    }
  });
}

bool SchemaGrammar::search_array(const Container& array) {
  const bool ends = finished(array.rest);
  if (array.min_left == 0 && ends) return true;
  if (array.max_left == 0 || array.min_left > array.max_left) return false;
  std::vector<Member> ways = items(array);
  std::ranges::stable_partition(ways, [&](const Member& way) { return way.next.rest != array.rest; });
  // Counting on through equal items says nothing new.
  const bool steady = std::ranges::all_of(
      ways, [&](const Member& way) { return way.next.rest == array.rest && way.next.place == array.place; });
  if (steady) return ends && std::ranges::any_of(ways, [&](const Member& way) { return possible(way.value); });
  return std::ranges::any_of(ways, [&](const Member& way) { return possible(way.value) && possible(way.next); });
}

}  // namespace espalier::grammar
