#include "grammar/closing/least_length.h"

#include <algorithm>
#include <map>
#include <span>

namespace espalier::grammar {
namespace {

constexpr int kDeepGuess = 16;              // expressions within expressions
constexpr std::size_t kMostPlaces = 4'000;  // of an intersection

std::uint32_t capped(std::uint64_t length) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(length, LeastLength::kNone));
}

}  // namespace

std::uint32_t LeastLength::Way::total() const {
  return capped(std::uint64_t{first->bound} * times + (second != nullptr ? second->bound : 0));
}

bool LeastLength::Way::settled() const {
  return first->settled && (second == nullptr || second->settled);
}

LeastLength::Node* LeastLength::Way::next() const {
  if (!first->settled && !first->active) return first;
  return second != nullptr && !second->settled && !second->active ? second : nullptr;
}

// ---- at once

std::uint32_t LeastLength::guess_of(Expression e, int depth) {
  if (e == ExpressionStore::nothing) return kNone;
  if (store_.nullable(e)) return 0;
  if (depth > kDeepGuess) return 1;
  if (const auto known = guesses_.find(e); known != guesses_.end()) return known->second;
  std::uint64_t sum = 0;
  Expression at = e;
  for (; store_.op(at) == Op::concat; at = store_.rest(at)) sum += guess_at_node(store_.operand(at), depth);
  return guesses_[e] = capped(sum + guess_at_node(at, depth));
}

std::uint32_t LeastLength::guess_at_node(Expression e, int depth) {
  if (e == ExpressionStore::nothing) return kNone;
  if (store_.nullable(e)) return 0;
  switch (store_.op(e)) {
    case Op::literal:
      return capped(store_.literal(e).size());
    case Op::repeat:
      return capped(std::uint64_t{store_.low(e)} * guess_of(store_.operand(e), depth + 1));
    case Op::lexeme:
      return guess_of(store_.operand(e), depth + 1);
    case Op::later:
      return std::max(1u, store_.least_after(e));
    case Op::either: {
      std::uint32_t least = kNone;
      for (const Expression part : store_.parts(e)) least = std::min(least, guess_of(part, depth + 1));
      return least;
    }
    case Op::both: {
      std::uint32_t most = 1;
      for (const Expression part : store_.parts(e)) most = std::max(most, guess_of(part, depth + 1));
      return most;
    }
    default:
      return 1;
  }
}

std::uint32_t LeastLength::guess(State plain) {
  if (plain == Automaton::dead) return kNone;
  if (automaton_.complete(plain)) return 0;
  if (const auto known = state_guesses_.find(plain); known != state_guesses_.end()) return known->second;
  std::uint32_t least = kNone;
  for (const Frame& frame : automaton_.frames(plain))
    least = std::min(least, capped(std::uint64_t{guess_of(frame.at)} + guess(frame.caller)));
  return state_guesses_[plain] = least;
}

// ---- alternatives, the shortest first

std::uint32_t LeastLength::of(State plain) {
  Node& node = of_state(plain);
  if (!node.settled) settle(node);
  return node.bound;
}

std::uint32_t LeastLength::of(const Frame& frame) {
  Node& node = of_expression(frame.at);
  if (!node.settled) settle(node);
  return capped(std::uint64_t{node.bound} + of(frame.caller));
}

LeastLength::Node& LeastLength::of_state(State state) {
  const auto [place, fresh] = states_.try_emplace(state);
  Node& node = place->second;
  if (!fresh) return node;
  node.is_state = true;
  node.number = state;
  node.bound = guess(state);
  node.settled = node.bound == kNone || automaton_.complete(state);
  return node;
}

LeastLength::Node& LeastLength::of_expression(Expression e) {
  const auto [place, fresh] = expressions_.try_emplace(e);
  Node& node = place->second;
  if (!fresh) return node;
  node.number = e;
  node.bound = guess_of(e);
  const Op op = store_.op(e);
  node.settled = store_.nullable(e) || op == Op::nothing || op == Op::bytes || op == Op::literal;
  node.awaits = op == Op::later && (horizon_ == Horizon::next || store_.awaits(e));
  return node;
}

void LeastLength::open(Node& node) {
  node.opened = true;
  if (!node.is_state) return open_expression(node);
  const auto frames = automaton_.frames(node.number);
  for (const Frame& frame : std::vector<Frame>(frames.begin(), frames.end()))
    node.ways.push_back({&of_expression(frame.at), &of_state(frame.caller), 1});
}

void LeastLength::open_expression(Node& node) {
  const Expression e = node.number;
  const auto only = [&](Expression part, std::uint32_t times = 1) {
    node.ways.push_back({&of_expression(part), nullptr, times});
  };
  switch (store_.op(e)) {
    case Op::concat:
      node.ways.push_back({&of_expression(store_.operand(e)), &of_expression(store_.rest(e)), 1});
      return;
    case Op::either: {
      const auto parts = store_.parts(e);
      for (const Expression part : std::vector<Expression>(parts.begin(), parts.end())) only(part);
      return;
    }
    case Op::repeat:
      return only(store_.operand(e), store_.low(e));
    case Op::lexeme:
      return only(store_.operand(e));
    case Op::call:
      return only(store_.sources().rule_body(store_.operand(e)));
    case Op::later: {
      const Expression alike = store_.as_short(e);
      return only(alike != e ? alike : store_.expanded(e));
    }
    default:
      return search(node);
  }
}

