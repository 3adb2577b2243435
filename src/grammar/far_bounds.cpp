#include "grammar/far_bounds.h"

#include <algorithm>
#include <vector>

namespace espalier::grammar {
namespace {

constexpr std::uint32_t kNoBound = 0xffffffff;
constexpr std::size_t kMostPlaces = 1024;  // that may be looked through for the longest completion
constexpr int kDeepest = 500;              // of expressions; what is deeper counts as without bounds and as short

std::uint32_t limited(std::uint64_t count) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(count, kNoBound - 1));
}

}  // namespace

// The length of a text that it reads is this or more.
std::uint32_t FarBounds::least_bytes(Expression e, int nesting) {
  if (store_.nullable(e) || nesting == kDeepest) return 0;
  if (const auto known = least_.find(e); known != least_.end()) return known->second;
  std::uint64_t least = 1;
  switch (store_.op(e)) {
    case Op::literal:
      least = store_.literal(e).size();
      break;
    case Op::concat:
      least = std::uint64_t{least_bytes(store_.operand(e), nesting + 1)} + least_bytes(store_.rest(e), nesting + 1);
      break;
    case Op::either:
      least = kNoBound;
      for (const Expression part : store_.parts(e))
        least = std::min<std::uint64_t>(least, least_bytes(part, nesting + 1));
      break;
    case Op::both:
      for (const Expression part : store_.parts(e))
        least = std::max<std::uint64_t>(least, least_bytes(part, nesting + 1));
      break;
    case Op::repeat:
      least = std::uint64_t{store_.low(e)} * least_bytes(store_.operand(e), nesting + 1);
      break;
    case Op::lexeme:
      least = least_bytes(store_.operand(e), nesting + 1);
      break;
    default:
      break;
  }
  return least_[e] = limited(least);
}

// Bytes below which the bound makes no difference; kNoBound when it is near, or none.
std::uint32_t FarBounds::own_bound(Expression repeat, int nesting) {
  if (store_.high(repeat) == ExpressionStore::unbounded) return kNoBound;
  const std::uint32_t bytes =
      limited(std::uint64_t{store_.high(repeat)} * least_bytes(store_.operand(repeat), nesting + 1));
  return bytes < far_ ? kNoBound : bytes;
}

std::uint32_t FarBounds::nearest(Expression e, int nesting) {
  if (nesting == kDeepest) return kNoBound;
  if (const auto known = nearest_.find(e); known != nearest_.end()) return known->second;
  std::uint32_t bytes = kNoBound;
  switch (store_.op(e)) {
    case Op::concat:
      bytes = std::min(nearest(store_.operand(e), nesting + 1), nearest(store_.rest(e), nesting + 1));
      break;
    case Op::either:
    case Op::both:
      for (const Expression part : store_.parts(e)) bytes = std::min(bytes, nearest(part, nesting + 1));
      break;
    case Op::repeat:
      bytes = std::min(own_bound(e, nesting), nearest(store_.operand(e), nesting + 1));
      break;
    default:
      break;
  }
  return nearest_[e] = bytes;
}

// Requires: nearest() has been asked of it.
Expression FarBounds::without_bounds(Expression e) {
  const auto found = nearest_.find(e);
  if (found == nearest_.end() || found->second == kNoBound) return e;
  if (const auto known = without_.find(e); known != without_.end()) return known->second;
  Expression result = e;
  if (store_.op(e) == Op::concat) {
    const Expression first = without_bounds(store_.operand(e));
    result = store_.concat(first, without_bounds(store_.rest(e)));
  } else if (store_.op(e) == Op::repeat) {
    const bool far = own_bound(e, 0) != kNoBound;
    const Expression item = without_bounds(store_.operand(e));
    result = store_.repeat(item, store_.low(e), far ? ExpressionStore::unbounded : store_.high(e));
  } else {
    std::vector<Expression> parts;
    for (const Expression part : store_.parts(e)) parts.push_back(without_bounds(part));
    result = store_.op(e) == Op::either ? store_.either(std::move(parts)) : store_.both(std::move(parts));
  }
  return without_[e] = result;
}

std::optional<std::uint32_t> FarBounds::completion(Expression e) {
  if (!completions_.contains(e)) find_completion(e);
  return completions_[e];
}

// The longest of the shortest texts that complete what can be read of it. All places that it leads to are visited, then
// those from which a text can end, step by step backwards. What is found holds for each of the places.
void FarBounds::find_completion(Expression e) {
  completions_[e] = std::nullopt;
  std::vector<Expression> places{e};
  std::unordered_map<Expression, std::size_t> numbers{{e, 0}};
  std::vector<std::vector<std::size_t>> before(1);
  for (std::size_t i = 0; i < places.size(); ++i) {
    for (const Step& step : store_.steps(places[i]).bytes) {
      const auto [place, fresh] = numbers.try_emplace(step.to, places.size());
      if (fresh) {
        places.push_back(step.to);
        before.emplace_back();
      }
      before[place->second].push_back(i);
    }
    if (places.size() > kMostPlaces || store_.exhausted()) return;
  }
  std::vector<bool> ends(places.size());
  std::vector<std::size_t> wave;
  for (std::size_t i = 0; i < places.size(); ++i) {
    ends[i] = store_.nullable(places[i]);
    if (ends[i]) wave.push_back(i);
  }
  std::uint32_t length = 0;
  std::size_t found = wave.size();
  for (std::vector<std::size_t> next; found < places.size() && !wave.empty(); wave.swap(next), next.clear(), ++length) {
    for (const std::size_t place : wave) {
      for (const std::size_t earlier : before[place]) {
        if (ends[earlier]) continue;
        ends[earlier] = true;
        next.push_back(earlier);
        ++found;
      }
    }
  }
  if (found < places.size()) return;
  for (const Expression place : places) completions_[place] = length;
}

std::optional<FarBounds::Loosened> FarBounds::loosened(Expression e) {
  if (store_.calls(e) || store_.local(e)) return std::nullopt;
  const std::uint32_t reach = nearest(e, 0);
  if (reach == kNoBound) return std::nullopt;
  const Expression at = without_bounds(e);
  const auto most = completion(at);
  if (!most || reach <= *most) return std::nullopt;
  return Loosened{at, reach, *most};
}

}  // namespace espalier::grammar
