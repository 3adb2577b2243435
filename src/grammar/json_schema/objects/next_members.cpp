#include "grammar/json_schema/objects/next_members.h"

#include <algorithm>

#include "grammar/json_schema/payload.h"

namespace espalier::grammar {

using Kind = Demand::Kind;

NextOfObject NextMembers::of(const Container& at) {
  NextOfObject next;
  std::vector<Entry> entries;
  Formula rest = at.rest;
  const std::size_t names = parts_.shapes[at.shape].names.size();
  const Outline of_rest = outline(at.rest);
  const std::uint32_t number = parts_.containers.number(at);
  const auto ending = parts_.completion.ending_with_rest(ObjectMembers::in_order(at));
  const bool in_turn = at.order == NameOrder::all || (at.order == NameOrder::required && parts_.members.waits(at));
  // Names whose values decide what is left, and names in any order, behind each of which the object is another one:
  // most of them are never read, so what follows is worked out when they are.
  const auto offer = [&](std::uint32_t place) {
    const std::uint32_t name = parts_.shapes[at.shape].names[place];
    const bool decides = of_rest.values.contains(name) || of_rest.required.contains(name) || !of_rest.general.empty();
    if (!decides && in_turn)
      parts_.members.add_named(at, place, rest, next.ways);
    else if (can_come(at, place, rest, of_rest, ending))
      entries.push_back({number, place, rest, !decides && !of_rest.counts});
  };
  bool waiting = false, passed = true;  // for a name that must come; those before the others may stay away
  for (std::uint32_t place = at.place; place < names && passed && tables_.goes_on(); ++place) {
    if (parts_.members.seen(at, place)) continue;
    if (at.max_left > 0) offer(place);
    waiting |= parts_.shapes[at.shape].required[place];
    if (at.order == NameOrder::none) continue;
    passed = !waiting;
    if (at.order == NameOrder::required || !passed) continue;
    rest = parts_.steps.pass_name(rest, parts_.shapes[at.shape].names[place]);
    passed = rest != FormulaStore::never;
  }
  if (passed) {
    next.may_close = !waiting && at.min_left == 0 && parts_.decisions.finished(rest);
    if (at.max_left > 0 && parts_.open_names.matter(at, rest))
      parts_.open_names.add_members(at, rest, next.bodies);
    else if (at.max_left > 0)
      parts_.members.add_others(at, rest, next.ways);
  }
  for (const Entry& one : entries) {
    if (!tables_.goes_on()) break;
    next.bodies.push_back(entry(at, one));
  }
  return next;
}

// A name, its value where that decides nothing, and what is worked out behind it.
Expression NextMembers::entry(const Container& at, const Entry& entry) {
  entries_.push_back(entry);
  const std::uint32_t payload = payload_of(Payload::entry, static_cast<std::uint32_t>(entries_.size() - 1));
  const Expression key = parts_.names.key(parts_.shapes[at.shape].names[entry.place]);
  const Expression read =
      entry.value_read ? parts_.values.text(parts_.shapes[at.shape].values[entry.place]) : ExpressionStore::empty;
  return store_.concat({key, read, store_.later(payload, false, false)});
}

Container NextMembers::behind(std::uint32_t number) const {
  const Entry& entry = entries_[number];
  const Container at = parts_.containers[entry.container];
  return parts_.members.named(at, entry.place, {.value = {}, .rest = entry.rest}).next;
}

NextMembers::Outline NextMembers::outline(Formula formula) {
  Outline of;
  formulas_.each(formula, [&](const Demand& c, bool) {
    switch (c.kind) {
      case Kind::property:
        of.values[c.a].push_back(c.b);
        break;
      case Kind::required:
        of.required.insert(c.a);
        break;
      case Kind::pattern:
      case Kind::additional:
        of.general.push_back(c);
        break;
      case Kind::names:
      case Kind::min_members:
      case Kind::max_members:
        of.counts = true;
        break;
      default:
        break;
    }
  });
  return of;
}

bool NextMembers::can_come(const Container& at, std::uint32_t place, Formula rest, const Outline& outline,
                           const std::optional<Ending>& ending) {
  const Formula wanted = parts_.shapes[at.shape].values[place];
  if (wanted == FormulaStore::never) return false;
  if (ending && comes_before(at, place, outline, *ending)) return true;
  const std::uint32_t name = parts_.shapes[at.shape].names[place];
  return parts_.decisions.each(parts_.steps.at_member(rest, name), wanted, [&](const Choice& choice) {
    return parts_.values.possible(choice.value) &&
           parts_.values.possible(ObjectMembers::in_order(parts_.members.named(at, place, choice).next));
  });
}

// Whether members that complete the object complete it behind this one too. The order in which they are looked at makes
// no difference: behind the others little is left that it could break.
bool NextMembers::comes_before(const Container& at, std::uint32_t place, const Outline& outline, const Ending& ending) {
  const auto stands_before = [&](std::uint32_t member) { return member <= place; };
  if (at.order == NameOrder::all) {
    if (std::ranges::any_of(ending.places, stands_before)) return false;
  } else if (std::ranges::find(ending.places, place) != ending.places.end()) {
    return true;  // it is one of them
  }
  if (ending.places.size() >= at.max_left) return false;
  const std::uint32_t name = parts_.shapes[at.shape].names[place];
  const Formula wanted = parts_.shapes[at.shape].values[place];
  if (passes_unnoticed(name, wanted, outline)) return true;
  return ending.left &&
         parts_.decisions.each(parts_.steps.at_member(*ending.left, name), wanted, [&](const Choice& choice) {
           return parts_.values.possible(choice.value) && parts_.decisions.finished(choice.rest);
         });
}

// Whether its value can be what every schema asks of it, so that it is as good as absent.
bool NextMembers::passes_unnoticed(std::uint32_t name, Formula wanted, const Outline& outline) {
  if (outline.counts || outline.required.contains(name)) return false;
  std::vector<Formula> asked{wanted};
  if (const auto values = outline.values.find(name); values != outline.values.end())
    asked.insert(asked.end(), values->second.begin(), values->second.end());
  for (const Demand& c : outline.general) {
    const bool concerned =
        c.kind == Kind::pattern ? parts_.names.matches(name, c.a) : !parts_.names.in_set(name, tables_.name_sets[c.a]);
    if (concerned) asked.push_back(c.b);
  }
  return parts_.values.possible(formulas_.all(asked));
}

Expression NextMembers::after_name(std::uint32_t number) {
  const Entry entry = entries_[number];  // a copy: they move when more come
  if (entry.value_read) return parts_.containers.later(behind(number));
  const Container at = parts_.containers[entry.container];
  std::vector<Member> ways;
  parts_.members.add_named(at, entry.place, entry.rest, ways);
  std::vector<Expression> bodies;
  for (const Member& way : ways) {
    if (!tables_.goes_on()) return ExpressionStore::nothing;
    if (!parts_.values.possible(way.value) || !parts_.values.possible(ObjectMembers::in_order(way.next))) continue;
    bodies.push_back(store_.concat(parts_.values.text(way.value), parts_.containers.later(way.next)));
  }
  return store_.either(std::move(bodies));
}

}  // namespace espalier::grammar
