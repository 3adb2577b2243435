#include "grammar/masks/far_bounds.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>

#include "grammar/masks/closed_loops.h"

namespace espalier::grammar {
namespace {

constexpr std::uint32_t kMostBound = 0xffffffff;
constexpr std::size_t kMostBoundPlaces = 400;  // that may be looked through for the longest completion
constexpr std::size_t kMostBounds = 8;         // of one expression that are told apart
constexpr int kDeepestBound = 500;             // of expressions; what is deeper counts as without bounds and as short
constexpr std::uint32_t kLeastUseful = 16;     // bytes of tokens that need no look at bounds
constexpr std::uint32_t kFarthest = 256;       // bytes; what stands behind them is of interest to no token
constexpr std::uint32_t kMostCounted = 255;    // bytes of kWordEnds; of more it is not known how many
constexpr int kRare = 48;                      // tokens_with() of rare bytes
constexpr Classes kAnyClass = ~Classes{0};

std::uint32_t limited(std::uint64_t count) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(count, kMostBound - 1));
}

int weight(Classes classes) {
  return (classes & kContinuation) != 0 ? std::numeric_limits<int>::max() : tokens_with(classes);
}

Classes rarer(Classes a, Classes b) {
  return weight(b) < weight(a) ? b : a;
}

Classes classes_in(const ByteSet& set) {
  Classes all = 0;
  set.each([&](unsigned byte) { all |= class_of(static_cast<unsigned char>(byte)); });
  return all;
}

}  // namespace

