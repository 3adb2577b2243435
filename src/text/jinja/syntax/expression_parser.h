// expression_parser.h: the half of the parser that reads expressions. Internal to the parser.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/jinja/syntax/ast.h"
#include "text/jinja/syntax/lexer.h"
#include "text/jinja/syntax/token_reader.h"

namespace espalier::jinja {

// Reads expressions from tokens into an Ast, by precedence.
class ExpressionParser : protected TokenReader {
 protected:
  explicit ExpressionParser(std::vector<Token> tokens) : TokenReader(std::move(tokens)) {}

  const Expression* expression();   // with conditional
  const Expression* disjunction();  // without
  // "a, b" makes a tuple; stops before the name `stop`.
  const Expression* tuple(bool with_conditional, std::string_view stop = {}, bool in_parentheses = false);
  const Expression* filters(const Expression* subject, bool inline_start);
  Target target(bool with_namespace, std::string_view stop = {});
  CallArguments call_arguments();
  NameId name_id(const std::string& name);

  Ast ast_;
  int nesting_ = 0;

  // Counts one level of nesting while it lives.
  class Level {
   public:
    explicit Level(ExpressionParser& parser);
    ~Level() { --parser_.nesting_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    ExpressionParser& parser_;
  };

 private:
  Expression& make(ExpressionKind kind, int line);
  const Expression* finish(Expression& e);
  const Expression* binary(Operator op, const Expression* left, const Expression* right, int line);
  const Expression* unary(Operator op, const Expression* operand, int line);
  const Expression* conjunction();
  const Expression* negation();
  const Expression* comparison();
  const Expression* sum();
  const Expression* concatenation();
  const Expression* product();
  const Expression* power();
  const Expression* signed_value(bool with_filter);
  const Expression* primary();
  const Expression* literal();
  const Expression* name_or_constant();
  const Expression* list();
  const Expression* dict();
  const Expression* postfix(const Expression* object);
  const Expression* subscript(const Expression* object);
  const Expression* index();
  const Expression* call(const Expression* callee);
  const Expression* test(const Expression* subject);
  const Expression* with_filters(const Expression* node);
  std::optional<Operator> comparison_operator();
  bool tuple_ends(std::string_view stop) const;
  Target single_target(bool with_namespace);

  std::unordered_map<std::string, NameId> ids_;
};

}  // namespace espalier::jinja
