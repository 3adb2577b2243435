#include "grammar/json_schema/objects/object_completion.h"

#include <algorithm>

namespace espalier::grammar {

namespace {

constexpr std::size_t kMostEndings = 4;  // that are tried
constexpr int kMostTries = 64;           // values of members in one ending

}  // namespace

bool ObjectCompletion::search(const Container& at) {
  const std::vector<std::uint32_t> required = members_.left_required(at);
  for (const std::uint32_t place : required)
    if (!values_.possible(shapes_[at.shape].values[place])) return false;
  if (required.size() > at.max_left) return false;
  if (at.rest == FormulaStore::always && at.min_left <= required.size()) {
    keep_ending(at, {required, at.rest});
    return true;
  }
  return search_endings(at, required) || search_members(at);
}

void ObjectCompletion::keep_ending(const Container& at, Ending ending) {
  if (at.rest == FormulaStore::always) return;  // nobody needs it
  auto& known = completed_[at.shape];
  if (const auto same = std::ranges::find(known, ending.places); same != known.end()) known.erase(same);
  known.insert(known.begin(), ending.places);
  if (known.size() > kMostEndings) known.pop_back();
  endings_[containers_.number(at)] = std::move(ending);
}

std::optional<ObjectCompletion::Ending> ObjectCompletion::ending_of(const Container& at) {
  if (const auto known = endings_.find(containers_.number(at)); known != endings_.end()) return known->second;
  auto required = members_.left_required(at);
  if (at.rest != FormulaStore::always || at.min_left > required.size()) return std::nullopt;
  return Ending{std::move(required), FormulaStore::always};
}

std::optional<ObjectCompletion::Ending> ObjectCompletion::ending_with_rest(const Container& at) {
  auto ending = ending_of(at);
  int tries = kMostTries;
  if (ending && !ending->left) ending->left = completes(at, ending->places, tries);
  return ending;
}

// Tries what is required, and what has completed other objects like this one.
bool ObjectCompletion::search_endings(const Container& at, std::span<const std::uint32_t> required) {
  std::vector<std::vector<std::uint32_t>> endings = completed_[at.shape];
  endings.emplace_back();
  std::vector<std::vector<std::uint32_t>> tried;
  for (std::vector<std::uint32_t>& places : endings) {
    places.insert(places.end(), required.begin(), required.end());
    std::erase_if(places, [&](std::uint32_t place) { return place < at.place || members_.seen(at, place); });
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
std::optional<Formula> ObjectCompletion::completes(const Container& at, std::span<const std::uint32_t> places,
                                                   int& tries) {
  if (places.empty()) return at.min_left == 0 && decisions_.finished(at.rest) ? std::optional(at.rest) : std::nullopt;
  const Formula wanted = shapes_[at.shape].values[places[0]];
  if (at.max_left == 0 || wanted == FormulaStore::never) return std::nullopt;
  const std::uint32_t name = shapes_[at.shape].names[places[0]];
  std::optional<Formula> left;
  decisions_.each(steps_.at_member(at.rest, name), wanted, [&](const Choice& choice) {
    if (values_.possible(choice.value))
      left = completes(members_.named(at, places[0], choice).next, places.subspan(1), tries);
    return left || --tries <= 0;
  });
  return left;
}

// Whether a member that the schema does not list leads to a complete object.
bool ObjectCompletion::leads_on(const Container& at, Formula rest, const Member& way) {
  if (!values_.possible(way.value)) return false;
  if (!open_names_.matter(at, rest)) return values_.possible(way.next);
  if (way.next.rest == rest && at.min_left == 0) return false;  // it can stay away
  return open_names_.left(at, way.names, 1) > 0 && values_.possible(open_names_.with_unknown(at, rest, way));
}

// Looks at every member that may come next. The last ones first: they pass over what is not required.
bool ObjectCompletion::search_members(const Container& at) {
  const std::size_t names = shapes_[at.shape].names.size();
  // What is left to satisfy after passing over the names up to each place.
  std::vector<std::pair<std::uint32_t, Formula>> places;
  Formula rest = at.rest;
  bool waits = false;
  for (std::uint32_t place = at.place; place < names && !waits && rest != FormulaStore::never; ++place) {
    if (members_.seen(at, place)) continue;
    places.emplace_back(place, rest);
    waits = shapes_[at.shape].required[place];
    rest = steps_.pass_name(rest, shapes_[at.shape].names[place]);
  }
  if (!waits && rest != FormulaStore::never && search_others(at, rest)) return true;
  for (std::size_t i = places.size(); i-- > 0 && at.max_left > 0;) {
    const auto [place, left] = places[i];
    if (search_named(at, place, left)) return true;
  }
  return false;
}

// The end, or members that the schema does not list.
bool ObjectCompletion::search_others(const Container& at, Formula rest) {
  if (at.min_left == 0 && decisions_.finished(rest)) {
    keep_ending(at, {{}, at.rest});
    return true;
  }
  std::vector<Member> others;
  if (at.max_left > 0) members_.add_others(at, rest, others);
  // Members of no name in particular may repeat for ever: those that change nothing but counts say nothing new.
  const bool steady = std::ranges::all_of(others, [&](const Member& way) { return way.next.rest == rest; });
  if (steady && !others.empty() && decisions_.finished(rest) && at.min_left <= at.max_left)
    return open_names_.enough(at, others);
  std::ranges::stable_partition(others, [&](const Member& way) { return way.next.rest != rest; });
  return std::ranges::any_of(others, [&](const Member& way) { return leads_on(at, rest, way); });
}

bool ObjectCompletion::search_named(const Container& at, std::uint32_t place, Formula left) {
  std::vector<Member> ways;
  members_.add_named(at, place, left, ways);
  // A member that satisfies nothing more than its absence does can stay away.
  const Formula without = steps_.pass_name(left, shapes_[at.shape].names[place]);
  if (!shapes_[at.shape].required[place] && at.min_left == 0) {
    std::erase_if(ways, [&](const Member& way) { return way.next.rest == without; });
  }
  for (const Member& way : ways) {
    if (!values_.possible(way.value) || !values_.possible(way.next)) continue;
    if (auto ending = ending_of(way.next)) {
      ending->places.insert(ending->places.begin(), place);
      ending->left.reset();  // names have been passed over
      keep_ending(at, std::move(*ending));
    }
    return true;
  }
  return false;
}

}  // namespace espalier::grammar
