#include "grammar/masks/token_masks.h"

#include <algorithm>

#include "grammar/automaton/hashing.h"
#include "grammar/characters/spelling.h"

namespace espalier::grammar {
namespace {

using Node = TokenTrie::Node;

constexpr std::uint32_t kWorthALoop = 48;      // nodes of a subtree for which a loop is looked for
constexpr std::size_t kMostMerged = 8192;      // tokens behind a lexeme for which merging pays
constexpr std::size_t kWorthATrie = 64;        // nodes where a lexeme ends, to merge what stands behind them
constexpr std::uint32_t kMostCompletion = 64;  // bytes that a text beyond a token may need to be whole
constexpr int kFewLeave = 8;                   // tokens_with() of the classes that leave a loop
constexpr unsigned kFirstLeadByte = 0xc2, kLastLeadByte = 0xf4;  // first bytes of characters beyond ASCII
constexpr std::size_t kWorthAMask = 1024;                        // tokens with the same first byte
constexpr int kManyFirstBytes = 8;                               // whose tokens are worth being found together

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

TokenMasks::TokenMasks(Automaton& automaton, std::shared_ptr<Vocabulary> vocabulary)
    : automaton_(automaton),
      store_(automaton.store()),
      vocabulary_(std::move(vocabulary)),
      far_bounds_{FarBounds(store_, vocabulary_->trie().depth_limit() + kMostCompletion, 128, false),
                  FarBounds(store_, 64, 32, false), FarBounds(store_, 2, 2, true)},
      closed_loops_(automaton) {
  wide_ = Spelling(store_, Spelling::Kind::plain).character(CodePointSet(0x80, 0x10ffff));
  levels_.resize(vocabulary_->trie().depth_limit() + 2);
}

std::size_t TokenMasks::memory() const {
  constexpr std::size_t kEntry = 32;  // of a table
  return (lexemes_.size() + wholes_.size()) * vocabulary_->words() * sizeof(MaskWords::value_type) +
         loops_.size() * (sizeof(Loop) + kEntry) + closed_loops_.memory();
}

bool TokenMasks::Level::advance(std::size_t& place) {
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

void TokenMasks::walk(State from, MaskWords& mask, std::vector<Node>* leaves) {
  const TokenTrie& trie = vocabulary_->trie();
  walk_whole(trie, trie.children(trie.whole()), from, mask, leaves);
  walk_all(trie, trie.children(trie.pieces()), from, mask, leaves);
}

void TokenMasks::walk_all(const TokenTrie& trie, TokenTrie::Children top, State from, MaskWords& mask,
                          std::vector<Node>* leaves) {
  visit_all(trie, top, from, [&](Node node, State state) {
    set_bits(mask, trie.tokens_at(node));
    if (leaves != nullptr && trie.has_children(node) && automaton_.leaves(state)) leaves->push_back(node);
  });
}

// The same over tokens of whole characters, passing over what a loop has settled.
void TokenMasks::walk_whole(const TokenTrie& trie, TokenTrie::Children top, State from, MaskWords& mask,
                            std::vector<Node>* leaves) {
  if (top.bytes.empty()) return;
  std::size_t depth = 0;
  levels_[0] = {top, 0, automaton_.row(from), {}};
  const bool all_tokens = top.nodes == vocabulary_->trie().children(vocabulary_->trie().whole()).nodes;
  if (const Loop* around = all_tokens ? &loop(from) : nullptr; around != nullptr && around->family != 0) {
    unite(mask, *vocabulary_->made_of(around->inside, around->characters));
    levels_[0].around = around;
  }
  const Classes known = all_tokens && levels_[0].around == nullptr ? set_loops_after(top, from, mask) : 0;
  for (;;) {
    const Level& level = levels_[depth];
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
    const Loop* around = level.around != nullptr && (its & level.around->inside) != 0 ? level.around : nullptr;
    if (around != nullptr && boundary && !around->closed && loop(state).family != around->family) around = nullptr;
    Classes loops = 0;
    if (around == nullptr && boundary && depth == 0 && all_tokens) {
      if (is_endless(loop(state))) {
        around = &loop(state);
        if (around->inside != known || (its & known) == 0) set_made_of_behind(*vocabulary_, node, around->inside, mask);
      }
    } else if (around == nullptr && boundary) {
      loops = (its & level.loops) != 0 ? level.loops : 0;
      if (loops == 0 && trie.end(node) - node > kWorthALoop) loops = unbounded_loop(state);
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
Classes TokenMasks::set_loops_after(TokenTrie::Children top, State from, MaskWords& mask) {
  const TokenTrie& trie = vocabulary_->trie();
  const Automaton::Row row = automaton_.row(from);
  std::vector<Classes> loops(top.bytes.size());  // by place
  std::vector<std::pair<Classes, int>> found;
  for (std::size_t place = 0; place < loops.size(); ++place) {
    const State state = row.next(top.bytes[place]);
    if (state == Automaton::dead || !trie.between_characters(top.nodes[place])) continue;
    const Classes inside = unbounded_loop(state);
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

// ---- lexemes

std::shared_ptr<const LexemeTokens> TokenMasks::lexeme_tokens(Expression lexeme) {
  return tokens_of(store_.operand(lexeme), store_.like(lexeme));
}

// The tokens of a text that nothing follows.
std::shared_ptr<const LexemeTokens> TokenMasks::tokens_of_whole(Expression operand) {
  after_words_ = Automaton::outside;
  auto tokens = tokens_of(operand);
  after_words_ = Automaton::unknown;
  return tokens;
}

std::shared_ptr<const LexemeTokens> TokenMasks::tokens_of(Expression operand, Expression like) {
  auto& known = known_of(operand);
  if (known != nullptr) return known;
  const bool shared = !store_.local(operand);
  const std::uint64_t fingerprint = mix(store_.fingerprint(operand), 2 + after_words_);
  if (shared) {
    if (auto found = vocabulary_->find(fingerprint)) return known = found;
  }
  if (auto found = find_counted(operand)) return known_of(operand) = found;
  if (auto found = find_loosened(operand)) return known_of(operand) = found;
  if (auto found = find_united(operand)) return known_of(operand) = found;
  auto tokens = std::make_shared<LexemeTokens>();
  const bool is_like = like != ExpressionStore::nothing && find_like(operand, *tokens_of(like), like, *tokens);
  if (!is_like) {
    find_lexeme(operand, *tokens);
    merge_after(*tokens);
  }
  if (automaton_.exhausted()) return tokens;  // incomplete: not to be remembered
  if (shared) vocabulary_->keep(fingerprint, tokens);
  return known_of(operand) = tokens;
}

void TokenMasks::find_lexeme(Expression operand, LexemeTokens& tokens) {
  tokens = {};
  tokens.inside.assign(vocabulary_->words(), 0);
  walk(start_of_word(operand), tokens.inside, &tokens.leaves);
  std::ranges::sort(tokens.leaves);
}

// Of a text of counted items, from the tokens of any number of them.
std::shared_ptr<const LexemeTokens> TokenMasks::find_counted(Expression operand) {
  const auto text = CountedText::of(store_, operand);
  if (!text || store_.local(operand) || after_words_ != Automaton::unknown) return nullptr;
  const auto all = counted(*text);
  if (all == nullptr) return nullptr;
  const std::uint32_t low = std::min(text->low, all->most_low()), high = std::min(text->high, all->most_high());
  if (low == 0 && high == all->most_high()) return all->unbounded();
  const Expression bounded = store_.concat(store_.repeat(text->item, low, high), text->tail);
  const std::uint64_t fingerprint = mix(store_.fingerprint(bounded), 1);  // what it stands for has other bounds, maybe
  if (auto found = vocabulary_->find(fingerprint)) return found;
  auto tokens = std::make_shared<LexemeTokens>(all->within(low, high));
  merge_after(*tokens);
  vocabulary_->keep(fingerprint, tokens);
  return tokens;
}

std::shared_ptr<const CountedTokens> TokenMasks::counted(const CountedText& text) {
  const Expression unbounded = store_.concat(store_.star(text.item), text.tail);
  const auto [known, fresh] = counted_.try_emplace(unbounded);
  if (!fresh) return known->second;
  const std::uint64_t fingerprint = store_.fingerprint(unbounded);
  auto found = vocabulary_->find_counted(fingerprint);
  if (found == nullptr && merges_all_) {
    found = CountedTokens::make(automaton_, text, *vocabulary_, lexeme_tokens(store_.lexeme(unbounded)));
    if (found != nullptr) vocabulary_->keep_counted(fingerprint, found);
  }
  return counted_[unbounded] = found;
}

void TokenMasks::prepare(const std::shared_ptr<Vocabulary>& vocabulary) {
  ExpressionStore store;
  Automaton automaton(store, AutomatonLimits{});
  TokenMasks masks(automaton, vocabulary);
  masks.merges_all_ = true;
  const Expression quote = store.text("\""), any = Spelling(store, Spelling::Kind::json).any_character();
  const Expression free = store.operand(free_json_text(store, 0, ExpressionStore::unbounded));
  masks.lexeme_tokens(store.lexeme(json_space(store)));
  for (const Expression character : {free, any}) masks.counted({character, quote});
}

// Where they begin, then behind a letter: a pattern that may stand anywhere is mostly at neither of its words' letters.
void TokenMasks::find_lexemes(ThreadTimeBudget& allowance) {
  for (const bool after_letter : {false, true}) {
    for (std::size_t i = 0; i < store_.lexemes().size(); ++i) {  // more may come meanwhile
      if (automaton_.exhausted() || allowance.used_up()) return;
      const Expression made = store_.lexemes()[i];
      if (store_.calls(made)) continue;
      if (!after_letter)
        lexeme_tokens(made);
      else if (const Expression inside = after_a_letter(made); store_.op(inside) == Op::lexeme)
        lexeme_tokens(inside);
    }
  }
}

// `nothing` where it is hardly another word.
Expression TokenMasks::after_a_letter(Expression lexeme) {
  return store_.like(lexeme) == ExpressionStore::nothing ? store_.after(lexeme, 'e') : ExpressionStore::nothing;
}

// Where many tokens go on behind the lexeme in the same ways, the ways become a trie of their own. Most words of JSON
// end with the same tokens.
void TokenMasks::merge_after(LexemeTokens& tokens) {
  if (tokens.leaves.size() < kWorthATrie) return;
  if (tokens.behind = vocabulary_->find_after(tokens.leaves); tokens.behind != nullptr) return;
  const TokenTrie& trie = vocabulary_->trie();
  std::vector<std::pair<std::string_view, TokenId>> behind;
  for (const Node node : tokens.leaves) {
    for (const TokenId id : trie.tokens_in(node)) {
      const std::string_view rest = vocabulary_->text(id).substr(trie.depth(node));
      if (!rest.empty()) behind.emplace_back(rest, id);
    }
    if (behind.size() > kMostMerged && !merges_all_) return;
  }
  tokens.behind = std::make_shared<TokenTrie>(TokenTrie::make(std::move(behind)));
  vocabulary_->keep_after(tokens.leaves, tokens.behind);
}

// ---- loops

const TokenMasks::Loop& TokenMasks::loop(State state) {
  const auto known = loops_.find(state);
  if (known != loops_.end()) return known->second;
  const Loop found = find_loop(state);
  return loops_[state] = found;
}

// For tokens: none has more characters than bytes.
bool TokenMasks::is_endless(const Loop& around) const {
  return around.family != 0 && around.characters >= vocabulary_->trie().depth_limit();
}

Classes TokenMasks::unbounded_loop(State state) {
  const Loop& around = loop(state);
  return is_endless(around) ? around.inside : 0;
}

TokenMasks::Loop TokenMasks::find_loop(State state) {
  Loop loop;
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
  Loop closed;
  if (!is_wide(state) || !closed_loop(state, closed)) return loop;
  return loop.family == 0 || tokens_with(closed.leaving) < tokens_with(loop.leaving) ? closed : loop;
}

bool TokenMasks::closed_loop(State state, Loop& loop) {
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
bool TokenMasks::self_loop(State state, Loop& loop) {
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
Classes TokenMasks::wide_items(Expression item) {
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
Classes TokenMasks::wide_loops(State state, Classes& leaving) {
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

bool TokenMasks::stays_over(State state, unsigned char lead) {
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
