#include "grammar/json_schema/arrays/array_items.h"

#include <algorithm>

#include "grammar/json_schema/formulas/formula_steps.h"

namespace espalier::grammar {

using Kind = Demand::Kind;

std::optional<Container> ArrayItems::open(Formula formula) {
  const Formula all = restrictions_.of(formula, JsonType::array);
  if (all == FormulaStore::never) return std::nullopt;
  Container array;
  std::vector<Formula> rest;
  for (const Formula part : conjuncts(formulas_, all)) {
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

std::vector<Member> ArrayItems::next(const Container& at) {
  std::vector<Member> ways;
  for (const Choice& choice : decisions_.of(at_item(at.rest, at.place, at.written), FormulaStore::always)) {
    Member way{ExpressionStore::empty, choice.value, at, speaks_of(formulas_, choice.rest, Kind::unique)};
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
Formula ArrayItems::at_item(Formula formula, std::uint32_t place, std::uint32_t written) {
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
        const Formula repeats = formulas_.any(written_[written]);
        return answer(formulas_.all(formulas_.one({Kind::value, formulas_.no(repeats), 0, 0}), self));
      }
      default:
        return answer(self);
    }
  });
}

std::vector<Member> ArrayItems::repeating(const Container& array) {
  if (array.unknown == 0) return {};
  Container repeats = array;
  repeats.rest = formulas_.map(array.rest, [&](const Demand& c, bool negated) {
    if (c.kind == Kind::unique) return constant(negated);
    const Formula self = formulas_.one(c);
    return negated ? formulas_.no(self) : self;
  });
  return next(repeats);
}

std::uint32_t ArrayItems::with_unknown(const Member& item) {
  return item.recorded ? written_.with_one_more(item.next.unknown, item.value) : item.next.unknown;
}

}  // namespace espalier::grammar
