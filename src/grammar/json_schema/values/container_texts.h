// container_texts.h: what may follow in an array or object that has been begun, as an expression, and how short the
// rest can be.
// Threads: one at a time. Fails: never; beyond the limits of the stores the expressions are `nothing`.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "grammar/json_schema/reading/equal_values.h"
#include "grammar/json_schema/values/schema_values.h"

namespace espalier::grammar {

// Expands payloads.
class ContainerTexts {
 public:
  ContainerTexts(SchemaTables& tables, const WrittenForm& form, SchemaValues& values)
      : store_(tables.expressions), tables_(tables), form_(form), values_(values) {}

  Expression expand(std::uint32_t payload);
  // What follows an item, now that its value is known, or a name.
  Expression recall(std::uint32_t payload, std::string_view text);
  // For who looks for the shortest text (least_length.h): bytes at least, and another payload with as short a text.
  std::uint32_t least(std::uint32_t payload) const;
  std::uint32_t as_short(std::uint32_t payload);

 private:
  Expression expand(const Container& at);
  Expression read(const Container& at, const Member& way);
  Expression awaiting(const Container& at, const Member& item);
  std::uint32_t least(const Container& at) const;

  ExpressionStore& store_;
  SchemaTables& tables_;
  const WrittenForm& form_;
  SchemaValues& values_;
};

}  // namespace espalier::grammar
