#include "grammar/automaton/possible_texts.h"

#include <algorithm>
#include <unordered_set>

#include "grammar/automaton/expression.h"

namespace espalier::grammar {
namespace {

constexpr std::size_t kSearchNodes = 300'000;  // that a search for a possible text may visit
constexpr std::size_t kShortSearchNodes = 32;  // and one for a short text

}  // namespace

bool PossibleTexts::possible(Expression e) {
  if (e == ExpressionStore::nothing) return false;
  if (!store_.boolean(e) || store_.nullable(e)) return true;
  if (store_.known(e).possible != KnownOfExpression::Possible::unknown)
    return store_.known(e).possible == KnownOfExpression::Possible::yes;
  bool result = false;
  switch (store_.op(e)) {
    case Op::concat:
      result = possible(store_.operand(e)) && possible(store_.rest(e));
      break;
    case Op::either:
      result = std::ranges::any_of(store_.parts(e), [&](Expression part) { return possible(part); });
      break;
    case Op::repeat:
    case Op::lexeme:
      result = possible(store_.operand(e));
      break;
    default:
      return find_text(e);
  }
  store_.known(e).possible = result ? KnownOfExpression::Possible::yes : KnownOfExpression::Possible::no;
  return result;
}

Steps PossibleTexts::steps(Expression e) {
  const Steps all = derivatives_.steps(e);
  if (!store_.boolean(e) || store_.known(e).pruned) return all;
  std::vector<Step> bytes(all.bytes.begin(), all.bytes.end());
  std::erase_if(bytes, [&](const Step& step) { return !possible(step.to); });
  store_.known(e).pruned = true;
  if (bytes.size() == all.bytes.size()) return all;
  derivatives_.keep_only(e, bytes);
  return derivatives_.steps(e);
}

Expression PossibleTexts::derivative(Expression e, unsigned char byte) {
  const Expression to = derivatives_.after(e, byte);
  return store_.boolean(e) && !possible(to) ? ExpressionStore::nothing : to;
}

// What lies on the way to the end of some text is possible; when nothing ends, nothing that was visited is. Most have a
// short text, which is looked for first: the way to a long one leads through a place for every step of every counter.
bool PossibleTexts::find_text(Expression start) {
  if (store_.op(start) == Op::both && has_text_of_one_byte(start)) {
    store_.known(start).possible = KnownOfExpression::Possible::yes;
    return true;
  }
  if (const auto found = find_short_text(start)) return *found;
  return find_any_text(start);
}

// Told by its operands alone.
bool PossibleTexts::has_text_of_one_byte(Expression intersection) {
  ByteSet common = ByteSet::all();
  const auto operands = store_.parts(intersection);
  for (std::size_t i = 0; i < operands.size() && !common.empty(); ++i) {
    ByteSet of_operand;
    for (const Step& step : derivatives_.steps(operands[i]).bytes)
      if (store_.nullable(step.to)) of_operand = of_operand | step.on;
    common = common & of_operand;
  }
  return !common.empty();
}

bool PossibleTexts::leads_to_text(Expression e) const {
  return store_.known(e).possible == KnownOfExpression::Possible::yes || store_.nullable(e) || !store_.boolean(e);
}

// Breadth first through a few places; nothing when that does not tell.
std::optional<bool> PossibleTexts::find_short_text(Expression start) {
  struct Place {
    Expression at;
    std::size_t from;
  };
  std::vector<Place> places{{start, 0}};
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (i == kShortSearchNodes) return std::nullopt;
    for (const Step& step : derivatives_.steps(places[i].at).bytes) {
      if (store_.exhausted()) return false;
      if (store_.known(step.to).possible == KnownOfExpression::Possible::no) continue;
      if (leads_to_text(step.to)) {
        std::size_t back = i;
        for (; back != 0; back = places[back].from)
          store_.known(places[back].at).possible = KnownOfExpression::Possible::yes;
        store_.known(start).possible = KnownOfExpression::Possible::yes;
        return true;
      }
      if (std::ranges::find(places, step.to, &Place::at) == places.end()) places.push_back({step.to, i});
    }
  }
  for (const Place& place : places) store_.known(place.at).possible = KnownOfExpression::Possible::no;
  return false;
}

// Depth first.
bool PossibleTexts::find_any_text(Expression start) {
  struct Place {
    Expression at;
    std::size_t next;
  };
  std::vector<Place> path{{start, 0}};
  std::unordered_set<Expression> visited{start};
  while (!path.empty()) {
    const std::span<const Step> steps = derivatives_.steps(path.back().at).bytes;
    if (path.back().next == steps.size()) {
      path.pop_back();
      continue;
    }
    const Expression to = steps[path.back().next++].to;
    if (store_.known(to).possible == KnownOfExpression::Possible::no) continue;
    if (leads_to_text(to)) {
      for (const Place& place : path) store_.known(place.at).possible = KnownOfExpression::Possible::yes;
      return true;
    }
    if (!visited.insert(to).second) continue;
    if (visited.size() > kSearchNodes) store_.exhaust();
    if (store_.exhausted()) return false;
    path.push_back({to, 0});
  }
  for (const Expression e : visited) store_.known(e).possible = KnownOfExpression::Possible::no;
  return false;
}

}  // namespace espalier::grammar
