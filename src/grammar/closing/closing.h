// closing.h: a shortest text that completes what was begun.
//
// The text is searched for state by state, those first with which the whole would be shortest (A*): the bytes so far,
// and how many must at least come (LeastLength). Where that bound is exact, which it mostly is, only states of one
// shortest text are visited, and of equally short ones the one with the first printable bytes is found. The result does
// not depend on what others have made of the grammar, unless the time runs out.
//
// It is a shortest one wherever the texts of members need not differ (uniqueItems, names that must not repeat:
// recorded_states.h). Where they do, each is made as short as the ones before it allow, and then a little is searched
// for something shorter altogether: a shorter text may be missed. Where the budget for that is not enough, the search
// goes on for any text, the nearest first.
// Units:   bytes.
// Threads: as the automaton.
// Fails:   nothing when no text was found within the limits or none of at most kLongestClosing bytes is possible. The
//          automaton is exhausted by it only where reading a text would exhaust it.
// Source:  Hart, Nilsson, Raphael (1968).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "grammar/automaton/automaton.h"
#include "grammar/automaton/recorded_states.h"
#include "grammar/closing/search_budget.h"

namespace espalier::grammar {

inline constexpr std::size_t kLongestClosing = 16'384;

// What it returns was read from `from` on byte by byte and is complete.
std::optional<std::string> shortest_closing(Automaton& automaton, RecordedStates& recorded, State from,
                                            const SearchLimits& limits);

}  // namespace espalier::grammar
