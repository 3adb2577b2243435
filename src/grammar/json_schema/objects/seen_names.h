// seen_names.h: sets of names that have come in an object, each by a number. Threads: one at a time. Fails: never.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/incremental_free.h"
#include "grammar/automaton/hashing.h"

namespace espalier::grammar {

// Bits by place; places beyond the end have not come. Set 0 is empty.
class SeenNames {
 public:
  SeenNames() { sets_.emplace_back(); }

  bool has(std::uint32_t number, std::uint32_t place) const {
    const std::vector<std::uint64_t>& set = sets_[number];
    return place / 64 < set.size() && ((set[place / 64] >> (place % 64)) & 1) != 0;
  }
  // Asked for every name that may come next, wherever names may come in any order.
  std::uint32_t with(std::uint32_t set, std::uint32_t place) {
    std::vector<std::uint64_t> more = sets_[set];
    if (more.size() <= place / 64) more.resize(place / 64 + 1);
    more[place / 64] |= std::uint64_t{1} << (place % 64);
    std::uint64_t hash = 0;
    for (const std::uint64_t word : more) hash = mix(hash, word);
    for (auto [known, end] = numbers_.equal_range(hash); known != end; ++known) {
      if (sets_[known->second] == more) return known->second;
    }
    const auto number = static_cast<std::uint32_t>(sets_.size());
    numbers_.emplace(hash, number);
    sets_.push_back(std::move(more));
    return number;
  }

 private:
  IncrementallyFreed<std::vector<std::vector<std::uint64_t>>> sets_;
  std::unordered_multimap<std::uint64_t, std::uint32_t> numbers_;  // by hash
};

}  // namespace espalier::grammar
