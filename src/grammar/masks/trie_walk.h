// trie_walk.h: a trie of tokens read along an automaton's states.
//
// Where states loop over classes of bytes (state_loops.h), tokens made of these classes are known beforehand, and only
// subtrees with a byte that may leave the loop are visited.
// Threads: as the automaton. Fails: never; an exhausted automaton leads to fewer tokens.
#pragma once

#include <memory>
#include <vector>

#include "grammar/automaton/automaton.h"
#include "grammar/masks/state_loops.h"
#include "grammar/masks/vocabulary.h"

namespace espalier::grammar {

// Of a walk: the children of one node, of which some have been visited.
struct TrieLevel {
  TokenTrie::Children children;
  std::size_t next = 0;       // among the children; of a narrow row among its bytes
  Automaton::Row row, other;  // `other`: of a text that is read beside
  // The next child that the row leads to; false when there is none.
  bool advance(std::size_t& place);
  const StateLoop* around = nullptr;  // whose tokens are all set already
  Classes loops = 0;                  // of which any characters lead back to where the level is
};

// Sets the bits of tokens that can be read from a state on. `leaves`, where given, gets the nodes at which the text may
// end while tokens go on.
class TrieWalk {
 public:
  TrieWalk(Automaton& automaton, std::shared_ptr<Vocabulary> vocabulary);

  void every(State from, MaskWords& mask, std::vector<TokenTrie::Node>* leaves);  // token of the vocabulary
  // Those below some children in a trie of whole characters; and in any.
  void whole(const TokenTrie& trie, TokenTrie::Children top, State from, MaskWords& mask,
             std::vector<TokenTrie::Node>* leaves);
  void all(const TokenTrie& trie, TokenTrie::Children top, State from, MaskWords& mask,
           std::vector<TokenTrie::Node>* leaves);
  template <class Visit>
  void visit(const TokenTrie& trie, TokenTrie::Children top, State from, Visit visit);
  StateLoops& loops() { return loops_; }
  std::size_t memory() const { return loops_.memory(); }  // bytes, about

 private:
  Classes set_loops_after(TokenTrie::Children top, State from, MaskWords& mask);

  Automaton& automaton_;
  std::shared_ptr<Vocabulary> vocabulary_;
  StateLoops loops_;
  std::vector<TrieLevel> levels_;  // by depth
};

// Every node that can be reached, with the state behind it.
template <class Visit>
void TrieWalk::visit(const TokenTrie& trie, TokenTrie::Children top, State from, Visit visit) {
  if (top.bytes.empty()) return;
  std::size_t depth = 0;
  levels_[0].children = top;
  levels_[0].next = 0;
  levels_[0].row = automaton_.row(from);
  for (;;) {
    TrieLevel& level = levels_[depth];
    std::size_t place = 0;
    if (!level.advance(place)) {
      if (depth-- == 0) return;
      continue;
    }
    const State state = level.row.next(level.children.bytes[place]);
    const TokenTrie::Node node = level.children.nodes[place];
    visit(node, state);
    if (!trie.has_children(node)) continue;
    TrieLevel& below = levels_[++depth];
    below.children = trie.children(node);
    below.next = 0;
    below.row = automaton_.row(state);
  }
}

}  // namespace espalier::grammar
