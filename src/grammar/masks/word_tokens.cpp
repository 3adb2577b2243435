#include "grammar/masks/word_tokens.h"

#include <algorithm>

#include "grammar/automaton/hashing.h"
#include "grammar/characters/spelling.h"

namespace espalier::grammar {

using Node = TokenTrie::Node;

namespace {

constexpr std::size_t kMostMerged = 8192;      // tokens behind a lexeme for which merging pays
constexpr std::size_t kWorthATrie = 64;        // nodes where a lexeme ends, to merge what stands behind them
constexpr std::uint32_t kMostCompletion = 64;  // bytes that a text beyond a token may need to be whole

}  // namespace

WordTokens::WordTokens(Automaton& automaton, std::shared_ptr<Vocabulary> vocabulary, TrieWalk& walk)
    : automaton_(automaton),
      store_(automaton.store()),
      vocabulary_(std::move(vocabulary)),
      walk_(walk),
      far_bounds_{FarBounds(store_, vocabulary_->trie().depth_limit() + kMostCompletion, 128, false),
                  FarBounds(store_, 64, 32, false), FarBounds(store_, 2, 2, true)} {
  levels_.resize(vocabulary_->trie().depth_limit() + 2);
}

std::shared_ptr<const LexemeTokens> WordTokens::of_lexeme(Expression lexeme) {
  return tokens_of(store_.operand(lexeme), store_.like(lexeme));
}

// The tokens of a text that nothing follows.
std::shared_ptr<const LexemeTokens> WordTokens::of_whole(Expression operand) {
  after_words_ = Automaton::outside;
  auto tokens = tokens_of(operand);
  after_words_ = Automaton::unknown;
  return tokens;
}

std::shared_ptr<const LexemeTokens> WordTokens::tokens_of(Expression operand, Expression like) {
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

void WordTokens::find_lexeme(Expression operand, LexemeTokens& tokens) {
  tokens = {};
  tokens.inside.assign(vocabulary_->words(), 0);
  walk_.every(start_of_word(operand), tokens.inside, &tokens.leaves);
  std::ranges::sort(tokens.leaves);
}

// Of a text of counted items, from the tokens of any number of them.
std::shared_ptr<const LexemeTokens> WordTokens::find_counted(Expression operand) {
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

std::shared_ptr<const CountedTokens> WordTokens::counted(const CountedText& text) {
  const Expression unbounded = store_.concat(store_.star(text.item), text.tail);
  const auto [known, fresh] = counted_.try_emplace(unbounded);
  if (!fresh) return known->second;
  const std::uint64_t fingerprint = store_.fingerprint(unbounded);
  auto found = vocabulary_->find_counted(fingerprint);
  if (found == nullptr && merges_all_) {
    found = CountedTokens::make(automaton_, text, *vocabulary_, of_lexeme(store_.lexeme(unbounded)));
    if (found != nullptr) vocabulary_->keep_counted(fingerprint, found);
  }
  return counted_[unbounded] = found;
}

void WordTokens::prepare(const std::shared_ptr<Vocabulary>& vocabulary) {
  ExpressionStore store;
  Automaton automaton(store, AutomatonLimits{});
  TrieWalk walk(automaton, vocabulary);
  WordTokens words(automaton, vocabulary, walk);
  words.merges_all_ = true;
  const Expression quote = store.text("\""), any = Spelling(store, Spelling::Kind::json).any_character();
  const Expression free = store.operand(free_json_text(store, 0, ExpressionStore::unbounded));
  words.of_lexeme(store.lexeme(json_space(store)));
  for (const Expression character : {free, any}) words.counted({character, quote});
}

// Where they begin, then behind a letter: a pattern that may stand anywhere is mostly at neither of its words' letters.
void WordTokens::find_lexemes(ThreadTimeBudget& allowance) {
  for (const bool after_letter : {false, true}) {
    for (std::size_t i = 0; i < store_.lexemes().size(); ++i) {  // more may come meanwhile
      if (automaton_.exhausted() || allowance.used_up()) return;
      const Expression made = store_.lexemes()[i];
      if (store_.calls(made)) continue;
      if (!after_letter)
        of_lexeme(made);
      else if (const Expression inside = after_a_letter(made); store_.op(inside) == Op::lexeme)
        of_lexeme(inside);
    }
  }
}

// `nothing` where it is hardly another word.
Expression WordTokens::after_a_letter(Expression lexeme) {
  return store_.like(lexeme) == ExpressionStore::nothing ? store_.after(lexeme, 'e') : ExpressionStore::nothing;
}

// Where many tokens go on behind the lexeme in the same ways, the ways become a trie of their own. Most words of JSON
// end with the same tokens.
void WordTokens::merge_after(LexemeTokens& tokens) {
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

}  // namespace espalier::grammar
