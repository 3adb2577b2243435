// top_k.h: the largest scores of a few hundred, as routers of experts choose: exact, and the same everywhere.
//
// Threads: any. Fails: never; `best` must not be longer than `scores`. Source: none, a list kept in order; above
// kListedScores a selection of the standard library.
#pragma once

#include <cstdint>
#include <span>

namespace espalier {

// Fills `best` with the indices of its size of largest scores, largest first; of equal ones the lower index first. NaN
// comes behind every number.
void top_k(std::span<const float> scores, std::span<std::int32_t> best);

}  // namespace espalier
