#include "grammar/automaton/automaton.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "grammar/automaton/hashing.h"

namespace espalier::grammar {
Automaton::Automaton(ExpressionStore& store, AutomatonLimits limits) : store_(store), limits_(limits) {
  table_.resize(256);
  maps_.emplace_back().branch.fill(kNone);
  for (int i = 0; i < 3; ++i) states_.push_back({});
  hashes_.resize(3);
  for (State s = 0; s < 3; ++s) states_[s].map = 0;
  states_[outside].complete = true;
  states_[unknown].leaves = true;
}

std::size_t Automaton::memory() const {
  constexpr std::size_t kEntry = 48;  // of a table
  return states_.size() * sizeof(Entry) + table_.capacity() * 4 + hashes_.size() * 8 + frame_pool_.memory() +
         target_pool_.memory() + maps_.size() * (sizeof(ByteMap) + kEntry) +
         (unions_.size() + lowered_.size() + step_maps_.size()) * kEntry;
}

// Most states are one frame that goes on.
State Automaton::single(Frame frame) {
  if (frame.at == ExpressionStore::nothing) return dead;
  if (frame.at == ExpressionStore::empty) return frame.caller;
  if (store_.nullable(frame.at)) return closure({frame});
  return intern(std::span(&frame, 1), false, false);
}

// Frames that may end here let their callers go on.
State Automaton::closure(std::vector<Frame> frames) {
  bool complete = false, leaves = false;
  const std::size_t given = frames.size();
  for (std::size_t i = 0; i < given; ++i) {
    if (!store_.nullable(frames[i].at)) continue;
    const Entry& caller = states_[frames[i].caller];
    complete |= caller.complete;
    leaves |= caller.leaves;
    frames.insert(frames.end(), caller.frames.begin(), caller.frames.end());  // closed already
  }
  std::erase_if(frames,
                [](const Frame& f) { return f.at == ExpressionStore::nothing || f.at == ExpressionStore::empty; });
  if (frames.empty() && !complete && !leaves) return dead;
  return unite_all(std::move(frames), complete, leaves);
}

State Automaton::unite_all(std::vector<Frame> frames, bool complete, bool leaves) {
  if (frames.empty()) {
    if (complete != leaves) return complete ? outside : unknown;
  }
  std::ranges::sort(frames,
                    [](const Frame& a, const Frame& b) { return a.at != b.at ? a.at < b.at : a.caller < b.caller; });
  std::size_t kept = 0;
  for (std::size_t i = 1; i < frames.size(); ++i) {
    if (frames[i].at == frames[kept].at) {
      frames[kept].caller = unite(frames[kept].caller, frames[i].caller);
    } else {
      frames[++kept] = frames[i];
    }
  }
  if (!frames.empty()) frames.resize(kept + 1);
  return intern(frames, complete, leaves);
}

// `frames` in order, no two of the same expression.
State Automaton::intern(std::span<const Frame> frames, bool complete, bool leaves) {
  std::uint64_t hash = mix(complete * 2 + leaves, frames.size());
  std::uint32_t depth = 0, least = complete || leaves || frames.empty() ? 0 : kUnexpanded;
  for (const Frame& frame : frames) {
    hash = mix(hash, (std::uint64_t{frame.at} << 32) | frame.caller);
    const Entry& caller = states_[frame.caller];
    depth = std::max<std::uint32_t>(depth, caller.depth + 1u);
    least = std::min<std::uint32_t>(least, caller.least_depth + 1u);
  }
  std::size_t at = hash & (table_.size() - 1);
  for (; table_[at] != 0; at = (at + 1) & (table_.size() - 1)) {
    const State known = table_[at] - 1;
    const Entry& entry = states_[known];
    if (hashes_[known] == hash && entry.complete == complete && entry.leaves == leaves &&
        std::ranges::equal(entry.frames, frames)) {
      return known;
    }
  }
  if (states_.size() >= limits_.states || frames.size() > limits_.frames) {
    exhausted_ = true;
    return dead;
  }
  Entry entry;
  entry.frames = frame_pool_.add(frames);
  entry.complete = complete;
  entry.leaves = leaves;
  entry.depth = static_cast<std::uint16_t>(depth);
  entry.least_depth = static_cast<std::uint16_t>(least);
  table_[at] = static_cast<std::uint32_t>(states_.size()) + 1;
  states_.push_back(entry);
  hashes_.push_back(hash);
  if (states_.size() * 2 > table_.size()) grow_table();
  return static_cast<State>(states_.size() - 1);
}

void Automaton::grow_table() {
  table_.assign(table_.size() * 2, 0);
  for (State s = 3; s < states_.size(); ++s) {
    std::size_t place = hashes_[s] & (table_.size() - 1);
    while (table_[place] != 0) place = (place + 1) & (table_.size() - 1);
    table_[place] = s + 1;
  }
}

State Automaton::unite(State a, State b) {
  if (a == b || b == dead) return a;
  if (a == dead) return b;
  if (a > b) std::swap(a, b);
  const std::uint64_t key = (std::uint64_t{a} << 32) | b;
  if (const auto known = unions_.find(key); known != unions_.end()) return known->second;
  std::vector<Frame> frames(states_[a].frames.begin(), states_[a].frames.end());
  frames.insert(frames.end(), states_[b].frames.begin(), states_[b].frames.end());
  const State result =
      unite_all(std::move(frames), states_[a].complete || states_[b].complete, states_[a].leaves || states_[b].leaves);
  unions_.emplace(key, result);
  return result;
}

// The stacks of a state that are not higher than `depth`.
State Automaton::within(State state, std::uint32_t depth) {
  if (states_[state].depth <= depth) return state;
  met_depth_ = true;
  if (states_[state].least_depth > depth) return dead;
  const std::uint64_t key = (std::uint64_t{state} << 32) | depth;
  if (const auto known = lowered_.find(key); known != lowered_.end()) return known->second;
  const auto all = states_[state].frames;  // do not move
  const bool complete = states_[state].complete, leaves = states_[state].leaves;
  std::vector<Frame> kept;
  for (const Frame& frame : all) {
    const State caller = depth == 0 ? State{dead} : within(frame.caller, depth - 1);
    if (caller != dead) kept.push_back({frame.at, caller});
  }
  const State result =
      kept.empty() && !complete && !leaves ? State{dead} : unite_all(std::move(kept), complete, leaves);
  return lowered_[key] = result;
}

bool Automaton::meets_depth(State state) {
  met_depth_ = false;
  (void)reads(state);
  return met_depth_;
}

// Every byte that can come, with the frame it leads to. Rules that open here are entered, wave by wave.
std::vector<Automaton::Read> Automaton::reads(State state) {
  std::vector<Read> found;
  std::vector<Frame> wave(states_[state].frames.begin(), states_[state].frames.end()), next_wave;
  std::set<std::pair<Expression, State>> entered;
  while (!wave.empty()) {
    for (const Frame& frame : wave) {
      const Steps steps = store_.steps(frame.at);
      for (const Step& step : steps.bytes) found.push_back({step.on, {step.to, frame.caller}});
      for (const Opening& opening : steps.calls) {
        const Expression body = store_.sources().rule_body(opening.rule);
        const State caller =
            open(opening.rest == ExpressionStore::empty ? frame.caller : closure({{opening.rest, frame.caller}}));
        if (caller == dead || body == ExpressionStore::nothing) continue;
        if (entered.emplace(body, caller).second) next_wave.push_back({body, caller});
        if (entered.size() > limits_.frames) exhausted_ = true;
      }
      if (exhausted()) return {};
    }
    wave.swap(next_wave);
    next_wave.clear();
  }
  return found;
}

std::uint32_t Automaton::map_number(const std::array<std::uint8_t, 256>& branch) {
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < branch.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, branch.data() + i, 8);
    hash = mix(hash, word);
  }
  auto& numbers = map_numbers_[hash];
  for (const std::uint32_t number : numbers) {
    if (maps_[number].branch == branch) return number;
  }
  ByteMap& map = maps_.emplace_back();
  map.branch = branch;
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (branch[byte] == kNone) continue;
    if (map.size < ByteMap::kFew) map.few[map.size] = static_cast<unsigned char>(byte);
    ++map.size;
  }
  numbers.push_back(static_cast<std::uint32_t>(maps_.size() - 1));
  return numbers.back();
}

