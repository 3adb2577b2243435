// Names that may come in an object, and whether it can be completed.
//
// Of an object that many schemas describe each name asks for a search: is there a document with it? Mostly one that
// completes the object without the name completes it with the name as well, or one that completed another like it.
#include <algorithm>

#include "grammar/json_schema/schema_grammar.h"
#include "grammar/json_schema/schema_steps.h"

namespace espalier::grammar {
namespace {

constexpr std::size_t kMostEndings = 4;  // that are tried
constexpr int kMostTries = 64;           // values of members in one ending

}  // namespace

SchemaGrammar::Outline SchemaGrammar::outline(Formula formula) {
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

bool SchemaGrammar::can_come(const Container& at, std::uint32_t place, Formula rest, const Outline& outline,
                             const std::optional<Ending>& ending) {
  const Formula wanted = shapes_[at.shape].values[place];
  if (wanted == FormulaStore::never) return false;
  if (ending && comes_before(at, place, outline, *ending)) return true;
  const std::uint32_t name = shapes_[at.shape].names[place];
  return decide_each(at_member(rest, name), wanted, [&](const Choice& choice) {
    return possible(choice.value) && possible(in_order(named_member(at, place, choice).next));
  });
}

// Whether members that complete the object complete it behind this one too. The order in which they are looked at makes
// no difference: behind the others little is left that it could break.
bool SchemaGrammar::comes_before(const Container& at, std::uint32_t place, const Outline& outline,
                                 const Ending& ending) {
  const auto stands_before = [&](std::uint32_t member) { return member <= place; };
  if (at.order == Order::all) {
    if (std::ranges::any_of(ending.places, stands_before)) return false;
  } else if (std::ranges::find(ending.places, place) != ending.places.end()) {
    return true;  // it is one of them
  }
  if (ending.places.size() >= at.max_left) return false;
  const std::uint32_t name = shapes_[at.shape].names[place];
  const Formula wanted = shapes_[at.shape].values[place];
  if (passes_unnoticed(name, wanted, outline)) return true;
  return ending.left && decide_each(at_member(*ending.left, name), wanted, [&](const Choice& choice) {
           return possible(choice.value) && finished(choice.rest);
         });
}

// Whether its value can be what every schema asks of it, so that it is as good as absent.
bool SchemaGrammar::passes_unnoticed(std::uint32_t name, Formula wanted, const Outline& outline) {
  if (outline.counts || outline.required.contains(name)) return false;
  std::vector<Formula> asked{wanted};
  if (const auto values = outline.values.find(name); values != outline.values.end())
    asked.insert(asked.end(), values->second.begin(), values->second.end());
  for (const Demand& c : outline.general) {
    const bool concerned =
        c.kind == Kind::pattern ? name_matches(name, c.a) : !in_name_set(name, tables_.name_sets[c.a]);
    if (concerned) asked.push_back(c.b);
  }
  return possible(formulas_.all(asked));
}

// What may follow a name: its value, and the rest of the object.
Expression SchemaGrammar::expand(const Entry& entry) {
  const Container at = containers_[entry.container];
  if (entry.value_read) return later(named_member(at, entry.place, {.value = {}, .rest = entry.rest}).next);
  std::vector<Member> ways;
  named_members(at, entry.place, entry.rest, ways);
  std::vector<Expression> bodies;
  for (const Member& way : ways) {
    if (!tables_.goes_on()) return ExpressionStore::nothing;
    if (!possible(way.value) || !possible(in_order(way.next))) continue;
    bodies.push_back(store_.concat(value(way.value), later(way.next)));
  }
  return store_.either(std::move(bodies));
}

std::vector<std::uint32_t> SchemaGrammar::left_required(const Container& at) const {
  std::vector<std::uint32_t> places;
  for (const std::uint32_t place : shapes_[at.shape].required_places)
    if (place >= at.place && !seen(at, place)) places.push_back(place);
  return places;
}

bool SchemaGrammar::search_object(const Container& at) {
  const std::vector<std::uint32_t> required = left_required(at);
  for (const std::uint32_t place : required)
    if (!possible(shapes_[at.shape].values[place])) return false;
  if (required.size() > at.max_left) return false;
  if (at.rest == FormulaStore::always && at.min_left <= required.size()) {
    keep_ending(at, {required, at.rest});
    return true;
  }
  return search_endings(at, required) || search_members(at);
}

void SchemaGrammar::keep_ending(const Container& at, Ending ending) {
  if (at.rest == FormulaStore::always) return;  // nobody needs it
  auto& known = shapes_[at.shape].endings;
  if (const auto same = std::ranges::find(known, ending.places); same != known.end()) known.erase(same);
  known.insert(known.begin(), ending.places);
  if (known.size() > kMostEndings) known.pop_back();
  endings_[payload_of(at) / kPayloads] = std::move(ending);
}

std::optional<SchemaGrammar::Ending> SchemaGrammar::ending_of(const Container& at) {
  if (const auto known = endings_.find(payload_of(at) / kPayloads); known != endings_.end()) return known->second;
  auto required = left_required(at);
  if (at.rest != FormulaStore::always || at.min_left > required.size()) return std::nullopt;
  return Ending{std::move(required), FormulaStore::always};
}

// What is left behind members that were found by passing over names tells of every name that may come whether they
// complete the object behind it as well: one search instead of one for each name.
std::optional<SchemaGrammar::Ending> SchemaGrammar::ending_with_rest(const Container& at) {
  auto ending = ending_of(at);
  int tries = kMostTries;
  if (ending && !ending->left) ending->left = completes(at, ending->places, tries);
  return ending;
}

// Tries what is required, and what has completed other objects like this one.
bool SchemaGrammar::search_endings(const Container& at, std::span<const std::uint32_t> required) {
  std::vector<std::vector<std::uint32_t>> endings = shapes_[at.shape].endings;
  endings.emplace_back();
  std::vector<std::vector<std::uint32_t>> tried;
  for (std::vector<std::uint32_t>& places : endings) {
    places.insert(places.end(), required.begin(), required.end());
    std::erase_if(places, [&](std::uint32_t place) { return place < at.place || seen(at, place); });
    std::ranges::sort(places);
    places.erase(std::ranges::unique(places).begin(), places.end());
    if (std::ranges::find(tried, places) != tried.end()) continue;
    tried.push_back(places);
    int tries = kMostTries;
    const auto left = completes(at, places, tries);
    if (!left) continue;
    keep_ending(at, {std::move(places), left});
    return true;
  }
  return false;
}

// Whether an object can consist of these members besides those that it has: what is left to satisfy then.
std::optional<Formula> SchemaGrammar::completes(const Container& at, std::span<const std::uint32_t> places,
                                                int& tries) {
  if (places.empty()) return at.min_left == 0 && finished(at.rest) ? std::optional(at.rest) : std::nullopt;
  const Formula wanted = shapes_[at.shape].values[places[0]];
  if (at.max_left == 0 || wanted == FormulaStore::never) return std::nullopt;
  const std::uint32_t name = shapes_[at.shape].names[places[0]];
  std::optional<Formula> left;
  decide_each(at_member(at.rest, name), wanted, [&](const Choice& choice) {
    if (possible(choice.value)) left = completes(named_member(at, places[0], choice).next, places.subspan(1), tries);
    return left || --tries <= 0;
  });
  return left;
}

// Whether a member that the schema does not list leads to a complete object.
bool SchemaGrammar::leads_on(const Container& at, Formula rest, const Member& way) {
  if (!possible(way.value)) return false;
  if (!remembers_names(at, rest)) return possible(way.next);
  if (way.next.rest == rest && at.min_left == 0) return false;  // it can stay away
  return names_left(at, way.names, 1) > 0 && possible(with_unknown_name(at, rest, way));
}

bool SchemaGrammar::search_members(const Container& at) {
  const std::size_t names = shapes_[at.shape].names.size();
  // What is left to satisfy after passing over the names up to each place.
  std::vector<std::pair<std::uint32_t, Formula>> places;
  Formula rest = at.rest;
  bool waits = false;
  for (std::uint32_t place = at.place; place < names && !waits && rest != FormulaStore::never; ++place) {
    if (seen(at, place)) continue;
    places.emplace_back(place, rest);
    waits = shapes_[at.shape].required[place];
    rest = pass_name(rest, shapes_[at.shape].names[place]);
  }
  if (!waits && rest != FormulaStore::never) {
    if (at.min_left == 0 && finished(rest)) {
      keep_ending(at, {{}, at.rest});
      return true;
    }
    std::vector<Member> others;
    if (at.max_left > 0) other_members(at, rest, others);
    // Members of no name in particular may repeat for ever: those that change nothing but counts say nothing new.
    const bool steady = std::ranges::all_of(others, [&](const Member& way) { return way.next.rest == rest; });
    if (steady && !others.empty() && finished(rest) && at.min_left <= at.max_left) {
      if (enough_names(at, others)) return true;
    } else {
      std::ranges::stable_partition(others, [&](const Member& way) { return way.next.rest != rest; });
      if (std::ranges::any_of(others, [&](const Member& way) { return leads_on(at, rest, way); })) return true;
    }
  }
  // The last ones first: they pass over what is not required.
  for (std::size_t i = places.size(); i-- > 0 && at.max_left > 0;) {
    const auto [place, left] = places[i];
    std::vector<Member> ways;
    named_members(at, place, left, ways);
    // A member that satisfies nothing more than its absence does can stay away.
    const Formula without = pass_name(left, shapes_[at.shape].names[place]);
    if (!shapes_[at.shape].required[place] && at.min_left == 0) {
      std::erase_if(ways, [&](const Member& way) { return way.next.rest == without; });
    }
    for (const Member& way : ways) {
      if (!possible(way.value) || !possible(way.next)) continue;
      if (auto ending = ending_of(way.next)) {
        ending->places.insert(ending->places.begin(), place);
        ending->left.reset();  // names have been passed over
        keep_ending(at, std::move(*ending));
      }
      return true;
    }
  }
  return false;
}

}  // namespace espalier::grammar
