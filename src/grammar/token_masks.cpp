#include "grammar/token_masks.h"

#include <algorithm>
#include <iterator>

#include "grammar/spelling.h"

namespace espalier::grammar {
namespace {

using Node = TokenTrie::Node;

constexpr std::uint32_t kWorthALoop = 48;                // nodes of a subtree for which a loop is looked for
constexpr std::size_t kMostMerged = 8192;                // tokens behind a lexeme for which merging pays
constexpr std::size_t kWorthATrie = 64;                  // nodes where a lexeme ends, to merge what stands behind them
constexpr unsigned kFirstLead = 0xc2, kLastLead = 0xf4;  // first bytes of characters beyond ASCII

void set_bits(MaskWords& mask, std::span<const TokenId> tokens) {
  for (const TokenId token : tokens) {
    const auto id = static_cast<std::uint32_t>(token);
    mask[id / 32] |= 1u << (id % 32);
  }
}

void unite(MaskWords& mask, const MaskWords& more) {
  for (std::size_t i = 0; i < mask.size(); ++i) mask[i] |= more[i];
}

bool has_children(const TokenTrie& trie, Node node) {
  return trie.end(node) > node + 1;
}

}  // namespace

TokenMasks::TokenMasks(Automaton& automaton, std::shared_ptr<Vocabulary> vocabulary)
    : automaton_(automaton), store_(automaton.store()), vocabulary_(std::move(vocabulary)) {
  wide_ = Spelling(store_, Spelling::Kind::plain).character(CodePointSet(0x80, 0x10ffff));
  levels_.resize(vocabulary_->trie().depth_limit() + 2);
}

void TokenMasks::fill(State state, MaskWords& mask) {
  mask.assign(vocabulary_->words(), 0);
  std::vector<Frame> plain;
  const std::vector<Frame> frames(automaton_.frames(state).begin(), automaton_.frames(state).end());
  for (const Frame& frame : frames) {
    std::vector<Expression> others;
    fill_lexemes(frame.at, frame.caller, mask, others);
    if (!others.empty()) plain.push_back({store_.either(std::move(others)), frame.caller});
  }
  if (!plain.empty()) walk(automaton_.some(std::move(plain)), mask, nullptr);
}

// Sets the tokens of alternatives that begin with a lexeme; gives back the other alternatives.
void TokenMasks::fill_lexemes(Expression at, State caller, MaskWords& mask, std::vector<Expression>& others) {
  const bool one = store_.op(at) != Op::either;
  for (const Expression part : one ? std::span<const Expression>(&at, 1) : store_.parts(at)) {
    const bool has_rest = store_.op(part) == Op::concat;
    const Expression head = has_rest ? store_.operand(part) : part;
    if (store_.op(head) != Op::lexeme) {
      others.push_back(part);
      continue;
    }
    const auto tokens = lexeme_tokens(head);
    unite(mask, tokens->inside);
    const Expression rest = has_rest ? store_.rest(part) : ExpressionStore::empty;
    go_on(*tokens, automaton_.start(rest, caller), mask);
    if (store_.nullable(head) && rest != ExpressionStore::empty) fill_lexemes(rest, caller, mask, others);
  }
}

void TokenMasks::walk(State from, MaskWords& mask, std::vector<Node>* leaves) {
  const TokenTrie& trie = vocabulary_->trie();
  walk_whole(from, mask, leaves);
  walk_all(trie, trie.children(trie.pieces()), from, mask, leaves);
}

// Every node that can be reached.
void TokenMasks::walk_all(const TokenTrie& trie, TokenTrie::Children top, State from, MaskWords& mask,
                          std::vector<Node>* leaves) {
  std::size_t depth = 0;
  levels_[0].children = top;
  levels_[0].next = 0;
  levels_[0].row = automaton_.row(from);
  for (;;) {
    Level& level = levels_[depth];
    if (level.next == level.children.bytes.size()) {
      if (depth-- == 0) return;
      continue;
    }
    const std::size_t place = level.next++;
    const State state = level.row.next(level.children.bytes[place]);
    if (state == Automaton::dead) continue;
    const Node node = level.children.nodes[place];
    set_bits(mask, trie.tokens_at(node));
    if (!has_children(trie, node)) continue;
    if (leaves != nullptr && automaton_.leaves(state)) leaves->push_back(node);
    Level& below = levels_[++depth];
    below.children = trie.children(node);
    below.next = 0;
    below.row = automaton_.row(state);
  }
}

// The same over tokens of whole characters, passing over what a loop has settled.
void TokenMasks::walk_whole(State from, MaskWords& mask, std::vector<Node>* leaves) {
  const TokenTrie& trie = vocabulary_->trie();
  std::size_t depth = 0;
  levels_[0] = {trie.children(trie.whole()), 0, automaton_.row(from), {}, 0, 0, 0};
  if (const Loop& around = loop(from); around.family != 0) {
    unite(mask, *vocabulary_->made_of(around.inside, around.characters));
    levels_[0].family = around.family;
    levels_[0].inside = around.inside;
    levels_[0].leaving = around.leaving;
  }
  for (;;) {
    Level& level = levels_[depth];
    if (level.next == level.children.bytes.size()) {
      if (depth-- == 0) return;
      continue;
    }
    const std::size_t place = level.next++;
    const unsigned char byte = level.children.bytes[place];
    const State state = level.row.next(byte);
    if (state == Automaton::dead) continue;
    const Node node = level.children.nodes[place];
    // In the loop all tokens are set but those with a byte that leaves it.
    if (level.family != 0 && ((trie.below(node) | class_of(byte)) & level.leaving) == 0) continue;
    const bool boundary = trie.between_characters(node);
    Level here{{}, 0, {}, {}, 0, 0, 0};
    // Behind a byte of another class the tokens are not set, even where the text has come back to the loop.
    const bool inside = level.family != 0 && (class_of(byte) & level.inside) != 0;
    if (inside && (!boundary || loop(state).family == level.family)) {
      here.family = level.family;
      here.inside = level.inside;
      here.leaving = level.leaving;
    }
    if (here.family == 0 && boundary && trie.end(node) - node > kWorthALoop) {
      const Loop& around = loop(state);
      const bool all = around.characters == ExpressionStore::unbounded && (trie.below(node) & ~around.inside) == 0;
      if (around.family != 0 && all) {
        set_bits(mask, trie.tokens_in(node));
        continue;
      }
    }
    set_bits(mask, trie.tokens_at(node));
    if (!has_children(trie, node)) continue;
    if (leaves != nullptr && automaton_.leaves(state)) leaves->push_back(node);
    here.children = trie.children(node);
    here.row = automaton_.row(state);
    levels_[++depth] = here;
  }
}

// ---- lexemes

std::shared_ptr<const LexemeTokens> TokenMasks::lexeme_tokens(Expression lexeme) {
  const Expression operand = store_.operand(lexeme);
  auto& known = lexemes_[operand];
  if (known != nullptr) return known;
  const bool shared = !store_.local(operand);
  const std::uint64_t fingerprint = store_.fingerprint(operand);
  if (shared) {
    if (auto found = vocabulary_->find(fingerprint)) return known = found;
  }
  auto tokens = std::make_shared<LexemeTokens>();
  if (const Expression other = store_.like(lexeme); other != ExpressionStore::nothing) {
    const auto like = lexeme_tokens(store_.lexeme(other));
    find_like(operand, *like, other, *tokens);
  } else {
    find_lexeme(operand, *tokens);
    merge_behind(*tokens);
  }
  if (automaton_.exhausted()) return tokens;  // incomplete: not to be remembered
  if (shared) vocabulary_->keep(fingerprint, tokens);
  return lexemes_[operand] = tokens;
}

void TokenMasks::find_lexeme(Expression operand, LexemeTokens& tokens) {
  tokens.inside.assign(vocabulary_->words(), 0);
  walk(automaton_.start(operand, Automaton::unknown), tokens.inside, &tokens.leaves);
  std::ranges::sort(tokens.leaves);
}

// Where many tokens go on behind the lexeme in the same ways, the ways become a trie of their own.
void TokenMasks::merge_behind(LexemeTokens& tokens) {
  if (tokens.leaves.size() < kWorthATrie) return;
  const TokenTrie& trie = vocabulary_->trie();
  std::vector<std::pair<std::string_view, TokenId>> behind;
  for (const Node node : tokens.leaves) {
    for (const TokenId id : trie.tokens_in(node)) {
      const std::string_view rest = vocabulary_->text(id).substr(trie.depth(node));
      if (!rest.empty()) behind.emplace_back(rest, id);
    }
    if (behind.size() > kMostMerged) return;
  }
  tokens.behind = std::make_shared<TokenTrie>(TokenTrie::make(std::move(behind)));
}

void TokenMasks::find_like(Expression operand, const LexemeTokens& like, Expression other, LexemeTokens& tokens) {
  tokens.inside = like.inside;
  const State mine = automaton_.start(operand, Automaton::unknown);
  const State its = automaton_.start(other, Automaton::unknown);
  std::vector<Node> more, fewer;
  compare(vocabulary_->trie().whole(), mine, its, tokens, more, fewer);
  compare(vocabulary_->trie().pieces(), mine, its, tokens, more, fewer);
  std::vector<Node> kept;
  std::ranges::set_difference(like.leaves, fewer, std::back_inserter(kept));
  std::ranges::set_union(kept, more, std::back_inserter(tokens.leaves));
  if (more.empty() && fewer.empty()) tokens.behind = like.behind;
}

// Reads both side by side and looks only where they have parted.
void TokenMasks::compare(const TokenTrie::Part& part, State mine, State other, LexemeTokens& tokens,
                         std::vector<Node>& more, std::vector<Node>& fewer) {
  const TokenTrie& trie = vocabulary_->trie();
  std::size_t depth = 0;
  levels_[0] = {trie.children(part), 0, automaton_.row(mine), automaton_.row(other), 0, 0, 0};
  for (;;) {
    Level& level = levels_[depth];
    if (level.next == level.children.bytes.size()) {
      if (depth-- == 0) return;
      continue;
    }
    const std::size_t place = level.next++;
    const unsigned char byte = level.children.bytes[place];
    const State a = level.row.next(byte), b = level.other.next(byte);
    if (a == b) continue;
    const Node node = level.children.nodes[place];
    if (a == Automaton::dead) clear_bits(tokens.inside, trie.tokens_at(node));
    if (b == Automaton::dead) set_bits(tokens.inside, trie.tokens_at(node));
    if (!has_children(trie, node)) continue;
    const bool a_leaves = automaton_.leaves(a), b_leaves = automaton_.leaves(b);
    if (a_leaves != b_leaves) (a_leaves ? more : fewer).push_back(node);
    levels_[++depth] = {trie.children(node), 0, automaton_.row(a), automaton_.row(b), 0, 0, 0};
  }
}

// Tokens that end behind the lexeme.
void TokenMasks::go_on(const LexemeTokens& tokens, State behind, MaskWords& mask) {
  if (automaton_.is_empty(behind)) return;
  if (tokens.behind != nullptr) {
    const TokenTrie& trie = *tokens.behind;
    walk_all(trie, trie.children(trie.whole()), behind, mask, nullptr);
    walk_all(trie, trie.children(trie.pieces()), behind, mask, nullptr);
    return;
  }
  const TokenTrie& trie = vocabulary_->trie();
  for (const Node node : tokens.leaves) walk_all(trie, trie.children(node), behind, mask, nullptr);
}

// ---- loops

const TokenMasks::Loop& TokenMasks::loop(State state) {
  const auto known = loops_.find(state);
  if (known != loops_.end()) return known->second;
  const Loop found = find_loop(state);
  return loops_[state] = found;
}

TokenMasks::Loop TokenMasks::find_loop(State state) {
  Loop loop;
  const auto frames = automaton_.frames(state);
  if (frames.empty() || automaton_.leaves(state)) return {};
  if (frames.size() == 1) {
    const Frame frame = frames[0];
    if (counter_loop(frame, loop)) return loop;
  }
  return self_loop(state, loop) ? loop : Loop{};
}

// `item{low,high} rest`, where an item may be one character of some classes.
bool TokenMasks::counter_loop(const Frame& frame, Loop& loop) {
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
  if (reads_all_wide(item)) loop.inside |= kWide;
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
bool TokenMasks::self_loop(State state, Loop& loop) {
  Classes away = 0, back = 0;
  for (unsigned byte = 0; byte < 0x80; ++byte) {
    const State to = automaton_.next(state, static_cast<unsigned char>(byte));
    (to == state ? back : away) |= class_of(static_cast<unsigned char>(byte));
    if (to != state && to != Automaton::dead) loop.leaving |= class_of(static_cast<unsigned char>(byte));
  }
  loop.inside = back & ~away;
  if (stays_over_wide(state)) {
    loop.inside |= kWide;
  } else {
    loop.leaving |= kWide;
  }
  // Classes of which some bytes stay and some do not: tokens with them are looked at one by one.
  loop.leaving |= back & away;
  loop.characters = ExpressionStore::unbounded;
  loop.family = (std::uint64_t{state} << 1) | (std::uint64_t{1} << 63);
  return loop.inside != 0;
}

// Every character beyond ASCII is one item.
bool TokenMasks::reads_all_wide(Expression item) {
  const auto [known, fresh] = wide_items_.try_emplace(item, false);
  if (!fresh) return known->second;
  bool all = true;
  for (unsigned lead = kFirstLead; lead <= kLastLead && all; ++lead) {
    const auto byte = static_cast<unsigned char>(lead);
    all = store_.after(item, byte) == store_.after(wide_, byte);
  }
  return wide_items_[item] = all;
}

// Every character beyond ASCII leads back to the state.
bool TokenMasks::stays_over_wide(State state) {
  State last_state = Automaton::dead;
  Expression last_rest = ExpressionStore::nothing;
  for (unsigned lead = kFirstLead; lead <= kLastLead; ++lead) {
    State mine = automaton_.next(state, static_cast<unsigned char>(lead));
    Expression chars = store_.after(wide_, static_cast<unsigned char>(lead));
    if (mine == Automaton::dead) return false;
    if (mine == last_state && chars == last_rest) continue;
    last_state = mine;
    last_rest = chars;
    while (chars != ExpressionStore::empty) {
      // Each position of a character has one set of bytes, all leading on alike.
      const auto branches = automaton_.branches(mine);
      const Steps steps = store_.steps(chars);
      if (branches.size() != 1 || steps.bytes.size() != 1 || !(branches[0].on == steps.bytes[0].on)) return false;
      mine = branches[0].to;
      chars = steps.bytes[0].to;
    }
    if (mine != state) return false;
  }
  return true;
}

}  // namespace espalier::grammar