void Automaton::finish(State state, std::uint32_t map, std::span<const State> targets) {
  Entry& entry = states_[state];
  entry.targets = target_pool_.add(targets).data();
  entry.target_count = static_cast<std::uint16_t>(targets.size());
  entry.map = map;
}

// One frame that opens no rule: its steps are disjoint already, and which bytes they have is known for the expression.
bool Automaton::expand_single(State state) {
  if (states_[state].frames.size() != 1) return false;
  const Frame frame = states_[state].frames[0];
  const Steps steps = store_.steps(frame.at);
  if (!steps.calls.empty() || steps.bytes.size() >= kNone) return false;
  targets_.clear();
  for (const Step& step : steps.bytes) {
    targets_.push_back(single({step.to, frame.caller}));
    if (targets_.back() == dead) return false;
  }
  const auto [known, fresh] = step_maps_.try_emplace(frame.at, 0);
  if (fresh) {
    std::array<std::uint8_t, 256> branch;
    branch.fill(kNone);
    for (std::size_t i = 0; i < steps.bytes.size(); ++i) {
      steps.bytes[i].on.each([&](unsigned byte) { branch[byte] = static_cast<std::uint8_t>(i); });
    }
    known->second = map_number(branch);
  }
  finish(state, known->second, targets_);
  return true;
}

void Automaton::expand(State state) {
  if (expand_single(state)) return;
  const std::vector<Read> all = reads(state);
  struct Group {
    ByteSet on;
    std::vector<Frame> to;
  };
  std::vector<Group> groups;
  for (const Read& read : all) {
    ByteSet left = read.on;
    for (std::size_t i = 0, count = groups.size(); i < count && !left.empty(); ++i) {
      const ByteSet common = groups[i].on & left;
      if (common.empty()) continue;
      left = left - common;
      if (common == groups[i].on) {
        groups[i].to.push_back(read.to);
        continue;
      }
      groups[i].on = groups[i].on - common;
      Group split{common, groups[i].to};
      split.to.push_back(read.to);
      groups.push_back(std::move(split));
    }
    if (!left.empty()) groups.push_back({left, {read.to}});
  }
  std::array<std::uint8_t, 256> map;
  map.fill(kNone);
  std::vector<State> targets;
  for (Group& group : groups) {
    const State target = closure(std::move(group.to));
    if (target == dead) continue;
    const auto branch = static_cast<std::uint8_t>(targets.size());
    group.on.each([&](unsigned byte) { map[byte] = branch; });
    targets.push_back(target);
  }
  finish(state, map_number(map), targets);
}

std::vector<Automaton::Branch> Automaton::branches(State state) {
  if (states_[state].map == kUnexpanded) expand(state);
  const Entry& entry = states_[state];
  std::vector<Branch> all(entry.target_count);
  for (std::size_t i = 0; i < all.size(); ++i) all[i].to = entry.targets[i];
  for (unsigned byte = 0; byte < 256; ++byte) {
    const std::uint8_t branch = maps_[entry.map].branch[byte];
    if (branch != kNone) all[branch].on.add(byte);
  }
  return all;
}

}  // namespace espalier::grammar
