#include "grammar/masks/closed_loops.h"

#include <algorithm>
#include <array>
#include <utility>

#include "grammar/characters/spelling.h"

namespace espalier::grammar {
namespace {

constexpr std::size_t kMostStates = 144;  // of a loop
constexpr std::size_t kMostWasted = 300;
constexpr int kMostRounds = 16, kMostFailed = 2;
constexpr int kFewFail = 8, kManyLeave = 48;  // tokens_with() of what cannot come at the start, and of what leaves
constexpr unsigned char kFirstLead = 0xc2, kLastLead = 0xf4;  // first bytes of characters beyond ASCII

Classes classes_of(unsigned char first, unsigned char last) {
  Classes all = 0;
  for (unsigned byte = first; byte <= last; ++byte) all |= class_of(static_cast<unsigned char>(byte));
  return all;
}

Classes wide_classes() {
  return classes_of(kFirstLead, kLastLead);
}

// Classes by how many tokens of a vocabulary have them, the rarest first.
const std::array<Classes, 5>& ranks() {
  static const std::array<Classes, 5> made = [] {
    std::array<Classes, 5> of{0, class_of('_') | class_of('-') | class_of('.'), wide_classes() | class_of(' '),
                              classes_of('0', '9'), classes_of('a', 'z') | classes_of('A', 'Z')};
    Classes others = classes_of(0, 0x7f);
    for (const Classes more : of) others &= ~more;
    of[0] = others;
    return of;
  }();
  return made;
}

// Of a byte's class.
std::uint8_t rank(unsigned char byte) {
  static const std::array<std::uint8_t, 256> made = [] {
    std::array<std::uint8_t, 256> by_byte{};
    for (unsigned one = 0; one < by_byte.size(); ++one) {
      const Classes its = class_of(static_cast<unsigned char>(one));
      const auto at = std::ranges::find_if(ranks(), [&](Classes rank) { return (rank & its) != 0; });
      by_byte[one] = static_cast<std::uint8_t>(at - ranks().begin());
    }
    return by_byte;
  }();
  return made[byte];
}

Classes without_rarest(Classes inside) {
  for (const Classes rank : ranks()) {
    if ((inside & rank) != 0) return inside & ~rank;
  }
  return 0;
}

}  // namespace

int tokens_with(Classes classes) {
  constexpr std::array kWeights{1, 2, 6, 3, 8};
  int all = 0;
  for (std::size_t i = 0; i < ranks().size(); ++i) {
    for (Classes left = classes & ranks()[i]; left != 0; left &= left - 1) all += kWeights[i];
  }
  return all;
}

ClosedLoops::ClosedLoops(Automaton& automaton) : automaton_(automaton) {
  wide_ = Spelling(automaton.store(), Spelling::Kind::plain).character(CodePointSet(0x80, 0x10ffff));
}

// What is found holds from all states that were gone through; they may have a better one where what could not come at
// the start can come behind it.
const ClosedLoop& ClosedLoops::of(State state) {
  const auto known = known_.find(state);
  if (known != known_.end()) return known->second;
  const auto lender = lent_.find(state);
  const ClosedLoop lent = lender == lent_.end() ? ClosedLoop{} : lender->second;
  if (lent.inside != 0 && tokens_with(lent.leaving) < kManyLeave) return known_[state] = lent;
  const ClosedLoop found = find(state);
  auto& others = tokens_with(failing_at_start_) < kFewFail ? known_ : lent_;
  if (found.inside != 0)
    for (const Seen& seen : states_) others.try_emplace(seen.state, found);
  if (lent.inside == 0) return known_[state] = found;
  const bool is_better = found.inside != 0 && tokens_with(found.leaving) < tokens_with(lent.leaving);
  return known_[state] = is_better ? found : lent;
}

ClosedLoop ClosedLoops::find(State from) {
  Classes inside = 0;
  for (const Classes rank : ranks()) inside |= rank;
  inside &= ~(class_of('"') | class_of('\\'));  // behind these there is mostly something else
  failing_at_start_ = 0;
  int failed = 0;
  for (int round = 0; round < kMostRounds && inside != 0 && wasted_ < kMostWasted; ++round) {
    if (!explore(from, inside)) {
      wasted_ += states_.size();
      if (++failed == kMostFailed) return {};
      inside = without_rarest(inside);
    } else if ((failing_ & inside) != 0) {
      inside &= ~failing_;
    } else {
      if ((inside & wide_classes()) != 0) inside |= kContinuation;
      return {inside, coming_ & ~inside};
    }
  }
  return {};
}

bool ClosedLoops::explore(State from, Classes inside) {
  failing_ = coming_ = 0;
  states_.clear();
  places_.clear();
  places_.emplace(from, 0);
  states_.push_back({from});
  // ASCII first: it is read quickly, and where it leads to too many states or out of the loop the rest is in vain.
  for (std::size_t ascii = 0, wide = 0; wide < states_.size(); ++wide) {
    for (; ascii < states_.size() && states_.size() <= kMostStates; ++ascii) read_ascii(states_[ascii], inside);
    if (states_.size() > kMostStates || automaton_.exhausted()) return false;
    if (wide == 0 && (failing_ & inside) != 0) return true;  // it will be gone through again
    read_wide(states_[wide], inside);
  }
  return states_.size() <= kMostStates;
}

// To a state that several ways lead to, the one whose rarest class is the most frequent counts: without the others it
// is reached all the same.
void ClosedLoops::add(State state, const Seen& before, unsigned char with) {
  Seen reached{state, class_of(with), rank(with)};
  if (before.rarest != 0 && before.rank <= reached.rank) reached = {state, before.rarest, before.rank};
  const auto [known, fresh] = places_.try_emplace(state, states_.size());
  if (fresh) {
    states_.push_back(reached);
  } else if (Seen& seen = states_[known->second]; seen.rarest != 0 && seen.rank < reached.rank) {
    seen = reached;
  }
}

void ClosedLoops::fail(const Seen& at, unsigned char what) {
  failing_ |= at.rarest != 0 && at.rank < rank(what) ? at.rarest : class_of(what);
  if (at.rarest == 0) failing_at_start_ |= class_of(what);
}

void ClosedLoops::read_ascii(Seen at, Classes inside) {
  const Automaton::Row row = automaton_.row(at.state);
  State last = Automaton::dead;  // that was added
  std::uint8_t last_rank = 0;
  for (unsigned one = 0; one < 0x80; ++one) {
    const auto byte = static_cast<unsigned char>(one);
    const Classes its = class_of(byte);
    const State to = row.next(byte);
    if (to != Automaton::dead) coming_ |= its;
    if ((inside & its & ~failing_) == 0) continue;
    if (to == Automaton::dead || automaton_.leaves(to)) {
      fail(at, byte);
    } else if (to != last || rank(byte) > last_rank) {
      add(last = to, at, byte);
      last_rank = rank(byte);
    }
  }
}

void ClosedLoops::read_wide(Seen at, Classes inside) {
  const Automaton::Row row = automaton_.row(at.state);
  State last = Automaton::dead;
  Expression last_rest = ExpressionStore::nothing;
  bool fails = true;  // with what `last` led to
  for (unsigned one = kFirstLead; one <= kLastLead; ++one) {
    const auto lead = static_cast<unsigned char>(one);
    const Classes its = class_of(lead);
    const State to = row.next(lead);
    if (to != Automaton::dead) coming_ |= its;
    if ((inside & its & ~failing_) == 0) continue;
    const Expression rest = automaton_.store().after(wide_, lead);
    if (to != last || rest != last_rest) {
      const auto ends = after_lead(to, rest);
      fails = !ends;
      for (const State end : ends.value_or(std::vector<State>())) add(end, at, lead);
      last = to;
      last_rest = rest;
    }
    if (fails) fail(at, lead);
  }
}

std::optional<std::vector<State>> ClosedLoops::after_lead(State state, Expression rest) {
  std::vector<State> at{state};
  const auto stops = [&](State one) { return one == Automaton::dead || automaton_.leaves(one); };
  for (;;) {
    if (std::ranges::any_of(at, stops) || at.size() > kMostStates) return std::nullopt;
    if (rest == ExpressionStore::empty) return at;
    // Each position of a character has one set of bytes, all leading on alike.
    const Step step = automaton_.store().steps(rest).bytes[0];
    std::vector<State> next;
    for (const State one : at) {
      const Automaton::Row row = automaton_.row(one);
      step.on.each([&](unsigned byte) { next.push_back(row.next(static_cast<unsigned char>(byte))); });
    }
    std::ranges::sort(next);
    next.erase(std::ranges::unique(next).begin(), next.end());
    at = std::move(next);
    rest = step.to;
  }
}

}  // namespace espalier::grammar
