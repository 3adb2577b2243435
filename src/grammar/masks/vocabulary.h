// vocabulary.h: what constraints need of a tokenizer, made once and shared by all grammars over it.
//
// Beside the trie of all tokens it keeps what different grammars would otherwise find again and again: which tokens are
// made of some classes of bytes only, and the token sets of lexemes (words such as the rest of a JSON string), found by
// fingerprint.
// Threads: any; the tables behind are guarded.
// Fails:   never.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "espalier/types.h"
#include "grammar/masks/class_tokens.h"
#include "grammar/masks/mask_words.h"
#include "grammar/masks/token_trie.h"

namespace espalier {
class Tokenizer;
}

namespace espalier::grammar {

// The tokens that may come in the middle of a lexeme, wherever it stands.
struct LexemeTokens {
  MaskWords inside;                         // tokens that stay in it, or end with it
  std::vector<TokenTrie::Node> leaves;      // nodes at which it ends while the token goes on; ascending
  std::shared_ptr<const TokenTrie> behind;  // what tokens have behind those nodes, when there are many of them
};

class CountedTokens;  // counted_text.h

// The tokens of a model as tries, with token sets that all its grammars share.
class Vocabulary {
 public:
  // tokens[i] is the text of token i, of special ones their code (special_code.h); empty = never allowed (holes).
  explicit Vocabulary(std::vector<std::string> tokens);
  static std::shared_ptr<Vocabulary> of(std::shared_ptr<const Tokenizer> tokenizer);

  std::size_t size() const { return tokens_.size(); }
  std::size_t words() const { return (tokens_.size() + 31) / 32; }
  std::string_view text(TokenId id) const { return tokens_[static_cast<std::size_t>(id)]; }
  std::optional<TokenId> find_text(std::string_view text) const;  // looks at all tokens
  const TokenTrie& trie() const { return trie_; }
  const Tokenizer* tokenizer() const { return tokenizer_.get(); }  // null when made of texts alone

  // Tokens in which a comma stands behind what a value of JSON may end with.
  std::span<const TokenId> with_comma_behind_value() const { return with_comma_behind_value_; }

  // Tokens of at most `characters` characters that have bytes of these classes only.
  std::shared_ptr<const MaskWords> made_of(Classes classes, std::uint32_t characters);
  // Tokens that begin with this node of trie().whole(), a first byte, and have bytes of these classes only behind it.
  std::shared_ptr<const MaskWords> made_of_after(TokenTrie::Node first, Classes classes);

  std::shared_ptr<const LexemeTokens> find(std::uint64_t fingerprint);
  void keep(std::uint64_t fingerprint, std::shared_ptr<const LexemeTokens> tokens);
  // What tokens have behind these nodes of trie().whole() and pieces(), if it has been kept.
  std::shared_ptr<const TokenTrie> find_after(const std::vector<TokenTrie::Node>& leaves);
  void keep_after(const std::vector<TokenTrie::Node>& leaves, std::shared_ptr<const TokenTrie> behind);
  std::shared_ptr<const CountedTokens> find_counted(std::uint64_t fingerprint);
  void keep_counted(std::uint64_t fingerprint, std::shared_ptr<const CountedTokens> tokens);

 private:
  struct MadeOf {
    Classes classes = 0;
    std::uint32_t characters = 0;                 // at most
    TokenTrie::Node first = ~TokenTrie::Node{0};  // of which tokens; else of all
    bool operator==(const MadeOf&) const = default;
  };
  struct MadeOfHash {
    std::size_t operator()(const MadeOf& what) const;
  };
  template <class Find>
  std::shared_ptr<const MaskWords> known_or(MadeOf what, Find find);

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<std::string> tokens_;
  TokenTrie trie_;
  ClassTokens class_tokens_;
  std::vector<TokenId> with_comma_behind_value_;
  std::mutex mutex_;
  std::unordered_map<MadeOf, std::shared_ptr<const MaskWords>, MadeOfHash> made_of_;
  std::list<std::pair<std::uint64_t, std::shared_ptr<const LexemeTokens>>> lexemes_;  // last used first
  std::unordered_map<std::uint64_t, decltype(lexemes_)::iterator> places_;
  std::map<std::vector<TokenTrie::Node>, std::shared_ptr<const TokenTrie>> behind_;
  std::unordered_map<std::uint64_t, std::shared_ptr<const CountedTokens>> counted_;
};

}  // namespace espalier::grammar
