// schema_options.h: how the values of a schema are written.
// Threads: plain values. Fails: never.
#pragma once

#include <cstdint>

#include "espalier/grammar.h"

namespace espalier::grammar {

// In which order the members of objects may come.
enum class MemberOrder {
  declared,   // as the schema names them
  any,        // whatever order
  automatic,  // any for schemas that describe documents (SchemaTraits), else declared
};

// How values are written: whitespace, order of members, whether objects are closed.
struct SchemaOptions {
  // Whitespace between tokens: none, or as JSON allows it in runs of bounded length.
  bool flexible_whitespace = false;
  Constraint::Closed closed = Constraint::Closed::as_written;
  MemberOrder order = MemberOrder::automatic;
  std::uint32_t most_space = 0xffffffff;  // bytes of whitespace at one place, where it is flexible
};

}  // namespace espalier::grammar
