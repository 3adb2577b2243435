#include "grammar/masks/trie_walk.h"

#include <algorithm>

namespace espalier::grammar {

using Node = TokenTrie::Node;

namespace {

constexpr std::uint32_t kWorthALoop = 48;  // nodes of a subtree for which a loop is looked for
constexpr std::size_t kWorthAMask = 1024;  // tokens with the same first byte
constexpr int kManyFirstBytes = 8;         // whose tokens are worth being found together

// Most first bytes have few tokens: a mask of their own, for each of 200 of them, would cost more than it saves.
void set_made_of_behind(Vocabulary& vocabulary, Node first, Classes classes, MaskWords& mask) {
  const TokenTrie& trie = vocabulary.trie();
  const auto tokens = trie.tokens_in(first);
  if (tokens.size() > kWorthAMask) return unite(mask, *vocabulary.made_of_after(first, classes));
  auto place = static_cast<std::uint32_t>(tokens.data() - trie.ids().data());
  for (const TokenId token : tokens) {
    const auto id = static_cast<std::uint32_t>(token);
    mask[id / 32] |= std::uint32_t{(trie.classes_after_first(place++) & ~classes) == 0} << (id % 32);
  }
}

}  // namespace

TrieWalk::TrieWalk(Automaton& automaton, std::shared_ptr<Vocabulary> vocabulary)
    : automaton_(automaton),
      vocabulary_(std::move(vocabulary)),
      loops_(automaton, static_cast<std::uint32_t>(vocabulary_->trie().depth_limit())) {
  levels_.resize(vocabulary_->trie().depth_limit() + 2);
}

bool TrieLevel::advance(std::size_t& place) {
  const std::size_t count = children.bytes.size();
  if (row.is_narrow()) {
    const auto bytes = row.bytes();
    while (next < bytes.size()) {
      place = children.find(bytes[next++]);
      if (place < count) return true;
    }
    return false;
  }
  while (next < count) {
    place = next++;
    if (row.next(children.bytes[place]) != Automaton::dead) return true;
  }
  return false;
}

void TrieWalk::every(State from, MaskWords& mask, std::vector<Node>* leaves) {
  const TokenTrie& trie = vocabulary_->trie();
  whole(trie, trie.children(trie.whole()), from, mask, leaves);
  all(trie, trie.children(trie.pieces()), from, mask, leaves);
}

void TrieWalk::all(const TokenTrie& trie, TokenTrie::Children top, State from, MaskWords& mask,
                   std::vector<Node>* leaves) {
  visit(trie, top, from, [&](Node node, State state) {
    set_bits(mask, trie.tokens_at(node));
    if (leaves != nullptr && trie.has_children(node) && automaton_.leaves(state)) leaves->push_back(node);
  });
}

// The same over tokens of whole characters, passing over what a loop has settled.
void TrieWalk::whole(const TokenTrie& trie, TokenTrie::Children top, State from, MaskWords& mask,
                     std::vector<Node>* leaves) {
  if (top.bytes.empty()) return;
  std::size_t depth = 0;
  levels_[0] = {top, 0, automaton_.row(from), {}};
  const bool all_tokens = top.nodes == vocabulary_->trie().children(vocabulary_->trie().whole()).nodes;
  if (const StateLoop* around = all_tokens ? &loops_.of(from) : nullptr; around != nullptr && around->family != 0) {
    unite(mask, *vocabulary_->made_of(around->inside, around->characters));
    levels_[0].around = around;
  }
  const Classes known = all_tokens && levels_[0].around == nullptr ? set_loops_after(top, from, mask) : 0;
  for (;;) {
    const TrieLevel& level = levels_[depth];
    std::size_t place = 0;
    if (!levels_[depth].advance(place)) {
      if (depth-- == 0) return;
      continue;
    }
    const unsigned char byte = level.children.bytes[place];
    const Classes its = class_of(byte);
    const Classes below = level.children.below[place];
    // In the loop all tokens are set but those with a byte that leaves it.
    if (level.around != nullptr && ((below | its) & level.around->leaving) == 0) continue;
    const State state = level.row.next(byte);
    const Node node = level.children.nodes[place];
    const bool boundary = trie.between_characters(node);
    // Behind a byte of another class the tokens are not set, even where the text has come back to the loop.
    const StateLoop* around = level.around != nullptr && (its & level.around->inside) != 0 ? level.around : nullptr;
    if (around != nullptr && boundary && !around->closed && loops_.of(state).family != around->family) around = nullptr;
    Classes loops = 0;
    if (around == nullptr && boundary && depth == 0 && all_tokens) {
      if (loops_.is_endless(loops_.of(state))) {
        around = &loops_.of(state);
        if (around->inside != known || (its & known) == 0) set_made_of_behind(*vocabulary_, node, around->inside, mask);
      }
    } else if (around == nullptr && boundary) {
      loops = (its & level.loops) != 0 ? level.loops : 0;
      if (loops == 0 && trie.end(node) - node > kWorthALoop) loops = loops_.unbounded(state);
      if (loops != 0 && (below & ~loops) == 0) {
        set_bits(mask, trie.tokens_in(node));
        continue;
      }
    }
    set_bits(mask, trie.tokens_at(node));
    if (!trie.has_children(node)) continue;
    if (leaves != nullptr && automaton_.leaves(state)) leaves->push_back(node);
    levels_[++depth] = {trie.children(node), 0, automaton_.row(state), {}, around, loops};
  }
}

// Most first bytes lead to states that the same classes loop in. Sets all tokens that begin with one of these classes
// and are made of them, at once; returns the classes. 0: nothing has been set.
Classes TrieWalk::set_loops_after(TokenTrie::Children top, State from, MaskWords& mask) {
  const TokenTrie& trie = vocabulary_->trie();
  const Automaton::Row row = automaton_.row(from);
  std::vector<Classes> loops(top.bytes.size());  // by place
  std::vector<std::pair<Classes, int>> found;
  for (std::size_t place = 0; place < loops.size(); ++place) {
    const State state = row.next(top.bytes[place]);
    if (state == Automaton::dead || !trie.between_characters(top.nodes[place])) continue;
    const Classes inside = loops_.unbounded(state);
    if ((inside & class_of(top.bytes[place])) == 0) continue;
    loops[place] = inside;
    const auto same = std::ranges::find(found, inside, &std::pair<Classes, int>::first);
    if (same == found.end())
      found.emplace_back(inside, 1);
    else
      ++same->second;
  }
  const auto most = std::ranges::max_element(found, {}, &std::pair<Classes, int>::second);
  if (most == found.end() || most->second < kManyFirstBytes) return 0;
  const Classes inside = most->first;
  MaskWords tokens = *vocabulary_->made_of(inside, ExpressionStore::unbounded);
  for (std::size_t place = 0; place < loops.size(); ++place) {
    const bool begins_others = (class_of(top.bytes[place]) & inside) != 0 && loops[place] != inside;
    if (begins_others) clear_bits(tokens, trie.tokens_in(top.nodes[place]));
  }
  unite(mask, tokens);
  return inside;
}

}  // namespace espalier::grammar
