// schema_steps.h: what the files that SchemaGrammar is written in share (schema_grammar.cpp and those for strings,
// numbers, arrays and objects). Nobody else includes it.
// Threads: pure functions.
#pragma once

#include <cstdint>

#include "grammar/json_schema/formula.h"

namespace espalier::grammar {

// What `later` and `awaiting` expressions stand for, by the remainder of their payload.
enum Payload : std::uint32_t { kContainer, kMultiple, kEntry, kOpenName, kPayloads };

inline Formula constant(bool value) {
  return value ? FormulaStore::always : FormulaStore::never;
}

// A count of members that must or may still come, once one has come.
inline std::uint32_t less_one(std::uint32_t count) {
  return count == 0 || count == kUnbounded ? count : count - 1;
}

}  // namespace espalier::grammar
