// reading.h: one schema while its keywords are read: what it says so far, and what every keyword asks about its place.
//
// Schemas inside are single constraints `schema n`, read when they are needed, so that recursion costs nothing here.
// Closing objects and arrays (SchemaOptions::closed) leaves out values and never adds one: where a schema is a
// condition (not, if, what a oneOf excludes, what maxContains counts) it is read as it is written.
// Threads: one at a time.
// Fails:   bad_request (a keyword's value is malformed) and unsupported (it cannot be honoured), both with the keyword
//          and the JSON pointer as field.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "grammar/json_schema/formulas/formula.h"
#include "grammar/json_schema/reading/schema_document.h"
#include "grammar/json_schema/schema_options.h"
#include "grammar/json_schema/schema_tables.h"

namespace espalier::grammar {

// What the schemas that were read so far have in common, which decides more than their formulas.
struct SchemaTraits {
  // One relates members or whole schemas to one another (oneOf of objects, not, if, dependencies, names, contents,
  // formats of somebody's own): it describes documents whose order is not its own.
  bool describes_documents = false;
  bool chooses = false;         // there was a oneOf, of whatever
  bool compares_items = false;  // what may follow an item depends on its value
};

// Strings that a pattern or a format allows; each is parsed once.
class TextPatterns {
 public:
  explicit TextPatterns(SchemaTables& tables) : tables_(tables) {}
  Result<Expression> matching(const std::string& source);
  Result<Expression> of_format(const Regex& regex);

 private:
  SchemaTables& tables_;
  std::unordered_map<std::string, Expression> patterns_;
  std::unordered_map<const Regex*, Expression> formats_;
};

// What the readings of a document's schemas share.
struct ReadingContext {
  ReadingContext(SchemaDocument& of_document, SchemaTables& of_tables, const SchemaOptions& options)
      : document(of_document),
        tables(of_tables),
        patterns(of_tables),
        all_closed(options.closed == Constraint::Closed::all),
        closes(all_closed || (options.closed == Constraint::Closed::declared && !of_document.combines())) {}

  SchemaDocument& document;
  SchemaTables& tables;
  TextPatterns patterns;
  const bool all_closed, closes;
  SchemaTraits traits = {};
  std::vector<SchemaNumber> conditions = {};  // that are to be read as written, each once
  std::unordered_set<SchemaNumber> known_conditions = {};
};

// A schema that is being read, and the formulas that its keywords have become.
struct Reading {
  ReadingContext& context;
  SchemaNumber number = 0;
  const Json& schema;
  bool as_written = false;  // nothing is closed
  std::vector<Formula> parts = {};

  SchemaTables& tables() const { return context.tables; }
  SchemaDocument& document() const { return context.document; }
  SchemaTraits& traits() const { return context.traits; }
  Draft draft() const { return context.document.draft(number); }
  const Json* find(const char* keyword) const {
    const auto found = schema.find(keyword);
    return found == schema.end() ? nullptr : &*found;
  }
  Formula one(Demand::Kind kind, std::uint32_t a, std::uint32_t b = 0, std::uint32_t c = 0) const {
    return context.tables.formulas.one({kind, a, b, c});
  }

  Formula applied(SchemaNumber to_the_same_value) const;
  Formula subschema(const Json& value, std::string_view keyword, std::string_view token = {}) const;
  // The same where it decides what else must hold.
  Formula condition(const Json& value, std::string_view keyword, std::string_view token = {}) const;
  Result<std::vector<Formula>> list(const Json& value, std::string_view keyword) const;
  Result<Expression> pattern(const std::string& source, std::string_view keyword) const;
  Result<std::uint32_t> count(const Json& value, std::string_view keyword) const;
  Result<Decimal> decimal(const Json& value, std::string_view keyword) const;
  Error refuse(std::string_view keyword, std::string_view why) const;
  // `token`: of what the keyword has, the member at fault.
  Error malformed(std::string_view keyword, std::string_view wanted, std::optional<std::string_view> token = {}) const;
};

}  // namespace espalier::grammar
