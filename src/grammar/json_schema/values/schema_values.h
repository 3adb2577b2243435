// schema_values.h: the values of a schema: whether some satisfy a formula, and the expressions that read them.
//
// A value is read type by type: what a formula says of strings and numbers becomes one regular expression each; objects
// and arrays are read member by member, the formula of what is still to be satisfied being the state. A member is
// offered only when some valid document contains it.
// Threads: one at a time.
// Fails:   never; beyond the limits of the stores the answers are "no" and `nothing`.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "base/incremental_free.h"
#include "grammar/json_schema/arrays/array_completion.h"
#include "grammar/json_schema/objects/next_members.h"
#include "grammar/json_schema/objects/object_ways.h"

namespace espalier::grammar {

// Values, and the parts that they are made of.
class SchemaValues final : public Values {
 public:
  SchemaValues(SchemaTables& tables, const WrittenForm& form, Restrictions& restrictions, OpenQuestions& questions);

  bool possible(Formula formula) override;
  bool possible(const Container& container) override;
  Expression text(Formula formula) override;
  Expression body(Formula formula);  // the same, nested values not as rules of their own

  Decisions& decisions() { return decisions_; }
  Multiples& multiples() { return scalars_.multiples(); }
  Containers& containers() { return containers_; }
  WrittenSets& written() { return written_; }
  ArrayItems& items() { return items_; }
  ArrayCompletion& array_completion() { return array_completion_; }
  ValueCounts& counts() { return counts_; }
  ObjectShapes& shapes() { return shapes_; }
  ObjectMembers& members() { return members_; }
  OpenNames& open_names() { return open_names_; }
  NextMembers& next_members() { return next_members_; }
  std::size_t memory() const;  // bytes, about

 private:
  bool search(Formula formula);

  ExpressionStore& store_;
  FormulaStore& formulas_;
  Restrictions& restrictions_;
  OpenQuestions& questions_;

  Containers containers_;
  WrittenSets written_;
  Decisions decisions_;
  Scalars scalars_;
  ArrayItems items_;
  ObjectNames names_;
  MemberSteps steps_;
  ValueCounts counts_;
  ArrayCompletion array_completion_;
  ObjectShapes shapes_;
  ObjectWays ways_;
  ObjectMembers members_;
  OpenNames open_names_;
  ObjectCompletion object_completion_;
  NextMembers next_members_;

  OpenQuestions::Answers possible_, can_be_completed_;  // of formulas, of containers
  IncrementallyFreed<std::unordered_map<Formula, Expression>> bodies_;
};

}  // namespace espalier::grammar
