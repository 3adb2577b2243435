// parameter_text.h: the members of an object as models write the arguments of a call: each between marks of its own,
// texts as they are and everything else as JSON.
//
//   <parameter=city>Lima</parameter>
//   <parameter=days>[1, 2]</parameter>
// Members come in the order of `properties`; those that are not required may be left out, others cannot come. A text
// goes up to the first mark that ends it; whitespace is allowed around members, JSON, and texts with an enum, const,
// pattern, format or length. Where a value may be a text or something else, both ways to write it are allowed.
// Threads: as the store.
// Fails:   unsupported for schemas that say more of the object, or of a text, than this can enforce, naming keyword and
//          JSON pointer in the schema; bad_request for malformed ones.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "grammar/automaton/expression.h"
#include "grammar/automaton/free_text.h"
#include "grammar/characters/spelling.h"

namespace espalier::grammar {

// The marks that one family of models writes around a member's name and value.
struct ParameterStyle {
  std::string_view name;
  std::string_view begin;                 // the member's name follows
  std::string_view after_name, of_value;  // then this (and space, and of_value if there is one)
  std::string_view before_text, before_json;
  std::string_view end;
};
std::span<const ParameterStyle> parameter_styles();

// Builds the expression of an object's members in a style.
class ParameterText {
 public:
  using MakeJson = std::function<Result<Expression>(const Json& schema)>;
  // `space`: what may stand around members.
  ParameterText(ExpressionStore& store, const ParameterStyle& style, Expression space, MakeJson make_json);

  Result<Expression> whole(const Json& schema);

 private:
  struct Value {
    std::vector<Expression> texts;
    std::vector<Json> schemas;  // of what is written as JSON
  };

  Result<const Json*> resolved(const Json& schema, std::string& place) const;
  Result<> check_references() const;
  Result<> check_object(const Json& object, const std::string& place) const;
  Result<std::set<std::string>> required(const Json& object, const std::string& place) const;
  Result<Expression> member(const std::string& name, const Json& schema, const std::string& place);
  Result<Expression> json(const std::vector<Json>& schemas);
  Json document_of(Json schema) const;

  Result<Value> value(const Json& schema, std::string place, int depth);
  Result<Value> typed(const Json& schema, const std::string& place, const std::vector<std::string>& types);
  Result<Value> listed(const Json& schema, const std::string& place, const std::vector<std::string>& types);
  Result<Value> chosen(const Json& schema, const std::string& place, std::string_view keyword, int depth);
  Result<Expression> text(const Json& schema, const std::string& place, bool only_text);
  Result<std::optional<Expression>> matching(const Json& schema, const std::string& place);
  Expression spaced(Expression inner) { return store_.concat({space_, inner, space_}); }

  ExpressionStore& store_;
  const ParameterStyle& style_;
  Spelling spelling_;
  FreeText free_text_;
  Expression space_;
  MakeJson make_json_;
  const Json* root_ = nullptr;
};

}  // namespace espalier::grammar
