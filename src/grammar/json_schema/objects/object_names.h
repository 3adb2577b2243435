// object_names.h: the names of an object's members: as texts, and which patterns they match.
// Threads: as the store. Fails: never.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "base/incremental_free.h"
#include "grammar/json_schema/formulas/restrictions.h"
#include "grammar/json_schema/scalars/schema_strings.h"

namespace espalier::grammar {

// Names are numbers of SchemaTables::texts.
class ObjectNames {
 public:
  ObjectNames(SchemaTables& tables, const WrittenForm& form, Restrictions& restrictions, SchemaStrings& strings)
      : store_(tables.expressions), tables_(tables), form_(form), restrictions_(restrictions), strings_(strings) {}

  bool matches(std::uint32_t name, Expression pattern);
  bool in_set(std::uint32_t name, const NameSet& set);
  Expression pattern(Formula formula);  // names that satisfy it
  Expression key(std::uint32_t name);   // behind its opening quote, up to the value
  std::size_t size() const { return keys_.size() + matches_.size(); }

 private:
  ExpressionStore& store_;
  SchemaTables& tables_;
  const WrittenForm& form_;
  Restrictions& restrictions_;
  SchemaStrings& strings_;
  IncrementallyFreed<std::unordered_map<std::uint32_t, Expression>> keys_;
  IncrementallyFreed<std::unordered_map<std::uint64_t, bool>> matches_;
};

}  // namespace espalier::grammar
