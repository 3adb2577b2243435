// restrictions.h: what a formula says of the values of one type; what it says of others is gone.
//
// Here the schemas that a formula refers to are read, at last.
// Threads: one at a time.
// Fails:   error(): as SchemaReader, or bad_request for a schema that refers to itself without reading anything; what
//          was asked for is `never` then. Beyond the limits of the stores too.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/incremental_free.h"
#include "grammar/json_schema/formulas/open_questions.h"
#include "grammar/json_schema/reading/schema_reader.h"

namespace espalier::grammar {

// Types of JSON values; integers are numbers here.
enum class JsonType : std::uint8_t { null, boolean, number, string, array, object };

// Restricts formulas to types, each once.
class Restrictions {
 public:
  // Of the document only where schemas stand in it is asked.
  Restrictions(SchemaTables& tables, SchemaReader& reader, const SchemaDocument& document, OpenQuestions& questions)
      : tables_(tables), formulas_(tables.formulas), reader_(reader), document_(document), questions_(questions) {}

  Formula of(Formula formula, JsonType type);
  const std::optional<Error>& error() const { return error_; }
  std::size_t size() const { return restricted_.size(); }

 private:
  Formula restrict_one(const Demand& demand, bool negated, JsonType type);
  Formula read_schema(const Demand& demand, bool negated, JsonType type);

  SchemaTables& tables_;
  FormulaStore& formulas_;
  SchemaReader& reader_;
  const SchemaDocument& document_;
  OpenQuestions& questions_;
  std::optional<Error> error_;
  IncrementallyFreed<std::unordered_map<std::uint64_t, Formula>> restricted_;
  std::unordered_set<std::uint64_t> restricting_;
};

}  // namespace espalier::grammar
