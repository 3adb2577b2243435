// written_form.h: what stands around the values of a schema's texts, as expressions: whitespace, quotes, colons.
// Threads: plain values, made once on the store's thread. Fails: never.
#pragma once

#include "grammar/characters/spelling.h"
#include "grammar/json_schema/schema_options.h"
#include "grammar/json_schema/schema_tables.h"

namespace espalier::grammar {

// Made before anything else of a schema.
struct WrittenForm {
  WrittenForm(SchemaTables& tables, const SchemaOptions& options) {
    ExpressionStore& store = tables.expressions;
    any_text = store.star(tables.spelling.any_character());
    quote = store.text("\"");
    free_character = free_json_character(store);
    free_text = store.star(free_character);
    colon = store.text(":");
    quote_and_colon = store.text("\":");
    if (!options.flexible_whitespace) return;
    const Expression blank = json_space(store, options.most_space), spaced = store.concat({blank, colon, blank});
    space = store.lexeme(blank);
    colon = store.lexeme(spaced);
    quote_and_colon = store.lexeme(store.concat(quote, spaced));
  }

  Expression space = ExpressionStore::empty;  // that may stand anywhere
  Expression any_text, quote;                 // inside a string, as Spelling has it
  Expression free_character, free_text;       // in every way that JSON has
  Expression colon, quote_and_colon;          // with the space around: words
};

}  // namespace espalier::grammar
