// equal_values.h: formulas for exactly one value.
//
// Equality is that of JSON Schema: 1 and 1.0 are one number, members may come in any order.
// Threads: one at a time.
// Fails:   of(): bad_request for a number that is too long. of_text() never: numbers of many hundred digits stand for
//          their neighbours too, what is nested a thousand times for all arrays or objects.
#pragma once

#include <string>
#include <string_view>

#include "base/json/json.h"
#include "espalier/error.h"
#include "grammar/json_schema/schema_tables.h"

namespace espalier::grammar {

// Makes them.
class EqualValues {
 public:
  explicit EqualValues(SchemaTables& tables) : tables_(tables) {}

  // A value that a schema has. Spellings of its numbers are ways in which they may be written.
  Result<Formula> of(const Json& value) { return equal_to(value, false); }
  // One that somebody has written; of several members of one name the last one counts.
  Formula of_text(std::string_view json);

 private:
  Formula one(Demand::Kind kind, std::uint32_t a, std::uint32_t b = 0) { return tables_.formulas.one({kind, a, b, 0}); }
  Result<Formula> equal_to(const Json& value, bool written);
  Result<Formula> equal_to_array(const Json& value, bool written);
  Result<Formula> equal_to_object(const Json& value, bool written);
  Result<Formula> equal_to_number(const std::string& text);
  Formula equal_to_written(const std::string& number);

  SchemaTables& tables_;
};

}  // namespace espalier::grammar
