// schema_grammar.h: a JSON Schema as an expression that reads exactly the values it allows.
//
// reading/ makes formulas of its keywords, formulas/ tells what is left of them behind a value, and values/ (with
// scalars/, arrays/ and objects/) makes expressions of values as texts reach them. Only what a text visits is ever
// worked out.
//
// Written form: JSON without superfluous escapes in names and in strings with a pattern; members in the order in which
// the schema names them, as far as that order tells what comes next (objects/object_shapes.h). Numbers under a bound or
// a factor have no exponent, integers no fraction.
// Threads: one at a time. The schema is looked at by make() only.
// Fails:   make(): as SchemaReader, and bad_request naming the innermost schema that no value satisfies, that has too
//          many ways, or that refers to itself without reading anything. Later never: the store is exhausted then.
#pragma once

#include <memory>

#include "grammar/json_schema/values/container_texts.h"

namespace espalier::grammar {

// The ExpressionSource of a schema: makes expressions of values as texts reach them.
class SchemaGrammar final : public ExpressionSource {
 public:
  static Result<std::unique_ptr<SchemaGrammar>> make(ExpressionStore& store, const Json& schema,
                                                     const SchemaOptions& options);

  Expression root() const { return root_; }

  Expression rule_body(Rule rule) override;
  Expression expand(std::uint32_t payload) override { return settled(texts_.expand(payload)); }
  Expression recall(std::uint32_t payload, std::string_view text) override {
    return settled(texts_.recall(payload, text));
  }
  std::uint32_t least(std::uint32_t payload) override { return texts_.least(payload); }
  std::uint32_t as_short(std::uint32_t payload) override { return texts_.as_short(payload); }
  std::size_t memory() const override;

 private:
  SchemaGrammar(ExpressionStore& store, SchemaDocument document, const SchemaOptions& options);
  Result<> open();
  Result<> read_all();
  Formula schema(SchemaNumber number);  // all that it says
  Expression settled(Expression made);

  SchemaDocument document_;  // empty once the grammar is made
  const SchemaOptions options_;
  SchemaTables tables_;
  const WrittenForm form_;
  SchemaReader reader_;
  OpenQuestions questions_;
  Restrictions restrictions_;
  SchemaValues values_;
  ContainerTexts texts_;
  bool as_written_ = false;  // closing gave way
  Expression root_ = ExpressionStore::nothing;
};

}  // namespace espalier::grammar