// The length of a text that it reads is this or more.
std::uint32_t FarBounds::least_bytes(Expression e, int nesting) {
  if (store_.nullable(e) || nesting == kDeepestBound) return 0;
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
      least = kMostBound;
      for (const Expression part : store_.parts(e)) {
        least = std::min<std::uint64_t>(least, least_bytes(part, nesting + 1));
        if (least <= 1) break;  // none is shorter: of a class of characters the first one tells
      }
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

// Of these every text that it reads has a byte. As rare as can be found; all classes when there are none.
Classes FarBounds::marks(Expression e, int nesting) {
  if (store_.nullable(e) || nesting == kDeepestBound) return kAnyClass;
  if (const auto known = marks_.find(e); known != marks_.end()) return known->second;
  return marks_[e] = find_marks(e, nesting + 1);
}

Classes FarBounds::find_marks(Expression e, int nesting) {
  Classes found = kAnyClass;
  switch (store_.op(e)) {
    case Op::bytes:
      return classes_in(store_.set(e));
    case Op::literal:
      for (const char byte : store_.literal(e)) found = rarer(found, class_of(static_cast<unsigned char>(byte)));
      return found;
    case Op::concat:
      return rarer(marks(store_.operand(e), nesting), marks(store_.rest(e), nesting));
    case Op::either:
      found = 0;
      for (const Expression part : store_.parts(e)) found |= marks(part, nesting);
      return found;
    case Op::both:
      for (const Expression part : store_.parts(e)) found = rarer(found, marks(part, nesting));
      return found;
    case Op::repeat:
    case Op::lexeme:
      return marks(store_.operand(e), nesting);
    default:
      return found;
  }
}

// Nothing when it is near, or none.
std::optional<FarBounds::Bound> FarBounds::own_bound(Expression repeat, int nesting) {
  const std::uint32_t count = store_.high(repeat);
  const Expression item = store_.operand(repeat);
  const std::uint32_t least = least_bytes(item, nesting + 1);
  if (count == ExpressionStore::unbounded || least == 0) return std::nullopt;
  Bound bound{limited(std::uint64_t{count} * least), count, 0};
  if (marked_ && least > 1) bound.marks = marks(item, nesting + 1);
  if (weight(bound.marks) > kRare) bound.marks = 0;
  if (bound.bytes < near_ && bound.marks == 0) return std::nullopt;
  return bound;
}

const std::vector<FarBounds::Bound>& FarBounds::bounds(Expression e, int nesting) {
  static const std::vector<Bound> none;
  if (nesting == kDeepestBound || !store_.counts(e)) return none;
  if (const auto known = bounds_.find(e); known != bounds_.end()) return known->second;
  std::vector<Bound> found;
  const auto add = [&](const Bound& bound) {
    if (std::ranges::find(found, bound) != found.end()) return;
    if (found.size() < kMostBounds) return found.push_back(bound);
    Bound& last = found.back();  // stands for both
    last.bytes = std::min(last.bytes, bound.bytes);
    last.count = std::min(last.count, bound.count);
    last.marks = last.marks == 0 || bound.marks == 0 ? 0 : last.marks | bound.marks;
  };
  const auto add_of = [&](Expression part) {
    for (const Bound& bound : bounds(part, nesting + 1)) add(bound);
  };
  switch (store_.op(e)) {
    case Op::concat:
      add_of(store_.operand(e));
      add_of(store_.rest(e));
      break;
    case Op::either:
    case Op::both:
      for (const Expression part : store_.parts(e)) add_of(part);
      break;
    case Op::repeat:
      if (const auto bound = own_bound(e, nesting)) add(*bound);
      add_of(store_.operand(e));
      break;
    default:
      break;
  }
  return bounds_[e] = std::move(found);
}

// Requires: bounds() has been asked of it.
Expression FarBounds::without_bounds(Expression e) {
  const auto found = bounds_.find(e);
  if (found == bounds_.end() || found->second.empty()) return e;
  if (const auto known = without_.find(e); known != without_.end()) return known->second;
  Expression result = e;
  if (store_.op(e) == Op::concat) {
    const Expression first = without_bounds(store_.operand(e));
    result = store_.concat(first, without_bounds(store_.rest(e)));
  } else if (store_.op(e) == Op::repeat) {
    const bool far = own_bound(e, 0).has_value();
    const Expression item = without_bounds(store_.operand(e));
    result = store_.repeat(item, store_.low(e), far ? ExpressionStore::unbounded : store_.high(e));
  } else {
    std::vector<Expression> parts;
    for (const Expression part : store_.parts(e)) parts.push_back(without_bounds(part));
    result = store_.op(e) == Op::either ? store_.either(std::move(parts)) : store_.both(std::move(parts));
  }
  return without_[e] = result;
}

std::optional<FarBounds::Completion> FarBounds::completion(Expression e, Classes marks) {
  Completions& known = completions_[marks];
  if (!known.contains(e)) find_completion(e, marks, known);
  return known[e];
}

// What can be read of it can be completed by texts with few marks, and of these by short ones: the most that takes. All
// places that it leads to are visited, then the ways to an end are followed backwards. What is found holds for each of
// the places.
void FarBounds::find_completion(Expression e, Classes marks, Completions& found) {
  found[e] = std::nullopt;
  struct Way {
    std::size_t from;
    std::uint64_t cost;  // marks, then bytes
  };
  constexpr std::uint64_t kMark = std::uint64_t{1} << 32, kNever = ~std::uint64_t{0};
  std::vector<Expression> places{e};
  std::unordered_map<Expression, std::size_t> numbers{{e, 0}};
  std::vector<std::vector<Way>> before(1);
  for (std::size_t i = 0; i < places.size(); ++i) {
    for (const Step& step : store_.steps(places[i]).bytes) {
      const auto [place, fresh] = numbers.try_emplace(step.to, places.size());
      if (fresh) {
        places.push_back(step.to);
        before.emplace_back();
      }
      const bool is_marked = (classes_in(step.on) & ~marks) == 0;
      before[place->second].push_back({i, is_marked ? kMark + 1 : 1});
    }
    if (places.size() > kMostBoundPlaces || store_.exhausted()) return;
  }
  std::vector<std::uint64_t> costs(places.size(), kNever);
  using Reached = std::pair<std::uint64_t, std::size_t>;
  std::priority_queue<Reached, std::vector<Reached>, std::greater<>> wave;
  const auto reach = [&](std::size_t place, std::uint64_t cost) {
    if (cost >= costs[place]) return;
    costs[place] = cost;
    wave.emplace(cost, place);
  };
  for (std::size_t i = 0; i < places.size(); ++i)
    if (store_.nullable(places[i])) reach(i, 0);
  while (!wave.empty()) {
    const auto [cost, place] = wave.top();
    wave.pop();
    if (cost > costs[place]) continue;
    for (const Way& way : before[place]) reach(way.from, cost + way.cost);
  }
  Completion most;
  for (const std::uint64_t cost : costs) {
    if (cost == kNever) return;
    most.bytes = std::max(most.bytes, static_cast<std::uint32_t>(cost));
    most.marks = std::max(most.marks, static_cast<std::uint32_t>(cost >> 32));
  }
  for (const Expression place : places) found[place] = most;
}

std::optional<Expression> FarBounds::loosened(Expression e) {
  if (store_.calls(e) || store_.local(e)) return std::nullopt;
  const std::vector<Bound>& found = bounds(e, 0);
  // With one more item to come all that goes on behind it would be read in both.
  const auto is_far = [&](const Bound& bound) { return bound.bytes >= far_ && (bound.marks == 0 || bound.count > 1); };
  if (found.empty() || !std::ranges::all_of(found, is_far)) return std::nullopt;
  const Expression loose = without_bounds(e);
  const auto like = similarity(e, loose);
  return like && like->holds(kLeastUseful, 0, 0) ? std::optional(loose) : std::nullopt;
}

// Of a text that goes on behind a part only what the part reads counts towards its bounds, and what completes the part
// completes it whatever follows: so each part has its own.
std::optional<FarBounds::Similarity> FarBounds::similarity(Expression bounded, Expression loose) {
  if (bounds(bounded, 0).empty() || without_bounds(bounded) != loose) return std::nullopt;
  Similarity like;
  std::uint32_t distance = 0;
  const auto add = [&](Expression part) {
    const std::vector<Bound>& found = bounds(part, 0);
    Classes marked = 0;
    for (const Bound& bound : found) marked |= bound.marks;
    const auto most = found.empty() ? std::optional(Completion{}) : completion(without_bounds(part), marked);
    if (most && !found.empty()) like.segments.push_back({distance, found, *most});
    distance = limited(std::uint64_t{distance} + least_bytes(part, 0));
    return most.has_value();
  };
  Expression rest = bounded;
  for (; store_.op(rest) == Op::concat && distance < kFarthest; rest = store_.rest(rest)) {
    if (!add(store_.operand(rest))) return std::nullopt;
  }
  like.known = distance < kFarthest ? kMostBound : distance;
  return distance >= kFarthest || add(rest) ? std::optional(std::move(like)) : std::nullopt;
}

bool FarBounds::Similarity::holds(std::uint32_t height, Classes classes, std::uint32_t word_ends) const {
  if (height > known) return false;
  const auto marks_in_text = [&](Classes marks) {
    if ((classes & marks) == 0) return std::uint32_t{0};
    return (marks & ~kWordEnds) == 0 && word_ends < kMostCounted ? word_ends : kMostBound;
  };
  return std::ranges::all_of(segments, [&](const Segment& segment) {
    if (height <= segment.distance) return true;  // anything that it reads will do
    const Completion& most = segment.completion;
    const std::uint64_t length = std::uint64_t{height} - segment.distance + most.bytes;
    return std::ranges::all_of(segment.bounds, [&](const Bound& bound) {
      if (bound.bytes >= length) return true;
      return bound.marks != 0 && std::uint64_t{marks_in_text(bound.marks)} + most.marks <= bound.count;
    });
  });
}

}  // namespace espalier::grammar
