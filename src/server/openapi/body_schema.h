// body_schema.h: the tables that bodies are read by (fields/field_table.h) as JSON Schema: what a reader accepts is what
// its description says.
//
// A row that is read by a function of its own has no type here: its meaning says what may stand there.
// Threads: pure functions. Fails: never.
// Source:  JSON Schema 2020-12, as OpenAPI 3.1 uses it.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/json/json.h"
#include "server/fields/field_table.h"

namespace espalier::server {

// The schema of one value by the type of its row's target. All may be null, which means the default.
struct SchemaOfTarget {
  FieldRange range;

  template <class T>
  Json operator()(bool T::*) const {
    return typed("boolean");
  }
  template <class T>
  Json operator()(int T::*) const {
    return number("integer");
  }
  template <class T>
  Json operator()(double T::*) const {
    return number("number");
  }
  template <class T>
  Json operator()(std::string T::*) const {
    return typed("string");
  }
  template <class T>
  Json operator()(std::optional<bool> T::*) const {
    return typed("boolean");
  }
  template <class T>
  Json operator()(std::optional<int> T::*) const {
    return number("integer");
  }
  template <class T>
  Json operator()(std::optional<double> T::*) const {
    return number("number");
  }
  template <class T>
  Json operator()(std::optional<std::string> T::*) const {
    return typed("string");
  }
  template <class T>
  Json operator()(std::vector<TokenId> T::*) const {
    Json schema = typed("array");
    schema["items"] = {{"type", "integer"}, {"minimum", 0}};
    return schema;
  }
  template <class T>
  Json operator()(FieldReader<T>) const {
    return Json::object();
  }

 private:
  static Json typed(const char* type);
  Json number(const char* type) const;
};

// `initial` becomes the schema's default where it is a value, and words of the description where it is not.
void describe_field(Json& schema, std::string_view meaning, std::string_view initial);

// Adds the rows to the "properties" of `object`.
template <class T>
void add_rows(Json& object, std::span<const FieldRow<T>> rows) {
  for (const FieldRow<T>& row : rows) {
    Json schema = std::visit(SchemaOfTarget{row.range}, row.target);
    describe_field(schema, row.meaning, row.initial);
    object["properties"][std::string(row.name)] = std::move(schema);
  }
}

}  // namespace espalier::server
