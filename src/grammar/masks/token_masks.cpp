#include "grammar/masks/token_masks.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "grammar/automaton/hashing.h"

namespace espalier::grammar {
namespace {

using Node = TokenTrie::Node;

constexpr std::size_t kFuel = 20'000;  // expressions at places; a walk along states costs more than this rarely
constexpr int kMostNesting = 200;      // of expressions inside one another
constexpr int kFewBytes = 4;           // of a set that are followed one by one
constexpr std::size_t kPartWalk = 20;  // fuel for reading a part of the vocabulary by states
constexpr std::size_t kKnownParts = 512;
constexpr std::size_t kLeastKept = 16, kMostKept = 4096;  // tokens of a known part

}  // namespace

TokenMasks::TokenMasks(Automaton& automaton, std::shared_ptr<Vocabulary> vocabulary)
    : automaton_(automaton),
      store_(automaton.store()),
      vocabulary_(std::move(vocabulary)),
      walk_(automaton, vocabulary_),
      words_(automaton, vocabulary_, walk_) {}

std::size_t TokenMasks::memory() const {
  return words_.count() * vocabulary_->words() * sizeof(MaskWords::value_type) + walk_.memory();
}

// A token may come when one of the alternatives can read it; what several can read is found several times, so where
// the alternatives are too many or too much alike all is found along the states, which take them together.
void TokenMasks::fill(State state, MaskWords& mask) {
  mask.assign(vocabulary_->words(), 0);
  mask_ = &mask;
  fuel_ = kFuel;
  const auto frames = automaton_.frames(state);  // do not move
  const Place top = top_of(vocabulary_->trie());
  for (const Frame& frame : frames) follow(top, frame.at, {nullptr, frame.caller, false});
  if (fuel_ == 0) deferred_.assign(1, {ExpressionStore::empty, state});
  if (deferred_.empty()) return;
  const std::vector<Frame> left = std::exchange(deferred_, {});
  if (left.size() == 1 && left[0].caller == Automaton::outside && !store_.calls(left[0].at))
    unite(mask, words_.of_whole(left[0].at)->inside);
  else
    walk_.every(automaton_.some(left), mask, nullptr);
}

TokenMasks::Place TokenMasks::top_of(const TokenTrie& trie) {
  return {&trie, {trie.children(trie.whole()), trie.children(trie.pieces())}, true};
}

// Behind one more byte; sets the tokens that end there.
TokenMasks::Place TokenMasks::descend(const Place& place, unsigned char byte) {
  Place below{place.trie, {}, false};
  for (std::size_t i = 0; i < place.parts.size(); ++i) {
    const std::size_t child = place.parts[i].find(byte);
    if (child == place.parts[i].bytes.size()) continue;
    const Node node = place.parts[i].nodes[child];
    set_bits(*mask_, place.trie->tokens_at(node));
    if (place.trie->has_children(node)) below.parts[i] = place.trie->children(node);
  }
  return below;
}

// Sets the tokens that go on from `place` with what `at` can read, and then what stands behind it.
void TokenMasks::follow(const Place& place, Expression at, Behind behind) {
  if (place.empty() || fuel_ == 0 || store_.exhausted() || !store_.possible(at)) return;
  if (nesting_ == kMostNesting) fuel_ = 1;
  if (--fuel_ == 0) return;
  ++nesting_;
  switch (store_.op(at)) {
    case Op::nothing:
      break;
    case Op::empty:
      follow_after(place, behind);
      break;
    case Op::bytes:
      follow_bytes(place, at, behind);
      break;
    case Op::literal:
      follow_literal(place, at, behind);
      break;
    case Op::concat: {
      const Rest rest{store_.rest(at), behind.rest};
      behind.rest = &rest;
      if (store_.possible(rest.at)) follow(place, store_.operand(at), behind);
      break;
    }
    case Op::either:
      follow_either(place, at, behind);
      break;
    case Op::repeat:
      follow_repeat(place, at, behind);
      break;
    case Op::call:
      follow_call(place, store_.operand(at), behind);
      break;
    case Op::lexeme:
      follow_lexeme(place, at, behind);
      break;
    case Op::later:
      follow(place, store_.expanded(at), behind);
      break;
    case Op::both:
    case Op::negation:
      follow_states(place, at, behind);
      break;
  }
  --nesting_;
}

void TokenMasks::follow_after(const Place& place, Behind behind) {
  if (behind.rest != nullptr) {
    const Expression at = behind.rest->at;
    behind.rest = behind.rest->next;
    return follow(place, at, behind);
  }
  if (!behind.moved) return;  // the callers of frames that may end at once are among the frames
  const auto frames = automaton_.frames(behind.caller);
  for (const Frame& frame : frames) follow(place, frame.at, {nullptr, frame.caller, false});
}

void TokenMasks::follow_bytes(const Place& place, Expression at, Behind behind) {
  const ByteSet set = store_.set(at);
  if (set.size() > kFewBytes) return follow_states(place, at, behind);
  behind.moved = true;
  set.each([&](unsigned byte) { follow_after(descend(place, static_cast<unsigned char>(byte)), behind); });
}

void TokenMasks::follow_literal(const Place& place, Expression at, Behind behind) {
  Place below = place;
  for (const char byte : store_.literal(at)) {
    below = descend(below, static_cast<unsigned char>(byte));
    if (below.empty()) return;
  }
  behind.moved = true;
  follow_after(below, behind);
}

// Whether an alternative is worth being followed apart from the others.
bool TokenMasks::follows_by_itself(Expression at) const {
  const Expression head = store_.op(at) == Op::concat ? store_.operand(at) : at;
  const Op op = store_.op(head);
  if (op == Op::bytes) return store_.set(head).size() <= kFewBytes;
  return op == Op::literal || op == Op::lexeme || op == Op::later || op == Op::call || op == Op::empty ||
         op == Op::either;
}

void TokenMasks::follow_either(const Place& place, Expression at, Behind behind) {
  std::vector<Expression> others;
  const auto parts = store_.parts(at);
  for (const Expression part : parts) {
    if (follows_by_itself(part))
      follow(place, part, behind);
    else
      others.push_back(part);
  }
  if (others.size() == 1) return follow(place, others[0], behind);
  if (!others.empty()) follow_states(place, store_.either(std::move(others)), behind);
}

// Without an item, and with at least one.
void TokenMasks::follow_repeat(const Place& place, Expression at, Behind behind) {
  const Expression item = store_.operand(at);
  const std::uint32_t low = store_.low(at), high = store_.high(at);
  if (low == 0) follow_after(place, behind);
  if (high == 1) return follow(place, item, behind);
  if (!store_.calls(item) && !store_.nullable(item))
    return follow_states(place, low == 0 ? store_.repeat(item, 1, high) : at, behind);
  const Rest more{store_.repeat(item, low == 0 ? 0 : low - 1, high == ExpressionStore::unbounded ? high : high - 1),
                  behind.rest};
  behind.rest = &more;
  follow(place, item, behind);
}

// As the automaton does: what stands behind the call becomes its caller.
void TokenMasks::follow_call(const Place& place, Rule rule, Behind behind) {
  const Expression body = store_.sources().rule_body(rule);
  const State caller =
      automaton_.open(behind.rest == nullptr ? behind.caller : start(frame_of(ExpressionStore::empty, behind)));
  if (caller != Automaton::dead) follow(place, body, {nullptr, caller, false});
}

void TokenMasks::follow_lexeme(const Place& place, Expression at, Behind behind) {
  if (store_.nullable(at)) follow_after(place, behind);
  behind.moved = true;
  if (is_top(place)) {
    const auto tokens = words_.of_lexeme(at);
    unite(*mask_, tokens->inside);
    if (tokens->behind != nullptr) return follow_after(top_of(*tokens->behind), behind);
    const TokenTrie& trie = vocabulary_->trie();
    for (const Node leaf : tokens->leaves) follow_after({&trie, {trie.children(leaf), {}}, false}, behind);
    return;
  }
  if (!spend(kPartWalk)) return;
  const auto part = part_tokens(place, store_.operand(at));
  set_bits(*mask_, part->inside);
  for (const Node leaf : part->leaves) follow_after({place.trie, {place.trie->children(leaf), {}}, false}, behind);
}

// The same words follow the same words in most states of a grammar. A limit that is met leaves tries that nobody keeps,
// so nothing is looked up any more.
std::shared_ptr<const TokenMasks::PartTokens> TokenMasks::part_tokens(const Place& place, Expression word) {
  if (automaton_.exhausted()) return std::make_shared<PartTokens>();
  const auto nodes = [](const TokenTrie::Children& children) {
    return children.bytes.empty() ? nullptr : children.nodes;
  };
  const PartPlace part{nodes(place.parts[0]), nodes(place.parts[1]), word};
  if (parts_.empty()) parts_.resize(kKnownParts);
  KnownPart& known = parts_[part.hash() % kKnownParts];
  if (known.tokens != nullptr && known.at == part) return known.tokens;
  auto tokens = std::make_shared<PartTokens>();
  const State from = automaton_.start(word, Automaton::unknown);
  for (const auto& children : place.parts) {
    walk_.visit(*place.trie, children, from, [&](Node node, State state) {
      const auto at = place.trie->tokens_at(node);
      tokens->inside.insert(tokens->inside.end(), at.begin(), at.end());
      if (place.trie->has_children(node) && automaton_.leaves(state)) tokens->leaves.push_back(node);
    });
  }
  const std::size_t size = tokens->inside.size();
  if (size >= kLeastKept && size <= kMostKept) known = {part, tokens};
  return tokens;
}

std::uint64_t TokenMasks::PartPlace::hash() const {
  const auto address = [](const Node* nodes) {
    return static_cast<std::uint64_t>(std::bit_cast<std::uintptr_t>(nodes));
  };
  return mix(mix(address(whole), address(pieces)), word);
}

bool TokenMasks::spend(std::size_t fuel) {
  fuel_ -= std::min(fuel, fuel_);
  return fuel_ > 0;
}

Frame TokenMasks::frame_of(Expression at, Behind behind) {
  std::vector<Expression> parts{at};
  for (const Rest* rest = behind.rest; rest != nullptr; rest = rest->next) parts.push_back(rest->at);
  Expression whole = ExpressionStore::empty;
  for (; !parts.empty(); parts.pop_back()) whole = store_.concat(parts.back(), whole);
  return {whole, behind.caller};
}

// At the top what is left to the states is read by one walk for all of it.
void TokenMasks::follow_states(const Place& place, Expression at, Behind behind) {
  if (is_top(place)) return deferred_.push_back(frame_of(at, behind));
  if (!spend(kPartWalk)) return;
  const State from = start(frame_of(at, behind));
  if (from == Automaton::dead) return;
  walk_.whole(*place.trie, place.parts[0], from, *mask_, nullptr);
  walk_.all(*place.trie, place.parts[1], from, *mask_, nullptr);
}

}  // namespace espalier::grammar
