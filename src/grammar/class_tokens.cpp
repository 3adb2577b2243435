#include "grammar/class_tokens.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <span>
#include <utility>

namespace espalier::grammar {
namespace {

constexpr std::size_t kFew = 512;  // clearing so many bits costs what reading a bitset does

template <class Visit>
void each_class(Classes classes, Visit visit) {
  for (const unsigned half : {0u, 64u}) {
    for (auto bits = static_cast<std::uint64_t>(classes >> half); bits != 0; bits &= bits - 1)
      visit(half + static_cast<unsigned>(std::countr_zero(bits)));
  }
}

}  // namespace

ClassTokens::ClassTokens(const TokenTrie& trie, std::size_t words) : all_(words) {
  const TokenTrie::Part& whole = trie.whole();
  std::vector<std::pair<std::uint32_t, TokenId>> by_characters;
  for (std::uint32_t place = whole.first_token; place < whole.last_token; ++place) {
    const TokenId id = trie.ids()[place];
    by_characters.emplace_back(trie.characters(place), id);
    each_class(trie.classes(place), [&](unsigned one) { having_[one].few.push_back(id); });
  }
  for (Having& having : having_) {
    if (having.few.size() <= kFew) continue;
    having.many.resize(words);
    set_bits(having.many, std::exchange(having.few, {}));
  }
  std::ranges::sort(by_characters, std::ranges::greater());
  longer_than_.resize(trie.depth_limit() + 1);
  for (const auto& [characters, id] : by_characters) {
    longest_first_.push_back(id);
    for (std::uint32_t fewer = 0; fewer < characters; ++fewer) ++longer_than_[fewer];
  }
  set_bits(all_, longest_first_);
}

MaskWords ClassTokens::made_of(Classes classes, std::uint32_t characters) const {
  MaskWords mask = all_;
  each_class(~classes, [&](unsigned one) {
    const Having& having = having_[one];
    if (having.many.empty())
      clear_bits(mask, having.few);
    else
      subtract(mask, having.many);
  });
  if (characters < longer_than_.size()) clear_bits(mask, std::span(longest_first_).first(longer_than_[characters]));
  return mask;
}

}  // namespace espalier::grammar
