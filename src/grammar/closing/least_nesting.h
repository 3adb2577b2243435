// least_nesting.h: how many rules a text has open at once, if it has as few as any.
//
// A rule that is called counts while it is read, and while what stands behind the call is still to come, as frames of
// an automaton do (automaton.h): a call that nothing follows takes its caller's place. Rules whose bodies are made when
// they are needed count as if they called no others, so the answer may be too low, never too high.
// Threads: as the store.
// Fails:   never; an exhausted store gives no answer.
// Source:  Knuth, "A generalization of Dijkstra's algorithm" (1977); every part of an expression is looked at once.
#pragma once

#include <cstdint>
#include <optional>

#include "grammar/automaton/expression.h"

namespace espalier::grammar {

// At least 1; nothing: there is no text that ends.
std::optional<std::uint32_t> least_nesting(ExpressionStore& store, Expression whole);

}  // namespace espalier::grammar
