// How short the rest of an array or object can be, for who looks for the shortest text (least_length.h).
#include <algorithm>

#include "grammar/json_schema/schema_grammar.h"
#include "grammar/json_schema/schema_steps.h"

namespace espalier::grammar {
namespace {

constexpr std::uint64_t kMostBytes = 1u << 30;

}  // namespace

// The members that must still come, each of them as short as one can be, and the closing bracket.
std::uint32_t SchemaGrammar::least(const Container& at) const {
  std::uint64_t members = at.min_left, bytes = 0;
  if (at.object) {
    constexpr std::uint64_t kBeside = 4;  // "":0
    const auto required = left_required(at);
    members = std::max<std::uint64_t>(members, required.size());
    bytes = members * kBeside;
    for (const std::uint32_t place : required) bytes += tables_.texts[shapes_[at.shape].names[place]].size();
  } else {
    bytes = members;
  }
  const std::uint64_t commas = members - (members > 0 && at.first ? 1 : 0);
  return static_cast<std::uint32_t>(std::min(kMostBytes, bytes + commas + 1));
}

std::uint32_t SchemaGrammar::least(std::uint32_t payload) {
  const std::uint32_t number = payload / kPayloads;
  switch (payload % kPayloads) {
    case kContainer:
      return least(containers_[number]);
    case kEntry: {
      const Entry entry = entries_[number];
      const Container at = containers_[entry.container];
      const Container next = named_member(at, entry.place, {.value = {}, .rest = entry.rest}).next;
      return least(next) + (entry.value_read ? 0 : 1);
    }
    case kOpenName: {
      constexpr std::uint32_t kColonAndValue = 2;
      Container next = containers_[open_names_[number].container];
      next.first = false;
      next.min_left = less_one(next.min_left);
      return least(next) + kColonAndValue;
    }
    default:
      return least(multiples_[number]);
  }
}

// Whether names have an order changes no length, and there are fewer ways to take them in one. Those that have come
// are passed over, so that it makes no difference which of them came first.
std::uint32_t SchemaGrammar::as_short(std::uint32_t payload) {
  if (payload % kPayloads != kContainer) return payload;
  Container at = containers_[payload / kPayloads];
  if (!at.object || (at.order == Order::all && at.seen == 0)) return payload;
  at = in_order(at);
  const auto names = static_cast<std::uint32_t>(shapes_[at.shape].names.size());
  while (at.place < names && seen(at, at.place)) ++at.place;
  std::uint32_t left = 0;
  for (std::uint32_t place = at.place; place < names; ++place)
    if (seen(at, place)) left = with_seen(left, place);
  at.seen = left;
  return payload_of(at);
}

}  // namespace espalier::grammar
