#include "grammar/json_schema/values/container_texts.h"

#include <algorithm>

#include "grammar/json_schema/formulas/formula_steps.h"
#include "grammar/json_schema/values/written_value.h"

namespace espalier::grammar {
namespace {

constexpr std::uint64_t kMostRestBytes = 1u << 30;

}  // namespace

Expression ContainerTexts::expand(std::uint32_t payload) {
  const std::uint32_t number = payload / kPayloads;
  switch (kind_of_payload(payload)) {
    case Payload::multiple:
      return values_.multiples().expand(number);
    case Payload::entry:
      return values_.next_members().after_name(number);
    case Payload::open_name:
      return values_.open_names().after_name(number, std::nullopt);
    case Payload::container:
      break;
  }
  return expand(values_.containers()[number]);
}

Expression ContainerTexts::recall(std::uint32_t payload, std::string_view text) {
  const std::uint32_t number = payload / kPayloads;
  if (kind_of_payload(payload) == Payload::open_name) return values_.open_names().after_name(number, text);
  Container next = values_.containers()[number];
  next.written = values_.written().with(next.written, EqualValues(tables_).of_text(last_value(text)));
  return values_.possible(next) ? values_.containers().later(next) : ExpressionStore::nothing;
}

Expression ContainerTexts::expand(const Container& at) {
  NextOfObject next;
  if (at.object) {
    next = values_.next_members().of(at);
  } else {
    next.may_close = at.min_left == 0 && values_.decisions().finished(at.rest);
    if (at.max_left > 0) next.ways = values_.items().next(at);
  }
  for (const Member& way : next.ways) {
    if (!tables_.goes_on()) return ExpressionStore::nothing;
    next.bodies.push_back(read(at, way));
  }
  const Expression separator = at.first ? ExpressionStore::empty : store_.concat(store_.text(","), form_.space);
  const Expression open_name = at.object ? form_.quote : ExpressionStore::empty;  // all names have it
  const Expression more = store_.concat({separator, open_name, store_.either(std::move(next.bodies))});
  const Expression close = next.may_close ? store_.text(at.object ? "}" : "]") : ExpressionStore::nothing;
  return store_.concat(form_.space, store_.either(more, close));
}

// An item or member and what follows it, if it leads to a complete value.
Expression ContainerTexts::read(const Container& at, const Member& way) {
  if (!values_.possible(way.value)) return ExpressionStore::nothing;
  Container next = ObjectMembers::in_order(way.next);
  next.unknown = values_.items().with_unknown(way);
  if (!values_.possible(next)) return ExpressionStore::nothing;
  const Formula wanted = at.object ? way.value : values_.array_completion().leaving_others_theirs(way);
  const Expression behind = way.recorded ? awaiting(at, way) : values_.containers().later(way.next);
  const Expression value = way.recorded ? store_.call(wanted) : values_.text(wanted);
  return store_.concat(way.key, store_.concat(value, behind));
}

// What follows an item whose value counts. Of more values than a token can hold items one more is nothing.
Expression ContainerTexts::awaiting(const Container& at, const Member& item) {
  constexpr std::uint64_t kMany = 64;
  const bool alike = item.next.rest == at.rest && item.next.place == at.place;
  return store_.awaiting(values_.containers().payload(item.next),
                         !alike || values_.counts().of(item.value, kMany) < kMany);
}

// The members that must still come, each of them as short as one can be, and the closing bracket.
std::uint32_t ContainerTexts::least(const Container& at) const {
  std::uint64_t members = at.min_left, bytes = 0;
  if (at.object) {
    constexpr std::uint64_t kBeside = 4;  // "":0
    const auto required = values_.members().left_required(at);
    members = std::max<std::uint64_t>(members, required.size());
    bytes = members * kBeside;
    for (const std::uint32_t place : required) bytes += tables_.texts[values_.shapes()[at.shape].names[place]].size();
  } else {
    bytes = members;
  }
  const std::uint64_t commas = members - (members > 0 && at.first ? 1 : 0);
  return static_cast<std::uint32_t>(std::min(kMostRestBytes, bytes + commas + 1));
}

std::uint32_t ContainerTexts::least(std::uint32_t payload) const {
  const std::uint32_t number = payload / kPayloads;
  switch (kind_of_payload(payload)) {
    case Payload::container:
      return least(values_.containers()[number]);
    case Payload::entry:
      return least(values_.next_members().behind(number)) + (values_.next_members().value_read(number) ? 0 : 1);
    case Payload::open_name: {
      constexpr std::uint32_t kColonAndValue = 2;
      Container next = values_.open_names().container_of(number);
      next.first = false;
      next.min_left = less_one(next.min_left);
      return least(next) + kColonAndValue;
    }
    case Payload::multiple:
      break;
  }
  return values_.multiples().least(number);
}

std::uint32_t ContainerTexts::as_short(std::uint32_t payload) {
  if (kind_of_payload(payload) != Payload::container) return payload;
  const Container at = values_.containers()[payload / kPayloads];
  if (!at.object || (at.order == NameOrder::all && at.seen == 0)) return payload;
  return values_.containers().payload(values_.members().in_order_of_places(at));
}

}  // namespace espalier::grammar
