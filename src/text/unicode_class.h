// unicode_class.h: sets of characters that Unicode names, and their closure under case.
//
// Units:   ranges of scalar values, both ends included.
// Threads: pure functions.
// Fails:   bad_request for a name that Unicode does not have. The tables are those of the crate regex-syntax (16.0).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "espalier/error.h"

namespace espalier {

// Characters from `low` to `high`.
struct CharacterRange {
  std::uint32_t low = 0, high = 0;
  bool operator==(const CharacterRange&) const = default;
};

// The class that is written \p{name}: a general category ("Lu", "Letter", "gc=Nd"), a script ("Greek", "sc=Greek",
// "scx=Greek") or a property ("Alphabetic", "White_Space"). Case, spaces, '-' and '_' in names do not matter. Ascending
// and disjoint.
Result<std::vector<CharacterRange>> unicode_class(std::string_view name);

// The ranges and all characters that differ from one of theirs by simple case folding alone, in any order. Costs time
// by the number of ranges, at most 3000 steps for each.
Result<std::vector<CharacterRange>> case_closure(std::span<const CharacterRange> ranges);

}  // namespace espalier
