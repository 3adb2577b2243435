// The precedences of operators, from the conditional down to signs.
#include <algorithm>
#include <utility>

#include "text/jinja/syntax/expression_parser.h"

namespace espalier::jinja {

const Expression* ExpressionParser::binary(Operator op, const Expression* left, const Expression* right, int line) {
  Expression& e = make(ExpressionKind::binary, line);
  e.op = op;
  e.children = {left, right};
  return finish(e);
}

const Expression* ExpressionParser::unary(Operator op, const Expression* operand, int line) {
  Expression& e = make(ExpressionKind::unary, line);
  e.op = op;
  e.children = {operand};
  return finish(e);
}

const Expression* ExpressionParser::expression() {
  const Level level(*this);
  const Expression* result = disjunction();
  while (token().is_name("if")) {
    Expression& e = make(ExpressionKind::conditional, take().line);
    const Expression* condition = disjunction();
    const Expression* otherwise = skip_name("else") ? expression() : nullptr;
    e.children = {condition, result, otherwise};
    result = finish(e);
  }
  return result;
}

const Expression* ExpressionParser::disjunction() {
  const Expression* left = conjunction();
  while (token().is_name("or")) {
    const int line = take().line;
    left = binary(Operator::logical_or, left, conjunction(), line);
  }
  return left;
}

const Expression* ExpressionParser::conjunction() {
  const Expression* left = negation();
  while (token().is_name("and")) {
    const int line = take().line;
    left = binary(Operator::logical_and, left, negation(), line);
  }
  return left;
}

const Expression* ExpressionParser::negation() {
  if (!token().is_name("not")) return comparison();
  const Level level(*this);
  const int line = take().line;
  return unary(Operator::logical_not, negation(), line);
}

std::optional<Operator> ExpressionParser::comparison_operator() {
  constexpr std::pair<std::string_view, Operator> symbols[] = {{"==", Operator::eq}, {"!=", Operator::ne},
                                                               {"<", Operator::lt},  {"<=", Operator::le},
                                                               {">", Operator::gt},  {">=", Operator::ge}};
  for (const auto& [symbol, op] : symbols)
    if (skip_symbol(symbol)) return op;
  if (skip_name("in")) return Operator::in;
  if (token().is_name("not") && look().is_name("in")) {
    take();
    take();
    return Operator::not_in;
  }
  return std::nullopt;
}

const Expression* ExpressionParser::comparison() {
  const int line = token().line;
  const Expression* first = sum();
  auto op = comparison_operator();
  if (!op) return first;
  Expression& e = make(ExpressionKind::comparison, line);
  e.children = {first};
  for (; op; op = comparison_operator()) {
    e.operators.push_back(*op);
    e.children.push_back(sum());
  }
  return finish(e);
}

const Expression* ExpressionParser::sum() {
  const Expression* left = concatenation();
  while (token().is_symbol("+") || token().is_symbol("-")) {
    const Token op = take();
    left = binary(op.text == "+" ? Operator::add : Operator::subtract, left, concatenation(), op.line);
  }
  return left;
}

const Expression* ExpressionParser::concatenation() {
  const int line = token().line;
  const Expression* first = product();
  if (!token().is_symbol("~")) return first;
  Expression& e = make(ExpressionKind::concatenation, line);
  e.children = {first};
  while (skip_symbol("~")) e.children.push_back(product());
  return finish(e);
}

const Expression* ExpressionParser::product() {
  constexpr std::pair<std::string_view, Operator> symbols[] = {
      {"*", Operator::multiply}, {"/", Operator::divide}, {"//", Operator::floor_divide}, {"%", Operator::modulo}};
  const Expression* left = power();
  for (;;) {
    const auto* found =
        std::find_if(std::begin(symbols), std::end(symbols), [&](const auto& s) { return token().is_symbol(s.first); });
    if (found == std::end(symbols)) return left;
    const int line = take().line;
    left = binary(found->second, left, power(), line);
  }
}

// Written like a left-associative operator, as Jinja does it: 2 ** 3 ** 2 is 64.
const Expression* ExpressionParser::power() {
  const Expression* left = signed_value(true);
  while (token().is_symbol("**")) {
    const int line = take().line;
    left = binary(Operator::power, left, signed_value(true), line);
  }
  return left;
}

const Expression* ExpressionParser::signed_value(bool with_filter) {
  const Level level(*this);
  const Expression* node = nullptr;
  if (token().is_symbol("-") || token().is_symbol("+")) {
    const Token sign = take();
    node = unary(sign.text == "-" ? Operator::negate : Operator::plus, signed_value(false), sign.line);
  } else {
    node = primary();
  }
  node = postfix(node);
  return with_filter ? with_filters(node) : node;
}

}  // namespace espalier::jinja