// Ways that are settled come before others of the same length, and those that can be looked into before those that
// cannot.
LeastLength::Choice LeastLength::choose(const Node& node) {
  Choice choice;
  const auto rank = [](const Way& way) { return way.settled() ? 2 : way.next() != nullptr ? 1 : 0; };
  for (const Way& way : node.ways) {
    const std::uint32_t total = way.total();
    const bool better =
        choice.best == nullptr || total < choice.total || (total == choice.total && rank(way) > rank(*choice.best));
    choice.second = std::min(choice.second, better ? choice.total : total);
    if (!better) continue;
    choice.best = &way;
    choice.total = total;
  }
  return choice;
}

void LeastLength::enter(Node& node, std::uint32_t limit) {
  node.active = true;
  if (node.awaits && awaiting_++ > 0) {
    node.settled = true;
    beyond_.push_back(&node);
  }
  path_.push_back({&node, limit, node.bound, false});
}

void LeastLength::leave(bool blocked) {
  Node& node = *path_.back().node;
  node.active = false;
  if (node.awaits) --awaiting_;
  path_.pop_back();
  if (!blocked || node.settled) return;
  if (path_.empty())
    node.settled = true;
  else
    path_.back().blocked = true;
}

void LeastLength::settle(Node& root) {
  enter(root, kNone);
  while (!path_.empty() && budget_.spend()) step();
  while (!path_.empty()) leave(false);
  for (Node* node : beyond_) node->settled = false;
  beyond_.clear();
}

// One look at the end of the path: it goes on to the best way's parts, or back.
void LeastLength::step() {
  Place& place = path_.back();
  Node& node = *place.node;
  if (!node.settled && !node.opened) open(node);
  if (node.settled) return leave(false);
  const Choice choice = choose(node);
  node.bound = std::max(node.bound, choice.total);
  node.settled = choice.best == nullptr || choice.total >= kNone || choice.best->settled();
  if (choice.best == nullptr) node.bound = kNone;
  if (node.settled || node.bound > place.limit) return leave(false);
  Node* next = choice.best->next();
  // Who depends on itself gets longer every time round, until something else is shorter.
  if (next == nullptr || (place.blocked && node.bound <= place.before)) return leave(true);
  place.blocked = false;
  place.before = node.bound;
  const std::uint32_t limit = std::min(place.limit, std::max(choice.second, node.bound));
  const std::uint32_t times = next == choice.best->first ? std::max(1u, choice.best->times) : 1;
  const std::uint32_t others = choice.total - next->bound * times;
  enter(*next, limit >= kNone ? kNone : (limit - others) / times);
}

// Breadth first with the lower bounds of its operands (A*). What lies on the way found is settled with it.
void LeastLength::search(Node& boolean) {
  struct Reached {
    Expression at;
    std::size_t from;
    std::uint32_t length;
  };
  std::vector<Reached> reached{{boolean.number, 0, 0}};
  std::unordered_map<Expression, std::uint32_t> lengths{{boolean.number, 0}};
  std::map<std::uint32_t, std::vector<std::size_t>> open{{boolean.bound, {0}}};
  boolean.settled = true;
  while (!open.empty()) {
    const std::uint32_t least = open.begin()->first;
    const std::size_t i = open.begin()->second.back();
    open.begin()->second.pop_back();
    if (open.begin()->second.empty()) open.erase(open.begin());
    const Reached here = reached[i];
    boolean.bound = std::max(boolean.bound, least);
    const auto known = expressions_.find(here.at);
    if (store_.nullable(here.at) || (i > 0 && known != expressions_.end() && known->second.settled)) {
      for (std::size_t back = i; back != 0; back = reached[back].from) {
        Node& on_the_way = of_expression(reached[back].at);
        on_the_way.bound = std::max(on_the_way.bound, least - reached[back].length);
        on_the_way.settled = true;
      }
      return;
    }
    if (reached.size() > kMostPlaces || !budget_.spend()) return;
    for (const Step& step : store_.steps(here.at).bytes) {
      const std::uint32_t length = here.length + 1;
      const auto [place, fresh] = lengths.try_emplace(step.to, length);
      if (!fresh && place->second <= length) continue;
      place->second = length;
      const auto settled = expressions_.find(step.to);
      const bool is_known = settled != expressions_.end() && settled->second.settled;
      const std::uint32_t left = is_known ? settled->second.bound : guess_of(step.to);
      if (left >= kNone) continue;
      open[std::max(least, length + left)].push_back(reached.size());
      reached.push_back({step.to, i, length});
    }
  }
  boolean.bound = kNone;
}

}  // namespace espalier::grammar
