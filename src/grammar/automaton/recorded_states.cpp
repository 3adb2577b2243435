#include "grammar/automaton/recorded_states.h"

#include <algorithm>

#include "grammar/automaton/text_count.h"

namespace espalier::grammar {

std::size_t RecordedStates::memory() const {
  return natures_.capacity() * sizeof(Nature) + recorded_.capacity() * sizeof(Recorded) + numbers_.size() * 40 +
         letters_.capacity() * sizeof(Letter) + texts_.size() * 40 + crossing_.size() * 64;
}

// Whether a rule is being read that an awaiting expression stands behind, and whether one has just been read.
RecordedStates::Nature RecordedStates::nature(State state) {
  if (state >= natures_.size()) natures_.resize(std::max<std::size_t>(automaton_.size(), state + 1));
  if (natures_[state].known) return natures_[state];
  Nature found{.known = true};
  for (const Frame& frame : automaton_.frames(state)) {
    found.awaits = found.awaits || automaton_.store().awaits(frame.at);
    found.few = found.few || automaton_.store().awaits_few(frame.at);
    if (frame.caller == Automaton::outside || frame.caller == Automaton::unknown) continue;
    const Nature behind = nature(frame.caller);
    found.records = found.records || behind.records || behind.awaits;
  }
  return natures_[state] = found;
}

State RecordedStates::read_recorded(State from, unsigned char byte) {
  const State before = plain(from);
  const State to = automaton_.next(before, byte);
  const Nature after = nature(to);
  if (to == Automaton::dead || (!after.records && !after.awaits)) return to;
  const bool goes_on = nature(before).records;
  if (goes_on && !is_recorded(from)) return to;  // nobody knows how the text began
  const Text text = longer(goes_on ? recorded_[from - kRecorded].text : Text{0}, byte);
  const State resolved = after.awaits ? resolve(to, text) : to;
  if (resolved == Automaton::dead || !nature(resolved).records) return resolved;
  return numbered(resolved, text);
}

// What awaits the text is given it.
State RecordedStates::resolve(State state, Text text) {
  const std::vector<Frame> frames(automaton_.frames(state).begin(), automaton_.frames(state).end());
  const std::string words = written(text);
  std::vector<Frame> others;
  State recalled = Automaton::dead;
  for (const Frame& frame : frames) {
    if (automaton_.store().awaits(frame.at)) {
      const State next = automaton_.start(automaton_.store().recalled(frame.at, words), frame.caller);
      recalled = automaton_.unite(recalled, next);
    } else {
      others.push_back(frame);
    }
  }
  const State rest = automaton_.only(state, std::move(others));
  const bool none = automaton_.is_empty(rest) && !automaton_.complete(rest) && !automaton_.leaves(rest);
  return automaton_.unite(none ? State{Automaton::dead} : rest, recalled);
}

State RecordedStates::numbered(State state, Text text) {
  const auto [known, fresh] = numbers_.try_emplace((std::uint64_t{state} << 32) | text, State{0});
  if (!fresh) return known->second;
  if (recorded_.size() >= most_) {
    exhausted_ = true;
    return Automaton::dead;
  }
  recorded_.push_back({state, text});
  return known->second = kRecorded + static_cast<State>(recorded_.size() - 1);
}

RecordedStates::Text RecordedStates::longer(Text text, unsigned char byte) {
  const auto [known, fresh] = texts_.try_emplace((std::uint64_t{text} << 8) | byte, static_cast<Text>(letters_.size()));
  if (fresh) letters_.push_back({text, byte});
  return known->second;
}

std::string RecordedStates::written(Text text) const {
  std::string words;
  for (; text != 0; text = letters_[text].before) words.push_back(static_cast<char>(letters_[text].byte));
  std::ranges::reverse(words);
  return words;
}

// Whether a word that has begun can end in more ways than one, so that one text less leaves another.
bool RecordedStates::has_ways(State state) {
  ExpressionStore& store = automaton_.store();
  const auto frames = automaton_.frames(state);
  return std::ranges::any_of(std::vector<Frame>(frames.begin(), frames.end()), [&](const Frame& frame) {
    return !store.calls(frame.at) && TextCount(store, 2).of(frame.at) == 2;
  });
}

// Whether a token that can be read can only be read behind some texts: a word ends in it and, as nothing is said of its
// text, another ends too, or has begun and can end in one way only, or, where texts are few, anything follows.
bool RecordedStates::depends_on_text(State state, std::string_view token) {
  bool ended = false, of_few = false;
  Nature here;
  for (const char byte : token) {
    if (of_few) return true;
    state = automaton_.next(state, static_cast<unsigned char>(byte));
    here = nature(state);
    if (ended && here.awaits) return true;
    ended = ended || here.awaits;
    of_few = of_few || here.few;
  }
  return ended && here.records && !here.awaits && !has_ways(state);
}

// What follows words in lists begins with a comma.
const std::vector<TokenId>& RecordedStates::crossing(State from, const Vocabulary& vocabulary, const MaskWords& mask) {
  const auto [known, fresh] = crossing_.try_emplace(from);
  if (!fresh) return known->second;
  std::vector<TokenId> found;
  for (const TokenId token : vocabulary.with_comma_behind_value()) {
    const auto id = static_cast<std::uint32_t>(token);
    const bool allowed = ((mask[id / 32] >> (id % 32)) & 1) != 0;
    if (allowed && depends_on_text(from, vocabulary.text(token))) found.push_back(token);
  }
  return crossing_[from] = std::move(found);
}

std::vector<TokenId> RecordedStates::refused(State from, const Vocabulary& vocabulary, const MaskWords& mask) {
  std::vector<TokenId> wrong;
  if (!automaton_.store().sources().records()) return wrong;
  for (const TokenId token : std::vector<TokenId>(crossing(plain(from), vocabulary, mask))) {
    State state = from;
    for (const char byte : vocabulary.text(token)) {
      if (state != Automaton::dead) state = read(state, static_cast<unsigned char>(byte));
    }
    if (state == Automaton::dead) wrong.push_back(token);
  }
  return wrong;
}

}  // namespace espalier::grammar
