#include "grammar/masks/counted_text.h"

#include <algorithm>
#include <functional>

namespace espalier::grammar {
namespace {

using Node = TokenTrie::Node;

constexpr std::size_t kLongerMasks = 24;  // bounds for which the tokens of more items are one mask

struct Level {  // of the walk: the children of one node
  TokenTrie::Children children;
  std::size_t next = 0;
  State item = Automaton::dead;  // where in an item; dead: in the tail
  State tail = Automaton::dead;
  std::uint16_t items = 0;
};

ByteSet first_bytes(ExpressionStore& store, Expression e) {
  ByteSet all;
  for (const Step& step : store.steps(e).bytes) all = all | step.on;
  return all;
}

}  // namespace

std::optional<CountedText> CountedText::of(const ExpressionStore& store, Expression e) {
  if (store.op(e) != Op::concat || store.op(store.operand(e)) != Op::repeat) return std::nullopt;
  const Expression counter = store.operand(e);
  CountedText text{store.operand(counter), store.rest(e), store.low(counter), store.high(counter)};
  if (text.low == 0 && text.high == ExpressionStore::unbounded) return std::nullopt;
  if (store.nullable(text.item) || store.nullable(text.tail)) return std::nullopt;
  return text;
}

std::shared_ptr<const CountedTokens> CountedTokens::make(Automaton& automaton, const CountedText& text,
                                                         const Vocabulary& vocabulary,
                                                         std::shared_ptr<const LexemeTokens> unbounded) {
  ExpressionStore& store = automaton.store();
  if (!(first_bytes(store, text.item) & first_bytes(store, text.tail)).empty()) return nullptr;
  auto counted = std::make_shared<CountedTokens>();
  counted->unbounded_ = std::move(unbounded);
  const TokenTrie& trie = vocabulary.trie();
  const State item = automaton.start(text.item, Automaton::unknown);
  const State tail = automaton.start(text.tail, Automaton::unknown);
  std::vector<Level> levels;
  for (const TokenTrie::Part* part : {&trie.whole(), &trie.pieces()}) {
    levels.push_back({trie.children(*part), 0, item, tail, 0});
    while (!levels.empty()) {
      Level& level = levels.back();
      if (level.next == level.children.bytes.size()) {
        levels.pop_back();
        continue;
      }
      const std::size_t place = level.next++;
      const unsigned char byte = level.children.bytes[place];
      const Node node = level.children.nodes[place];
      Level below = level;
      const bool between = level.item == item;
      below.item = level.item == Automaton::dead ? level.item : automaton.next(level.item, byte);
      if (below.item != Automaton::dead) {
        below.items = static_cast<std::uint16_t>(level.items + between);
        if (automaton.leaves(below.item)) {
          if (below.item != Automaton::unknown) return nullptr;  // it may end here and go on
          below.item = item;
        }
      } else {
        const bool in_tail = level.item == Automaton::dead;
        below.tail = between || in_tail ? automaton.next(level.tail, byte) : State{Automaton::dead};
        if (below.tail == Automaton::dead) continue;
      }
      const bool in_tail = below.item == Automaton::dead;
      counted->add(below.items, in_tail, trie.tokens_at(node));
      if (!trie.has_children(node)) continue;
      if (in_tail && automaton.leaves(below.tail)) counted->leaves_.emplace_back(below.items, node);
      below.children = trie.children(node);
      below.next = 0;
      levels.push_back(below);
    }
  }
  if (automaton.exhausted()) return nullptr;
  counted->finish(vocabulary.words());
  return counted;
}

void CountedTokens::add(std::uint16_t items, bool in_tail, std::span<const TokenId> tokens) {
  for (const TokenId token : tokens) {
    items_.emplace_back(items, static_cast<std::uint32_t>(token));
    if (in_tail) before_tail_.push_back(items_.back());
  }
}

void CountedTokens::finish(std::size_t words) {
  longer_.assign(kLongerMasks, MaskWords(words));
  for (const auto& [items, token] : items_) {
    most_items_ = std::max<std::uint32_t>(most_items_, items);
    if (items > kLongerMasks) long_tokens_.emplace_back(items, token);
    for (std::size_t n = 0; n < std::min<std::size_t>(items, kLongerMasks); ++n)
      longer_[n][token / 32] |= 1u << (token % 32);
  }
  items_ = {};
  std::ranges::sort(long_tokens_, std::greater());
  std::ranges::sort(before_tail_);
  std::ranges::sort(leaves_, {}, &Counted::second);
  if (!before_tail_.empty()) most_before_tail_ = before_tail_.back().first;
  for (const auto& [items, node] : leaves_) most_before_tail_ = std::max<std::uint32_t>(most_before_tail_, items);
}

LexemeTokens CountedTokens::within(std::uint32_t low, std::uint32_t high) const {
  LexemeTokens tokens;
  tokens.inside = unbounded_->inside;
  const auto clear = [&](std::uint32_t token) { tokens.inside[token / 32] &= ~(1u << (token % 32)); };
  if (high < longer_.size()) {
    for (std::size_t i = 0; i < tokens.inside.size(); ++i) tokens.inside[i] &= ~longer_[high][i];
  } else {
    for (auto it = long_tokens_.begin(); it != long_tokens_.end() && it->first > high; ++it) clear(it->second);
  }
  for (auto it = before_tail_.begin(); it != before_tail_.end() && it->first < low; ++it) clear(it->second);
  for (const auto& [items, node] : leaves_) {
    if (items >= low && items <= high) tokens.leaves.push_back(node);
  }
  return tokens;
}

}  // namespace espalier::grammar
