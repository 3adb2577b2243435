#include "grammar/masks/class_tokens.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <span>
#include <utility>

namespace espalier::grammar {
namespace {

constexpr std::size_t kFew = 512;  // clearing so many bits costs what reading a bitset does
// Bytes of which grammars mostly allow all or none: control characters, letters of either case, what is not ASCII.
constexpr std::array<std::pair<unsigned, unsigned>, 4> kTogether{{{0, 0x1f}, {'A', 'Z'}, {'a', 'z'}, {0x80, 0xff}}};

template <class Visit>
void each_class(Classes classes, Visit visit) {
  for (const unsigned half : {0u, 64u}) {
    for (auto bits = static_cast<std::uint64_t>(classes >> half); bits != 0; bits &= bits - 1)
      visit(half + static_cast<unsigned>(std::countr_zero(bits)));
  }
}

Classes classes_between(unsigned first, unsigned last) {
  Classes all = 0;
  for (unsigned byte = first; byte <= last; ++byte) all |= class_of(static_cast<unsigned char>(byte));
  return all;
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
  for (const auto& [first, last] : kTogether) add_group(classes_between(first, last));
}

void ClassTokens::add_group(Classes classes) {
  Group group{classes, MaskWords(all_.size())};
  each_class(classes, [&](unsigned one) {
    const Having& having = having_[one];
    if (having.many.empty())
      set_bits(group.having, having.few);
    else
      unite(group.having, having.many);
  });
  groups_.push_back(std::move(group));
}

MaskWords ClassTokens::made_of(Classes classes, std::uint32_t characters) const {
  MaskWords mask = all_;
  Classes excluded = ~classes;
  for (const Group& group : groups_) {
    if ((group.classes & ~excluded) != 0) continue;
    subtract(mask, group.having);
    excluded &= ~group.classes;
  }
  each_class(excluded, [&](unsigned one) {
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
