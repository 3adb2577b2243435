// WordTokens: tokens of words that are nearly those of other words.
#include <algorithm>
#include <array>
#include <iterator>

#include "grammar/masks/word_tokens.h"

namespace espalier::grammar {

using Node = TokenTrie::Node;

namespace {

constexpr std::size_t kMostCounters = 16;         // that are told apart
constexpr std::size_t kMostComparedNodes = 4000;  // nodes; a walk of its own costs no more
constexpr std::uint32_t kSimilarityHolds = 8;     // bytes until it is worth being found anew

struct FollowingText {  // of a place where the similarity of two texts was found
  std::uint32_t bytes = 0, word_ends = 0;
  Classes classes = 0;

  FollowingText with(unsigned char byte) const {
    const Classes its = class_of(byte);
    return {bytes + 1, word_ends + ((its & kWordEnds) != 0), classes | its};
  }
  // With what may stand behind it: a node's texts, of these classes.
  bool goes_on_alike(const std::optional<FarBounds::Similarity>& similarity, const TokenTrie& trie, Node node,
                     Classes below) const {
    return similarity &&
           similarity->holds(bytes + trie.height(node), classes | below, word_ends + trie.word_ends(node));
  }
};

}  // namespace

// Bounds that hardly any token reaches go first, so that in texts of 300 characters and 30 words it is the words' few
// states that more tokens are read along.
std::shared_ptr<const LexemeTokens> WordTokens::find_loosened(Expression operand) {
  if (!walk_.loops().is_wide(start_of_word(operand))) return nullptr;
  for (FarBounds& bounds : far_bounds_) {
    if (const auto loose = bounds.loosened(operand)) return within_bounds(operand, *loose, bounds);
  }
  return nullptr;
}

// The tokens without bounds, less those that are counted out.
std::shared_ptr<const LexemeTokens> WordTokens::within_bounds(Expression operand, Expression loose, FarBounds& bounds) {
  auto all = tokens_of(loose);
  auto tokens = std::make_shared<LexemeTokens>(*all);
  const TokenTrie& trie = vocabulary_->trie();
  const State mine = start_of_word(operand);
  const State its = start_of_word(loose);
  std::vector<NodeRange> ended;
  refuse(trie.whole(), mine, its, bounds, *tokens, ended);
  refuse(trie.pieces(), mine, its, bounds, *tokens, ended);
  if (automaton_.exhausted()) return nullptr;
  if (ended.empty()) return all;
  const auto ends = [&](Node leaf) {
    return std::ranges::any_of(ended, [&](NodeRange range) { return range.first <= leaf && leaf < range.second; });
  };
  if (std::erase_if(tokens->leaves, ends) > 0) {
    tokens->behind = nullptr;
    merge_after(*tokens);
  }
  return tokens;
}

// Reads both side by side as long as a bound could make a difference. `ended`: where the text may no longer end. Few
// tokens are long, and each goes its own way: what its bytes lead to is all that is asked of the bounded states.
void WordTokens::refuse(const TokenTrie::Part& part, State bounded, State loose, FarBounds& bounds,
                        LexemeTokens& tokens, std::vector<NodeRange>& ended) {
  const TokenTrie& trie = vocabulary_->trie();
  struct Side {  // of a level
    State bounded, loose;
    std::optional<FarBounds::Similarity> similarity;
    std::size_t known;     // the level of which the similarity is the last one that was found
    FollowingText behind;  // what has been read since
  };
  std::vector<Side> sides{{bounded, loose, similarity(bounded, loose, bounds), 0, {}}};
  levels_[0] = {trie.children(part), 0, {}, automaton_.row(loose)};
  while (!sides.empty()) {
    const Side& side = sides.back();
    TrieLevel& level = levels_[sides.size() - 1];
    if (level.next == level.children.bytes.size()) {
      sides.pop_back();
      continue;
    }
    const std::size_t place = level.next++;
    const unsigned char byte = level.children.bytes[place];
    const Node node = level.children.nodes[place];
    const FollowingText behind = side.behind.with(byte);
    const State its = level.other.next(byte);
    if (its == Automaton::dead) continue;
    if (behind.goes_on_alike(sides[side.known].similarity, trie, node, level.children.below[place])) continue;
    const State mine = automaton_.next_once(side.bounded, byte);
    if (mine == its) continue;
    if (mine == Automaton::dead) {
      clear_bits(tokens.inside, trie.tokens_in(node));
      ended.emplace_back(node, trie.end(node));
      continue;
    }
    if (!trie.has_children(node)) continue;
    if (automaton_.leaves(its) && !automaton_.leaves(mine)) ended.emplace_back(node, node + 1);
    Side below{mine, its, {}, side.known, behind};
    if (behind.bytes >= kSimilarityHolds) below.similarity = similarity(mine, its, bounds);
    if (below.similarity) {
      below.known = sides.size();
      below.behind = {};
    }
    levels_[sides.size()] = {trie.children(node), 0, {}, automaton_.row(its)};
    sides.push_back(std::move(below));
  }
}

std::optional<FarBounds::Similarity> WordTokens::similarity(State bounded, State loose, FarBounds& bounds) {
  const auto mine = automaton_.frames(bounded), its = automaton_.frames(loose);
  if (mine.size() != 1 || its.size() != 1) return std::nullopt;
  return bounds.similarity(mine[0].at, its[0].at);
}

// Alternatives apart from one another, where that makes them simpler. Where a text may go on with anything that is
// allowed, whatever it goes on with besides makes no difference but where it ends: behind every letter of a name that
// may stand anywhere the former is the same, and the latter a short walk. Counters are told apart, of which states
// would remember every combination.
std::shared_ptr<const LexemeTokens> WordTokens::find_united(Expression operand) {
  const bool has_rest = store_.op(operand) == Op::concat;
  const Expression head = has_rest ? store_.operand(operand) : operand;
  const Expression rest = has_rest ? store_.rest(operand) : ExpressionStore::empty;
  if (store_.op(head) != Op::either || store_.calls(operand)) return nullptr;
  const auto is_character = [&](Expression part) {
    while (store_.op(part) == Op::concat && store_.op(store_.operand(part)) == Op::bytes) part = store_.rest(part);
    return store_.op(part) == Op::bytes;
  };
  if (std::ranges::all_of(store_.parts(head), is_character)) return nullptr;  // the bytes of one set
  std::vector<Expression> wide, narrow, counters, characters;
  for (const Expression part : store_.parts(head)) {
    if (is_character(part)) {
      characters.push_back(part);
      continue;
    }
    const Expression first = store_.op(part) == Op::concat ? store_.operand(part) : part;
    const bool is_counter = store_.op(first) == Op::repeat && store_.high(first) != ExpressionStore::unbounded;
    if (!walk_.loops().is_wide(start_of_word(store_.concat(part, rest))))
      narrow.push_back(part);
    else
      (is_counter ? counters : wide).push_back(part);
  }
  // One character of many is several alternatives, by how it is encoded: they stay together.
  auto& begun = wide.empty() ? narrow : wide;
  begun.insert(begun.end(), characters.begin(), characters.end());
  std::vector<Expression> groups;
  if (counters.size() > kMostCounters)
    wide.insert(wide.end(), counters.begin(), counters.end());
  else
    groups = std::move(counters);
  for (auto* group : {&wide, &narrow})
    if (!group->empty()) groups.push_back(store_.either(std::move(*group)));
  if (groups.size() < 2) return nullptr;
  std::vector<std::shared_ptr<const LexemeTokens>> found;
  for (const Expression group : groups) found.push_back(tokens_of(store_.concat(group, rest)));
  return automaton_.exhausted() ? nullptr : united(found);
}

std::shared_ptr<const LexemeTokens> WordTokens::united(std::span<const std::shared_ptr<const LexemeTokens>> found) {
  auto tokens = std::make_shared<LexemeTokens>();
  tokens->inside.assign(vocabulary_->words(), 0);
  for (const auto& of_group : found) {
    unite(tokens->inside, of_group->inside);
    std::vector<Node> leaves;
    std::ranges::set_union(tokens->leaves, of_group->leaves, std::back_inserter(leaves));
    tokens->leaves = std::move(leaves);
  }
  const auto has_all = [&](const auto& of_group) { return of_group->leaves.size() == tokens->leaves.size(); };
  const auto same = std::ranges::find_if(found, has_all);
  if (same != found.end())
    tokens->behind = (*same)->behind;
  else
    merge_after(*tokens);
  return tokens;
}

// False when they have little in common.
bool WordTokens::find_like(Expression operand, const LexemeTokens& like, Expression other, LexemeTokens& tokens) {
  tokens.inside = like.inside;
  const State mine = start_of_word(operand), its = start_of_word(other);
  std::vector<Node> more, fewer;
  compared_ = 0;
  if (!compare(vocabulary_->trie().whole(), mine, its, tokens, more, fewer)) return false;
  if (!compare(vocabulary_->trie().pieces(), mine, its, tokens, more, fewer)) return false;
  std::vector<Node> kept;
  std::ranges::set_difference(like.leaves, fewer, std::back_inserter(kept));
  std::ranges::set_union(kept, more, std::back_inserter(tokens.leaves));
  if (more.empty() && fewer.empty()) tokens.behind = like.behind;
  return true;
}

// Reads both side by side and looks only where they have parted. False when that is nearly everywhere.
bool WordTokens::compare(const TokenTrie::Part& part, State mine, State other, LexemeTokens& tokens,
                         std::vector<Node>& more, std::vector<Node>& fewer) {
  const TokenTrie& trie = vocabulary_->trie();
  std::size_t depth = 0;
  levels_[0] = {trie.children(part), 0, automaton_.row(mine), automaton_.row(other)};
  for (;;) {
    TrieLevel& level = levels_[depth];
    if (level.next == level.children.bytes.size()) {
      if (depth-- == 0) return true;
      continue;
    }
    const std::size_t place = level.next++;
    const unsigned char byte = level.children.bytes[place];
    const State a = level.row.next(byte), b = level.other.next(byte);
    if (a == b) continue;
    if (++compared_ > kMostComparedNodes) return false;
    const Node node = level.children.nodes[place];
    if (a == Automaton::dead) clear_bits(tokens.inside, trie.tokens_at(node));
    if (b == Automaton::dead) set_bits(tokens.inside, trie.tokens_at(node));
    if (!trie.has_children(node)) continue;
    const bool a_leaves = automaton_.leaves(a), b_leaves = automaton_.leaves(b);
    if (a_leaves != b_leaves) (a_leaves ? more : fewer).push_back(node);
    levels_[++depth] = {trie.children(node), 0, automaton_.row(a), automaton_.row(b)};
  }
}

}  // namespace espalier::grammar
