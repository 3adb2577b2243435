// class_tokens.h: which tokens of a vocabulary have bytes of which classes.
//
// Tokens made of some classes only are all but those that have another one: a bitset for each class with many tokens, a
// list for each other one, and one bitset for groups of them. What is read is a tenth of what looking at every token's
// classes takes, and in order.
// Units:   about 16 KiB for each group, and each class of a vocabulary of 128 k tokens that has more than 512 of them.
// Threads: immutable.
// Fails:   never.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "grammar/masks/mask_words.h"
#include "grammar/masks/token_trie.h"

namespace espalier::grammar {

// The tokens of a trie indexed by the classes of their bytes.
class ClassTokens {
 public:
  // `words`: of a mask of all tokens of the trie.
  ClassTokens(const TokenTrie& trie, std::size_t words);

  // Tokens of whole characters, at most so many, that have bytes of these classes only.
  MaskWords made_of(Classes classes, std::uint32_t characters) const;

 private:
  static constexpr std::size_t kMostClasses = 8 * sizeof(Classes);
  struct Having {              // one class
    std::vector<TokenId> few;  // all of them, or
    MaskWords many;
  };
  struct Group {  // of classes that are mostly excluded together, such as those of characters beyond ASCII
    Classes classes = 0;
    MaskWords having;  // tokens that have any of them
  };
  void add_group(Classes classes);

  std::array<Having, kMostClasses> having_;
  std::vector<Group> groups_;
  MaskWords all_;                           // of whole characters
  std::vector<TokenId> longest_first_;      // the same
  std::vector<std::uint32_t> longer_than_;  // how many have more than that many characters
};

}  // namespace espalier::grammar
