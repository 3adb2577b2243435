// Objects, member by member: names in order, what a member must satisfy, and what is then left of the formula.
//
// The order that a schema declares is kept where it forces text: up to the last name that must come, and up to the last
// one where no others may come. Elsewhere the text may go on with any of the names that are left, or end; they come in
// any order, as documents have them.
#include <algorithm>
#include <numeric>

#include "grammar/automaton/hashing.h"
#include "grammar/json_schema/schema_grammar.h"
#include "grammar/json_schema/schema_steps.h"

namespace espalier::grammar {
namespace {

constexpr std::size_t kMostPatterns = 64;      // that tell the names of one object apart
constexpr std::size_t kMostRegions = 4096;     // of names that they tell apart
constexpr std::size_t kMostAlternatives = 64;  // alternatives of which each is compared with each
constexpr std::size_t kMostSplit = 8;          // alternatives of an object of a document that are told apart

}  // namespace

std::vector<SchemaGrammar::Container> SchemaGrammar::open_objects(Formula formula) {
  std::vector<Container> ways = ways_in_order(formula);
  for (std::size_t i = 0, count = ways.size(); i < count; ++i) {
    if (ways[i].order == Order::required && has_two_orders(shapes_[ways[i].shape])) {
      ways.push_back(ways[i]);
      ways.back().shape = required_first(ways[i].shape);
    }
  }
  return ways;
}

// In documents alternatives stand as one object, whose names are mostly in nobody's order; where each of them has an
// order they are told apart.
std::vector<SchemaGrammar::Container> SchemaGrammar::ways_in_order(Formula formula) {
  std::vector<Container> ways = open_ways(alternatives(formula));
  const auto has_no_order = [](const Container& way) { return way.order == Order::none; };
  std::vector<Formula> choices;
  if (!any_order_ || std::ranges::none_of(ways, has_no_order) || !add_choices(formula, choices)) return ways;
  std::vector<Container> finer = open_ways(choices);
  return std::ranges::none_of(finer, has_no_order) ? finer : ways;
}

std::vector<SchemaGrammar::Container> SchemaGrammar::open_ways(const std::vector<Formula>& formulas) {
  std::vector<Container> ways;
  for (const Formula way : formulas) ways.push_back(open_object(way));
  if (ways.size() > kMostAlternatives) return ways;
  for (Container& a : ways) {
    for (const Container& b : ways) {
      const Shape &one = shapes_[a.shape], &other = shapes_[b.shape];
      if (!(one.written_twice() && other.written_twice()) && contradict(one, other)) a.order = Order::none;
    }
  }
  return ways;
}

// All alternatives, those within alternatives too. False when they are too many.
bool SchemaGrammar::add_choices(Formula formula, std::vector<Formula>& choices) {
  const auto ways = choices_of(formula);
  if (ways.size() == 1 && ways[0] == formula) {
    choices.push_back(formula);
    return choices.size() <= kMostSplit;
  }
  return std::ranges::all_of(ways, [&](Formula way) { return add_choices(way, choices); });
}

// The shape with the names that must come in the order of `required`, and the others behind them.
std::uint32_t SchemaGrammar::required_first(std::uint32_t number) {
  const auto [known, fresh] = required_first_.try_emplace(number, static_cast<std::uint32_t>(shapes_.size()));
  if (!fresh) return known->second;
  const Shape& declared = shapes_[number];
  std::vector<std::uint32_t> places = declared.required_order;
  for (std::uint32_t place = 0; place < declared.names.size(); ++place)
    if (!declared.required[place]) places.push_back(place);
  Shape shape = declared;
  shape.endings.clear();
  std::iota(shape.required_places.begin(), shape.required_places.end(), std::uint32_t{0});
  for (std::size_t i = 0; i < places.size(); ++i) {
    shape.names[i] = declared.names[places[i]];
    shape.places[shape.names[i]] = i;
    shape.values[i] = declared.values[places[i]];
    shape.required[i] = declared.required[places[i]];
    shape.asked[i] = declared.asked[places[i]];
  }
  shapes_.push_back(std::move(shape));
  return known->second;
}

// Whether they have names in different orders (of those that they do not merely exclude), so that an object which may
// be either has none.
bool SchemaGrammar::contradict(const Shape& a, const Shape& b) {
  std::size_t last = 0;
  for (const std::uint32_t name : a.names) {
    const auto in_b = b.places.find(name);
    if (in_b == b.places.end() || !a.asked[a.places.at(name)] || !b.asked[in_b->second]) continue;
    if (in_b->second < last) return true;
    last = in_b->second;
  }
  return false;
}

// The formula as alternatives of their own. Where members come in declared order, that of an anyOf beside other
// keywords is the order of each of its schemas.
std::vector<Formula> SchemaGrammar::alternatives(Formula formula) {
  if (formulas_.op(formula) == FormulaStore::Op::all && any_order_) return {formula};
  return choices_of(formula);
}

std::vector<Formula> SchemaGrammar::choices_of(Formula formula) {
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
  const std::vector<Formula> conjuncts(parts.begin(), parts.end());
  const auto choice = std::ranges::find_if(conjuncts, is_choice) - conjuncts.begin();
  std::vector<Formula> ways;
  for (const Formula way : formulas_.parts(conjuncts[static_cast<std::size_t>(choice)])) {
    std::vector<Formula> with = conjuncts;
    with[static_cast<std::size_t>(choice)] = way;
    ways.push_back(formulas_.all(with));
  }
  std::erase(ways, FormulaStore::never);
  return ways;
}

void SchemaGrammar::collect_names(Formula formula, Shape& shape) {
  const auto add = [&](std::uint32_t name) {
    if (shape.places.try_emplace(name, shape.names.size()).second) shape.names.push_back(name);
  };
  formulas_.each(formula, [&](const Demand& c, bool negated) {  // what is only excluded gives no order
    if (!negated && (c.kind == Kind::property || c.kind == Kind::required)) add(c.a);
  });
  std::vector<std::uint32_t> left_out;
  formulas_.each(formula, [&](const Demand& c, bool negated) {
    if (c.kind == Kind::property || c.kind == Kind::required) {
      add(c.a);
      shape.asked.resize(shape.names.size());
      shape.asked[shape.places.at(c.a)] = shape.asked[shape.places.at(c.a)] || !negated;
    }
    if (c.kind != Kind::additional) return;
    const NameSet& set = tables_.name_sets[c.a];
    left_out.insert(left_out.end(), set.names.begin(), set.names.end());
  });
  for (const std::uint32_t name : left_out) add(name);
  shape.asked.resize(shape.names.size());
}

void SchemaGrammar::require(Shape& shape, std::uint32_t name) {
  const auto place = static_cast<std::uint32_t>(shape.places.at(name));
  if (shape.required[place]) return;
  shape.contradicted |= !shape.required_order.empty() && place < shape.required_order.back();
  shape.required_order.push_back(place);
  shape.required[place] = true;
}

std::span<const Formula> SchemaGrammar::conjuncts(const Formula& formula) const {
  return formulas_.op(formula) == FormulaStore::Op::all ? formulas_.parts(formula) : std::span(&formula, 1);
}

SchemaGrammar::Container SchemaGrammar::open_object(Formula formula) {
  Container object;
  object.object = true;
  std::vector<Formula> rest;
  for (const Formula part : conjuncts(formula)) {
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
  object.shape = shape_of(formula);
  object.order = order_of(shapes_[object.shape]);
  return object;
}

std::uint32_t SchemaGrammar::shape_of(Formula formula) {
  if (const auto known = shapes_of_.find(formula); known != shapes_of_.end()) return known->second;
  Shape shape;
  collect_names(formula, shape);
  collect_values(formula, shape);
  tell_other_names_apart(formula, shape);
  const auto number = static_cast<std::uint32_t>(shapes_.size());
  constexpr std::size_t kPerName = 80;  // in lists and in the table of places
  shape_bytes_ += sizeof(Shape) + shape.names.size() * kPerName;
  shapes_.push_back(std::move(shape));
  shapes_of_.emplace(formula, number);
  return number;
}

// What single constraints ask of the values under its names, and which of these must come.
void SchemaGrammar::collect_values(Formula formula, Shape& shape) {
  const std::size_t names = shape.names.size();
  shape.required.resize(names);
  std::vector<std::vector<Formula>> values(names);
  std::vector<bool> twice(names);  // written: one schema lists and requires the name
  for (const Formula part : conjuncts(formula)) {
    if (formulas_.op(part) != FormulaStore::Op::one) continue;
    const Demand c = formulas_.demand(part);
    if (c.kind == Kind::property) {
      values[shape.places.at(c.a)].push_back(c.b);
      if (c.c != 0) twice[shape.places.at(c.a)] = true;
    } else if (c.kind == Kind::required) {
      require(shape, c.a);
    } else if (c.kind != Kind::min_members && c.kind != Kind::max_members) {
      shape.rest.push_back(part);
    }
  }
  for (std::size_t i = 0; i < names; ++i) {
    shape.optional |= shape.asked[i] && !(shape.required[i] && twice[i]);
    shape.apart |= shape.required[i] && !twice[i];
    for (const Formula part : shape.rest) {
      // Of a constraint on names in general, what it asks of this one.
      const Formula asked = at_member(part, shape.names[i]);
      for (const Choice& choice : decide(asked, FormulaStore::always)) values[i].push_back(choice.value);
      if (asked == FormulaStore::never) values[i].push_back(FormulaStore::never);
    }
    shape.values.push_back(formulas_.all(values[i]));
    if (shape.required[i]) shape.required_places.push_back(static_cast<std::uint32_t>(i));
  }
}

// Names that the shape does not list, and by which patterns their values differ.
void SchemaGrammar::tell_other_names_apart(Formula formula, Shape& shape) {
  std::vector<Expression> texts;
  for (const std::uint32_t name : shape.names) texts.push_back(tables_.spelling.text(tables_.texts[name]));
  shape.other_names =
      texts.empty() ? any_text_ : store_.both(any_text_, store_.negation(store_.either(std::move(texts))));
  const auto add_pattern = [&](Expression e) {
    if (std::ranges::find(shape.patterns, e) == shape.patterns.end()) shape.patterns.push_back(e);
  };
  formulas_.each(formula, [&](const Demand& c, bool) {
    if (c.kind == Kind::pattern) add_pattern(c.a);
    if (c.kind == Kind::names) add_pattern(name_pattern(c.b));
    if (c.kind != Kind::additional) return;
    for (const Expression e : tables_.name_sets[c.a].patterns) add_pattern(e);
  });
  if (shape.patterns.size() > kMostPatterns) store_.exhaust();
  shape.closed = shape.patterns.empty() && at_other_member(formula, {}, 0) == FormulaStore::never;
}

// How far the order of an object's names is its author's. Where nothing else may come the last names that are left can
// be forced, so there all names keep it, but where a oneOf makes it likely that the schema was not made for generation.
// Schemas that describe documents (reader_) list names in any order, but where it is written twice, in the properties
// and in `required`: in objects whose names all must come, and in those of several such names whose schema says that
// there are no others. (Not where only a condition requires a name, or a listed value has it.)
SchemaGrammar::Order SchemaGrammar::order_of(const Shape& shape) const {
  if (options_.order == MemberOrder::declared) return Order::all;
  if (options_.order == MemberOrder::any) return Order::none;
  if (!any_order_) return shape.closed && !reader_.chooses() ? Order::all : Order::required;
  const std::size_t required = shape.required_places.size();
  const bool all_must_come = !shape.optional && required > 0;
  const bool all_are_listed = shape.closed && !shape.apart && required > 1;
  return all_must_come || all_are_listed ? Order::required : Order::none;
}

// A `required` in another order than the properties, in a schema that may not have been made for generation: documents
// follow one or the other.
bool SchemaGrammar::has_two_orders(const Shape& shape) const {
  return shape.contradicted && (any_order_ || reader_.chooses());
}

// `entries`: of names whose values decide what is left, and of names in any order, behind each of which the object is
// another one. Most of them are never read, so what follows is worked out when they are.
// `bodies`: of those whose names must be remembered.
std::vector<SchemaGrammar::Member> SchemaGrammar::members(const Container& at, std::vector<Entry>& entries,
                                                          std::vector<Expression>& bodies, bool& may_close) {
  std::vector<Member> ways;
  Formula rest = at.rest;
  const std::size_t names = shapes_[at.shape].names.size();
  const Outline of_rest = outline(at.rest);
  const std::uint32_t number = payload_of(at) / kPayloads;
  const auto ending = ending_with_rest(in_order(at));
  const bool in_turn = at.order == Order::all || (at.order == Order::required && waits(at));
  const auto offer = [&](std::uint32_t place) {
    const std::uint32_t name = shapes_[at.shape].names[place];
    const bool decides = of_rest.values.contains(name) || of_rest.required.contains(name) || !of_rest.general.empty();
    if (!decides && in_turn)
      named_members(at, place, rest, ways);
    else if (can_come(at, place, rest, of_rest, ending))
      entries.push_back({number, place, rest, !decides && !of_rest.counts});
  };
  bool waiting = false;  // for a name that must come
  for (std::uint32_t place = at.place; place < names && tables_.goes_on(); ++place) {
    if (seen(at, place)) continue;
    if (at.max_left > 0) offer(place);
    waiting |= shapes_[at.shape].required[place];
    if (at.order == Order::none) continue;
    if (waiting) return ways;
    if (at.order == Order::required) continue;
    rest = pass_name(rest, shapes_[at.shape].names[place]);
    if (rest == FormulaStore::never) return ways;
  }
  may_close = !waiting && at.min_left == 0 && finished(rest);
  if (at.max_left > 0 && remembers_names(at, rest))
    open_members(at, rest, bodies);
  else if (at.max_left > 0)
    other_members(at, rest, ways);
  return ways;
}

void SchemaGrammar::named_members(const Container& at, std::uint32_t place, Formula rest, std::vector<Member>& out) {
  const Formula wanted = shapes_[at.shape].values[place];
  if (wanted == FormulaStore::never) return;
  const std::uint32_t name = shapes_[at.shape].names[place];
  for (const Choice& choice : decide(at_member(rest, name), wanted)) out.push_back(named_member(at, place, choice));
}

SchemaGrammar::Member SchemaGrammar::named_member(const Container& at, std::uint32_t place, const Choice& choice) {
  Member way{key_text(shapes_[at.shape].names[place]), choice.value, at};
  way.next.first = false;
  if (at.order != Order::none) way.next.place = place + 1;
  if (at.order != Order::all) way.next.seen = with_seen(at.seen, place);
  if (at.order == Order::required && !waits(way.next)) way.next.place = 0;
  way.next.min_left = less_one(at.min_left);
  way.next.max_left = less_one(at.max_left);
  way.next.rest = choice.rest;
  way.next = without_needless_names(way.next);
  return way;
}

// Names that the schema does not mention, told apart by which of its patterns they match.
void SchemaGrammar::other_members(const Container& at, Formula rest, std::vector<Member>& out) {
  const std::vector<Expression> patterns = shapes_[at.shape].patterns;
  const std::vector<Formula> outright = shapes_[at.shape].rest;
  struct Region {
    Expression names;
    std::uint64_t matched;
  };
  std::vector<Region> regions{{unwritten(shapes_[at.shape].other_names, at), 0}};
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
    if (store_.exhausted()) return;
  }
  const Expression like = store_.concat(any_text_, quote_);
  for (const Region& region : regions) {
    std::vector<Formula> asked{at_other_member(rest, patterns, region.matched)};
    Formula wanted = FormulaStore::always;
    for (const Formula part : outright) {
      const Formula of_part = at_other_member(part, patterns, region.matched);
      if (of_part == FormulaStore::never) wanted = FormulaStore::never;
      for (const Choice& choice : decide(of_part, FormulaStore::always)) wanted = formulas_.all(wanted, choice.value);
    }
    if (wanted == FormulaStore::never) continue;
    const Expression word = store_.lexeme(store_.concat(region.names, quote_), like);
    for (const Choice& choice : decide(asked[0], wanted)) {
      Member way{store_.concat(word, colon_), choice.value, at};
      way.names = region.names;
      way.word = word;
      way.next.first = false;
      if (at.order == Order::all) way.next.place = static_cast<std::uint32_t>(shapes_[at.shape].names.size());
      way.next.min_left = less_one(at.min_left);
      way.next.max_left = less_one(at.max_left);
      way.next.rest = choice.rest;
      way.next = without_needless_names(way.next);
      out.push_back(way);
    }
  }
}

// What is left of constraints on objects once a member of this name is read; what they ask of it becomes `value`.
Formula SchemaGrammar::at_member(Formula formula, std::uint32_t name) {
  const auto concerned = FormulaStore::mentions_name(name) | FormulaStore::mentions_members;
  return formulas_.map_mentioned(formula, concerned, [&](const Demand& c, bool negated) {
    const auto answer = [&](Formula f) { return negated ? formulas_.no(f) : f; };
    const auto asked = [&] { return formulas_.one({Kind::value, c.b, 0, 0}); };
    const Formula self = c.kind == Kind::property ? formulas_.named(c) : formulas_.one(c);
    switch (c.kind) {
      case Kind::property:
        return answer(c.a == name ? asked() : self);
      case Kind::required:
        return answer(c.a == name ? FormulaStore::always : self);
      case Kind::pattern:
        return answer(name_matches(name, c.a) ? formulas_.all(asked(), self) : self);
      case Kind::additional:
        return answer(in_name_set(name, tables_.name_sets[c.a]) ? self : formulas_.all(asked(), self));
      case Kind::names:
        return answer(name_matches(name, name_pattern(c.b)) ? self : FormulaStore::never);
      case Kind::min_members:
        return answer(formulas_.one({Kind::min_members, less_one(c.a), 0, 0}));
      case Kind::max_members:
        return answer(c.a == 0 ? FormulaStore::never : formulas_.one({Kind::max_members, less_one(c.a), 0, 0}));
      default:
        return answer(self);
    }
  });
}

Formula SchemaGrammar::at_other_member(Formula formula, const std::vector<Expression>& patterns,
                                       std::uint64_t matched) {
  const auto matches = [&](Expression pattern) {
    const auto place = std::ranges::find(patterns, pattern) - patterns.begin();
    return ((matched >> place) & 1) != 0;
  };
  return formulas_.map_mentioned(formula, FormulaStore::mentions_members, [&](const Demand& c, bool negated) {
    const auto answer = [&](Formula f) { return negated ? formulas_.no(f) : f; };
    const auto asked = [&] { return formulas_.one({Kind::value, c.b, 0, 0}); };
    const Formula self = c.kind == Kind::property ? formulas_.named(c) : formulas_.one(c);
    switch (c.kind) {
      case Kind::pattern:
        return answer(matches(c.a) ? formulas_.all(asked(), self) : self);
      case Kind::additional: {
        const auto& others = tables_.name_sets[c.a].patterns;
        return answer(std::ranges::any_of(others, matches) ? self : formulas_.all(asked(), self));
      }
      case Kind::names:
        return answer(matches(name_pattern(c.b)) ? self : FormulaStore::never);
      case Kind::min_members:
        return answer(formulas_.one({Kind::min_members, less_one(c.a), 0, 0}));
      case Kind::max_members:
        return answer(c.a == 0 ? FormulaStore::never : formulas_.one({Kind::max_members, less_one(c.a), 0, 0}));
      default:
        return answer(self);
    }
  });
}

// The name will not come any more.
Formula SchemaGrammar::pass_name(Formula formula, std::uint32_t name) {
  return formulas_.map_mentioned(formula, FormulaStore::mentions_name(name), [&](const Demand& c, bool negated) {
    const Formula self = c.kind == Kind::property ? formulas_.named(c) : formulas_.one(c);
    const bool passed = (c.kind == Kind::property || c.kind == Kind::required) && c.a == name;
    const Formula left = passed ? constant(c.kind == Kind::property) : self;
    return negated ? formulas_.no(left) : left;
  });
}

bool SchemaGrammar::name_matches(std::uint32_t name, Expression pattern) {
  const std::uint64_t key = (std::uint64_t{name} << 32) | pattern;
  if (const auto known = name_matches_.find(key); known != name_matches_.end()) return known->second;
  return name_matches_[key] = store_.accepts(pattern, spelled(tables_.texts[name]));
}

bool SchemaGrammar::in_name_set(std::uint32_t name, const NameSet& set) {
  return std::ranges::binary_search(set.sorted, name) ||
         std::ranges::any_of(set.patterns, [&](Expression e) { return name_matches(name, e); });
}

bool SchemaGrammar::seen(const Container& object, std::uint32_t place) const {
  const std::vector<std::uint64_t>& set = seen_sets_[object.seen];
  return place / 64 < set.size() && ((set[place / 64] >> (place % 64)) & 1) != 0;
}

// Asked for every name that may come next, wherever names may come in any order.
std::uint32_t SchemaGrammar::with_seen(std::uint32_t set, std::uint32_t place) {
  std::vector<std::uint64_t> more = seen_sets_[set];
  if (more.size() <= place / 64) more.resize(place / 64 + 1);
  more[place / 64] |= std::uint64_t{1} << (place % 64);
  std::uint64_t hash = 0;
  for (const std::uint64_t word : more) hash = mix(hash, word);
  for (auto [known, end] = seen_numbers_.equal_range(hash); known != end; ++known) {
    if (seen_sets_[known->second] == more) return known->second;
  }
  const auto number = static_cast<std::uint32_t>(seen_sets_.size());
  seen_numbers_.emplace(hash, number);
  seen_sets_.push_back(std::move(more));
  return number;
}

// Whether an object can be completed does not depend on the order; looking for a way in one order is quick.
SchemaGrammar::Container SchemaGrammar::in_order(Container object) const {
  if (std::exchange(object.order, Order::all) != Order::all) object.place = 0;
  return object;
}

// Whether a name that must come has not.
bool SchemaGrammar::waits(const Container& at) const {
  const std::vector<std::uint32_t>& required = shapes_[at.shape].required_places;
  return std::ranges::any_of(required, [&](std::uint32_t place) { return place >= at.place && !seen(at, place); });
}

Expression SchemaGrammar::name_pattern(Formula formula) {
  return string_part(restrict(formula, Type::string));
}

Expression SchemaGrammar::key_text(std::uint32_t name) {
  const auto [known, fresh] = key_texts_.try_emplace(name, ExpressionStore::nothing);
  if (fresh) {
    known->second = store_.concat(tables_.spelling.text(tables_.texts[name]), quote_and_colon_);
  }
  return known->second;
}

}  // namespace espalier::grammar
