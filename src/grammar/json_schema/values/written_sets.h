// written_sets.h: sets of values or names that have been written, each by a number. Threads: one at a time. Fails:
// never.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace espalier::grammar {

// Sets of numbers (formulas of values, texts of names, expressions of names), ascending; those of what is not known yet
// with repetitions. Set 0 is empty.
class WrittenSets {
 public:
  WrittenSets() : sets_(1) { numbers_.emplace(std::vector<std::uint32_t>(), 0); }

  // Requires: nobody adds one while it is looked at.
  const std::vector<std::uint32_t>& operator[](std::uint32_t number) const { return sets_[number]; }

  std::uint32_t with(std::uint32_t set, std::uint32_t member) {
    std::vector<std::uint32_t> more = sets_[set];
    const auto place = std::ranges::lower_bound(more, member);
    if (place == more.end() || *place != member) more.insert(place, member);
    return numbered(std::move(more));
  }
  std::uint32_t with_one_more(std::uint32_t set, std::uint32_t member) {
    std::vector<std::uint32_t> more = sets_[set];
    more.insert(std::ranges::lower_bound(more, member), member);
    return numbered(std::move(more));
  }

 private:
  std::uint32_t numbered(std::vector<std::uint32_t> sorted) {
    const auto [known, fresh] = numbers_.try_emplace(sorted, static_cast<std::uint32_t>(sets_.size()));
    if (fresh) sets_.push_back(std::move(sorted));
    return known->second;
  }

  std::vector<std::vector<std::uint32_t>> sets_;
  std::map<std::vector<std::uint32_t>, std::uint32_t> numbers_;
};

}  // namespace espalier::grammar
