// schema_reader.h: the schemas of a document become formulas, each when it is asked for.
//
// What a keyword means stands in keywords.h, what it may ask about its schema in reading.h.
// Threads: one at a time.
// Fails:   as Reading, with the keyword and the JSON pointer as field.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "base/incremental_free.h"
#include "grammar/json_schema/reading/reading.h"

namespace espalier::grammar {

// Reads schemas into formulas, keyword by keyword.
class SchemaReader {
 public:
  SchemaReader(SchemaDocument& document, SchemaTables& tables, const SchemaOptions& options)
      : context_(document, tables, options) {}

  // Reads all schemas that can be reached. `about` is asked for an object that lives while the schema is read.
  template <class About>
  Result<> read_all(About about);
  // What the schema says. `as_written`: nothing is closed.
  Result<Formula> formula(SchemaNumber number, bool as_written = false);
  bool closes() const { return context_.closes; }
  const SchemaTraits& traits() const { return context_.traits; }  // of what was read so far
  std::size_t memory() const { return formulas_.size() * 32; }    // bytes, about

 private:
  Result<> read_in_order(Reading& in, bool only_ref);

  ReadingContext context_;
  IncrementallyFreed<std::unordered_map<std::uint64_t, Formula>>
      formulas_;  // by number, and whether it is read as written
};

template <class About>
Result<> SchemaReader::read_all(About about) {
  SchemaNumber number = 0;
  for (std::size_t condition = 0; context_.tables.goes_on();) {
    if (number < context_.document.size()) {
      const auto reading = about(number);
      ESP_CHECK(formula(number++));
    } else if (condition < context_.conditions.size()) {
      const auto reading = about(context_.conditions[condition]);
      ESP_CHECK(formula(context_.conditions[condition++], true));
    } else {
      break;
    }
  }
  return success();
}

}  // namespace espalier::grammar
