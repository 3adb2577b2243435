#include "grammar/json_schema/schema_grammar.h"

#include "grammar/json_schema/schema_refusals.h"

namespace espalier::grammar {

SchemaGrammar::SchemaGrammar(ExpressionStore& store, SchemaDocument document, const SchemaOptions& options)
    : document_(std::move(document)),
      options_(options),
      tables_(store),
      form_(tables_, options),
      reader_(document_, tables_, options),
      questions_(tables_),
      restrictions_(tables_, reader_, document_, questions_),
      values_(tables_, form_, restrictions_, questions_),
      texts_(tables_, form_, values_) {}

Result<std::unique_ptr<SchemaGrammar>> SchemaGrammar::make(ExpressionStore& store, const Json& schema,
                                                           const SchemaOptions& options) {
  ESP_TRY(SchemaDocument document, SchemaDocument::open(schema, [&] { return store.spend(); }));
  std::unique_ptr<SchemaGrammar> grammar(new SchemaGrammar(store, std::move(document), options));
  store.sources().add(*grammar);
  ESP_CHECK(grammar->open());
  return grammar;
}

Result<> SchemaGrammar::open() {
  ESP_CHECK(read_all());
  if (reader_.traits().compares_items) tables_.expressions.sources().set_records();
  values_.shapes().set_orders(options_.order, reader_.traits());
  // Nobody asked for declared objects to be closed: where that would leave nothing (alternatives of a oneOf that then
  // let in the same), they are as they are written.
  const bool gives_way = options_.closed == Constraint::Closed::declared && reader_.closes();
  as_written_ = gives_way && !values_.possible(schema(0)) && !restrictions_.error() && !questions_.limit_met();
  if (as_written_) {
    ESP_CHECK(reader_.formula(0, true));
    ESP_CHECK(read_all());
  }
  const Formula root = schema(0);
  const bool any = values_.possible(root);
  if (restrictions_.error()) return *restrictions_.error();
  if (questions_.limit_met()) return too_complex(document_, questions_);
  if (!any) {
    return without_value(document_, reader_.closes() && !as_written_,
                         [&](SchemaNumber part) { return !values_.possible(schema(part)) && !questions_.limit_met(); });
  }
  document_ = SchemaDocument();  // all of it has become formulas
  root_ = values_.text(root);
  return success();
}

// All schemas that can be reached are read now, so that what is refused is refused before anything is generated.
Result<> SchemaGrammar::read_all() {
  return reader_.read_all([this](SchemaNumber number) { return OpenQuestions::About(questions_, number); });
}

Formula SchemaGrammar::schema(SchemaNumber number) {
  return tables_.formulas.one({Demand::Kind::schema, number, as_written_ ? 1u : 0u, 0});
}

std::size_t SchemaGrammar::memory() const {
  constexpr std::size_t kEntry = 48;  // of a table, with what it is kept in
  return tables_.memory() + reader_.memory() + restrictions_.size() * kEntry + values_.memory();
}

Expression SchemaGrammar::rule_body(Rule rule) {
  if (const auto of_name = values_.open_names().rule_body(rule)) return *of_name;
  return settled(values_.body(rule));
}

// Where formulas have met their limit, what was made of them is incomplete; nobody must take it for an answer.
Expression SchemaGrammar::settled(Expression made) {
  if (tables_.formulas.exhausted()) tables_.expressions.exhaust();
  return made;
}

}  // namespace espalier::grammar
