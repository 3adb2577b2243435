#include "grammar/json_schema/objects/object_members.h"

#include <algorithm>

#include "grammar/json_schema/formulas/formula_steps.h"

namespace espalier::grammar {

namespace {

constexpr std::size_t kMostRegions = 4096;  // of names that patterns tell apart

}  // namespace

void ObjectMembers::add_named(const Container& at, std::uint32_t place, Formula rest, std::vector<Member>& out) {
  const Formula wanted = shapes_[at.shape].values[place];
  if (wanted == FormulaStore::never) return;
  const std::uint32_t name = shapes_[at.shape].names[place];
  for (const Choice& choice : decisions_.of(steps_.at_member(rest, name), wanted))
    out.push_back(named(at, place, choice));
}

Member ObjectMembers::named(const Container& at, std::uint32_t place, const Choice& choice) {
  Member way{names_.key(shapes_[at.shape].names[place]), choice.value, at};
  way.next.first = false;
  if (at.order != NameOrder::none) way.next.place = place + 1;
  if (at.order != NameOrder::all) way.next.seen = seen_.with(at.seen, place);
  if (at.order == NameOrder::required && !waits(way.next)) way.next.place = 0;
  way.next.min_left = less_one(at.min_left);
  way.next.max_left = less_one(at.max_left);
  way.next.rest = choice.rest;
  way.next = without_needless_names(way.next);
  return way;
}

void ObjectMembers::add_others(const Container& at, Formula rest, std::vector<Member>& out) {
  const ObjectShape& shape = shapes_[at.shape];
  const Others others{shape.patterns, shape.rest};  // copies: shapes move when more come
  for (const Region& region : regions_of(unwritten(shape.other_names, at), others.patterns))
    add_region(at, rest, others, region, out);
}

// The names, told apart by which of the patterns they match.
std::vector<ObjectMembers::Region> ObjectMembers::regions_of(Expression names,
                                                             const std::vector<Expression>& patterns) {
  std::vector<Region> regions{{names, 0}};
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    std::vector<Region> finer;
    for (const Region& region : regions) {
      const Expression inside = store_.both(region.names, patterns[i]);
      const Expression outside = store_.both(region.names, store_.negation(patterns[i]));
      if (store_.possible(inside)) finer.push_back({inside, region.matched | (std::uint64_t{1} << i)});
      if (store_.possible(outside)) finer.push_back({outside, region.matched});
    }
    regions = std::move(finer);
    if (regions.size() > kMostRegions) store_.exhaust();
    if (store_.exhausted()) return {};
  }
  return regions;
}

void ObjectMembers::add_region(const Container& at, Formula rest, const Others& others, const Region& region,
                               std::vector<Member>& out) {
  const Formula asked = steps_.at_other_member(rest, others.patterns, region.matched);
  Formula wanted = FormulaStore::always;
  for (const Formula part : others.outright) {
    const Formula of_part = steps_.at_other_member(part, others.patterns, region.matched);
    if (of_part == FormulaStore::never) wanted = FormulaStore::never;
    for (const Choice& choice : decisions_.of(of_part, FormulaStore::always))
      wanted = formulas_.all(wanted, choice.value);
  }
  if (wanted == FormulaStore::never) return;
  const Expression like = store_.concat(form_.any_text, form_.quote);
  const Expression word = store_.lexeme(store_.concat(region.names, form_.quote), like);
  for (const Choice& choice : decisions_.of(asked, wanted)) {
    Member way{store_.concat(word, form_.colon), choice.value, at};
    way.names = region.names;
    way.word = word;
    way.next.first = false;
    if (at.order == NameOrder::all) way.next.place = static_cast<std::uint32_t>(shapes_[at.shape].names.size());
    way.next.min_left = less_one(at.min_left);
    way.next.max_left = less_one(at.max_left);
    way.next.rest = choice.rest;
    way.next = without_needless_names(way.next);
    out.push_back(way);
  }
}

bool ObjectMembers::waits(const Container& at) const {
  const std::vector<std::uint32_t>& required = shapes_[at.shape].required_places;
  return std::ranges::any_of(required, [&](std::uint32_t place) { return place >= at.place && !seen(at, place); });
}

std::vector<std::uint32_t> ObjectMembers::left_required(const Container& at) const {
  std::vector<std::uint32_t> places;
  for (const std::uint32_t place : shapes_[at.shape].required_places)
    if (place >= at.place && !seen(at, place)) places.push_back(place);
  return places;
}

Container ObjectMembers::in_order_of_places(Container at) {
  at = in_order(at);
  const auto names = static_cast<std::uint32_t>(shapes_[at.shape].names.size());
  while (at.place < names && seen(at, at.place)) ++at.place;
  std::uint32_t left = 0;
  for (std::uint32_t place = at.place; place < names; ++place)
    if (seen(at, place)) left = seen_.with(left, place);
  at.seen = left;
  return at;
}

Container ObjectMembers::without_needless_names(Container object) {
  if (object.min_left == 0 && !object.lasting) object.written = object.unknown = 0;
  return object;
}

// The names of a kind that may still come.
Expression ObjectMembers::unwritten(Expression names, const Container& at) {
  if (at.written == 0) return names;
  std::vector<Expression> written;
  for (const std::uint32_t name : written_[at.written]) written.push_back(tables_.spelling.text(tables_.texts[name]));
  return store_.both(names, store_.negation(store_.either(std::move(written))));
}

}  // namespace espalier::grammar
