#include "grammar/characters/character_kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace espalier::grammar {
namespace {

constexpr char32_t kEnd = 0x110000;

// For each of the ranges that `begins` cuts all characters into: whether it lies in the set.
template <class Visit>
void each_range(const std::vector<char32_t>& begins, const CodePointSet& set, Visit visit) {
  auto range = set.ranges().begin();
  for (std::size_t i = 0; i < begins.size(); ++i) {
    while (range != set.ranges().end() && range->high < begins[i]) ++range;
    visit(i, range != set.ranges().end() && range->low <= begins[i]);
  }
}

}  // namespace

Result<CharacterKinds> CharacterKinds::make(const std::vector<CodePointSet>& sets) {
  CharacterKinds made;
  made.begins_ = {0, 0xD800, 0xE000};  // what lies between is in no set
  for (const CodePointSet& set : sets) {
    for (const CodePointRange& range : set.ranges()) {
      made.begins_.push_back(range.low);
      if (range.high + 1 < kEnd) made.begins_.push_back(range.high + 1);
    }
  }
  std::ranges::sort(made.begins_);
  made.begins_.erase(std::ranges::unique(made.begins_).begin(), made.begins_.end());
  std::vector<std::uint32_t> numbers(made.begins_.size());
  std::map<std::pair<std::uint32_t, bool>, std::uint32_t> known;
  const auto split = [&](const CodePointSet& set) {
    known.clear();
    each_range(made.begins_, set, [&](std::size_t i, bool inside) {
      const auto next = static_cast<std::uint32_t>(known.size());
      numbers[i] = known.try_emplace({numbers[i], inside}, next).first->second;
    });
    made.count_ = known.size();
  };
  split(CodePointSet::all());
  for (const CodePointSet& set : sets) split(set);
  if (made.count_ > kMost) {
    return bad_request(
        fmt::format("more than {} kinds of characters are told apart; use fewer, or classes of them", kMost), {},
        "grammar_too_complex");
  }
  for (const std::uint32_t number : numbers) made.kinds_.push_back(static_cast<std::uint8_t>(number));
  return made;
}

ByteSet CharacterKinds::of(const CodePointSet& set) const {
  ByteSet found;
  each_range(begins_, set, [&](std::size_t i, bool inside) {
    if (inside) found.add(kinds_[i]);
  });
  return found;
}

}  // namespace espalier::grammar
