#include "grammar/masks/state_loops.h"

#include "grammar/characters/spelling.h"

namespace espalier::grammar {
namespace {

constexpr int kFewLeave = 8;                                     // tokens_with() of the classes that leave a loop
constexpr unsigned kManyBytes = 32;                              // that may come
constexpr unsigned kFirstLeadByte = 0xc2, kLastLeadByte = 0xf4;  // first bytes of characters beyond ASCII

}  // namespace

StateLoops::StateLoops(Automaton& automaton, std::uint32_t longest_token)
    : automaton_(automaton), store_(automaton.store()), longest_(longest_token), closed_loops_(automaton) {
  wide_ = Spelling(store_, Spelling::Kind::plain).character(CodePointSet(0x80, 0x10ffff));
}

std::size_t StateLoops::memory() const {
  constexpr std::size_t kEntry = 32;  // of a table
  return loops_.size() * (sizeof(StateLoop) + kEntry) + closed_loops_.memory();
}

bool StateLoops::is_wide(State state) {
  return automaton_.row(state).size() >= kManyBytes;
}

const StateLoop& StateLoops::of(State state) {
  const auto known = loops_.find(state);
  if (known != loops_.end()) return known->second;
  const StateLoop found = find(state);
  return loops_[state] = found;
}

// For tokens: none has more characters than bytes.
bool StateLoops::is_endless(const StateLoop& around) const {
  return around.family != 0 && around.characters >= longest_;
}

Classes StateLoops::unbounded(State state) {
  const StateLoop& around = of(state);
  return is_endless(around) ? around.inside : 0;
}

StateLoop StateLoops::find(State state) {
  StateLoop loop;
  const auto frames = automaton_.frames(state);
  if (frames.empty() || automaton_.leaves(state)) return {};
  const Frame frame = frames[0];
  if (frames.size() > 1 || !counter_loop(frame, loop)) {
    loop = {};
    if (!self_loop(state, loop)) loop = {};
  }
  // One that few tokens leave is good enough.
  if (loop.family != 0 && (loop.characters < ExpressionStore::unbounded || tokens_with(loop.leaving) < kFewLeave))
    return loop;
  StateLoop closed;
  if (!is_wide(state) || !closed_loop(state, closed)) return loop;
  return loop.family == 0 || tokens_with(closed.leaving) < tokens_with(loop.leaving) ? closed : loop;
}

bool StateLoops::closed_loop(State state, StateLoop& loop) {
  const ClosedLoop& found = closed_loops_.of(state);
  if (found.inside == 0) return false;
  loop = {.inside = found.inside,
          .leaving = found.leaving,
          .characters = ExpressionStore::unbounded,
          .family = (std::uint64_t{state} << 1) | (std::uint64_t{1} << 62),
          .closed = true};
  return true;
}

// `item{low,high} rest`, where an item may be one character of some classes.
bool StateLoops::counter_loop(const Frame& frame, StateLoop& loop) {
  Expression at = frame.at;
  const bool has_rest = store_.op(at) == Op::concat;
  const Expression head = has_rest ? store_.operand(at) : at;
  const Expression rest = has_rest ? store_.rest(at) : ExpressionStore::empty;
  if (store_.op(head) != Op::repeat) return false;
  const State behind = automaton_.start(rest, frame.caller);
  if (automaton_.leaves(behind)) return false;
  const Expression item = store_.operand(head);
  if (store_.calls(item)) return false;
  ByteSet one_byte, first;
  for (const Step& step : store_.steps(item).bytes) {
    first = first | step.on;
    if (step.to == ExpressionStore::empty) one_byte = one_byte | step.on;
  }
  Classes partial = 0;
  for (unsigned byte = 0; byte < 0x80; ++byte) {
    (one_byte.contains(byte) ? loop.inside : partial) |= class_of(static_cast<unsigned char>(byte));
  }
  loop.inside &= ~partial;
  loop.inside |= wide_items(item);
  if (loop.inside == 0) return false;
  first.each([&](unsigned byte) { loop.leaving |= class_of(static_cast<unsigned char>(byte)); });
  loop.leaving &= ~loop.inside;
  for (const Automaton::Branch& branch : automaton_.branches(behind)) {
    branch.on.each([&](unsigned byte) { loop.leaving |= class_of(static_cast<unsigned char>(byte)); });
  }
  loop.characters = store_.high(head);
  loop.family = ((std::uint64_t{item} << 32) ^ (std::uint64_t{rest} * 0x9e3779b97f4a7c15u) ^ frame.caller) | 1;
  return true;
}

// A state that bytes lead back to.
bool StateLoops::self_loop(State state, StateLoop& loop) {
  Classes away = 0, back = 0;
  for (unsigned byte = 0; byte < 0x80; ++byte) {
    const State to = automaton_.next(state, static_cast<unsigned char>(byte));
    (to == state ? back : away) |= class_of(static_cast<unsigned char>(byte));
    if (to != state && to != Automaton::dead) loop.leaving |= class_of(static_cast<unsigned char>(byte));
  }
  loop.inside = back & ~away;
  loop.inside |= wide_loops(state, loop.leaving);
  // Classes of which some bytes stay and some do not: tokens with them are looked at one by one.
  loop.leaving |= back & away;
  loop.characters = ExpressionStore::unbounded;
  loop.family = (std::uint64_t{state} << 1) | (std::uint64_t{1} << 63);
  return loop.inside != 0;
}

// The classes of first bytes of which every character is one item.
Classes StateLoops::wide_items(Expression item) {
  const auto [known, fresh] = wide_items_.try_emplace(item, 0);
  if (!fresh) return known->second;
  Classes all = 0, not_all = 0;
  for (unsigned lead = kFirstLeadByte; lead <= kLastLeadByte; ++lead) {
    const auto byte = static_cast<unsigned char>(lead);
    (store_.after(item, byte) == store_.after(wide_, byte) ? all : not_all) |= class_of(byte);
  }
  all &= ~not_all;
  return wide_items_[item] = all == 0 ? 0 : all | kContinuation;
}

// The classes of first bytes of which every character leads back to the state. `leaving`: of which some lead elsewhere.
Classes StateLoops::wide_loops(State state, Classes& leaving) {
  const Automaton::Row row = automaton_.row(state);
  Classes back = 0, away = 0;
  State last = Automaton::dead;
  Expression last_rest = ExpressionStore::nothing;
  bool stays = false;
  for (unsigned lead = kFirstLeadByte; lead <= kLastLeadByte; ++lead) {
    const auto byte = static_cast<unsigned char>(lead);
    const State to = row.next(byte);
    const Expression rest = store_.after(wide_, byte);
    if (to != last || rest != last_rest) stays = to != Automaton::dead && stays_over(state, byte);
    last = to;
    last_rest = rest;
    (stays ? back : away) |= class_of(byte);
    if (!stays && to != Automaton::dead) leaving |= class_of(byte);
  }
  leaving |= back & away;
  back &= ~away;
  return back == 0 ? 0 : back | kContinuation;
}

bool StateLoops::stays_over(State state, unsigned char lead) {
  State at = automaton_.next(state, lead);
  for (Expression rest = store_.after(wide_, lead); rest != ExpressionStore::empty;) {
    // Each position of a character has one set of bytes, all leading on alike.
    const Step step = store_.steps(rest).bytes[0];
    const Automaton::Row row = automaton_.row(at);
    const State to = row.next(static_cast<unsigned char>(step.on.first()));
    bool alike = to != Automaton::dead;
    step.on.each([&](unsigned byte) { alike &= row.next(static_cast<unsigned char>(byte)) == to; });
    if (!alike) return false;
    at = to;
    rest = step.to;
  }
  return at == state;
}

}  // namespace espalier::grammar
