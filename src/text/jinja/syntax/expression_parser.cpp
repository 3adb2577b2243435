#include "text/jinja/syntax/expression_parser.h"

#include <algorithm>
#include <utility>

#include "text/jinja/failure.h"
#include "text/jinja/syntax/parser.h"

namespace espalier::jinja {

ExpressionParser::Level::Level(ExpressionParser& parser) : parser_(parser) {
  if (++parser.nesting_ > kDeepest)
    parser.syntax_error("nested more than " + std::to_string(kDeepest) + " levels deep");
}

NameId ExpressionParser::name_id(const std::string& name) {
  const auto [place, is_new] = ids_.try_emplace(name, static_cast<NameId>(ast_.names.size()));
  if (is_new) ast_.names.push_back(name);
  return place->second;
}

Expression& ExpressionParser::make(ExpressionKind kind, int line) {
  ast_.expressions.push_back({.kind = kind, .line = line});
  return ast_.expressions.back();
}

// The depth counts chains such as a + b + c too, which are built in a loop but evaluated by recursion.
const Expression* ExpressionParser::finish(Expression& e) {
  const auto include = [&](const Expression* child) {
    if (child) e.depth = std::max(e.depth, child->depth + 1);
  };
  for (const Expression* child : e.children) include(child);
  for (const Expression* child : e.arguments.positional) include(child);
  for (const auto& [name, child] : e.arguments.named) include(child);
  include(e.arguments.all_positional);
  include(e.arguments.all_named);
  if (e.depth > kDeepest)
    syntax_error("an expression has more than " + std::to_string(kDeepest) + " operators inside one another");
  return &e;
}

const Expression* ExpressionParser::primary() {
  switch (token().type) {
    case TokenType::name:
      return name_or_constant();
    case TokenType::string:
    case TokenType::integer:
    case TokenType::big_integer:
    case TokenType::real:
      return literal();
    default:
      break;
  }
  if (token().is_symbol("[")) return list();
  if (token().is_symbol("{")) return dict();
  if (!skip_symbol("(")) unexpected();
  const Expression* inside = tuple(true, {}, true);
  expect_symbol(")");
  return inside;
}

const Expression* ExpressionParser::name_or_constant() {
  const Token name = take();
  const auto constant = [&](Value value) {
    Expression& e = make(ExpressionKind::constant, name.line);
    e.value = value;
    return finish(e);
  };
  if (name.text == "true" || name.text == "True") return constant(Value::of_bool(true));
  if (name.text == "false" || name.text == "False") return constant(Value::of_bool(false));
  if (name.text == "none" || name.text == "None") return constant(Value::none());
  Expression& e = make(ExpressionKind::name, name.line);
  e.text = name.text;
  e.name = name_id(name.text);
  return finish(e);
}

const Expression* ExpressionParser::literal() {
  Token first = take();
  Expression& e = make(ExpressionKind::constant, first.line);
  e.text = std::move(first.text);
  switch (first.type) {
    case TokenType::integer:
      e.value = Value::of_int(first.integer);
      break;
    case TokenType::big_integer:
      e.value = Value::of_text(Kind::big_integer, e.text);
      break;
    case TokenType::real:
      e.value = Value::of_real(first.real);
      break;
    default:  // strings that follow one another are one
      while (token().type == TokenType::string) e.text += take().text;
      e.value = Value::of_string(e.text);
  }
  return finish(e);
}

const Expression* ExpressionParser::list() {
  Expression& e = make(ExpressionKind::list, take().line);
  while (!token().is_symbol("]")) {
    if (!e.children.empty()) expect_symbol(",");
    if (token().is_symbol("]")) break;
    e.children.push_back(expression());
  }
  expect_symbol("]");
  return finish(e);
}

const Expression* ExpressionParser::dict() {
  Expression& e = make(ExpressionKind::dict, take().line);
  while (!token().is_symbol("}")) {
    if (!e.children.empty()) expect_symbol(",");
    if (token().is_symbol("}")) break;
    e.children.push_back(expression());
    expect_symbol(":");
    e.children.push_back(expression());
  }
  expect_symbol("}");
  return finish(e);
}

bool ExpressionParser::tuple_ends(std::string_view stop) const {
  const TokenType type = token().type;
  return type == TokenType::variable_end || type == TokenType::block_end || type == TokenType::end ||
         token().is_symbol(")") || (!stop.empty() && token().is_name(stop));
}

const Expression* ExpressionParser::tuple(bool with_conditional, std::string_view stop, bool in_parentheses) {
  const Level level(*this);
  const int line = token().line;
  std::vector<const Expression*> parts;
  bool is_tuple = false;
  while (!tuple_ends(stop)) {
    parts.push_back(with_conditional ? expression() : disjunction());
    if (!token().is_symbol(",")) break;
    take();
    is_tuple = true;
  }
  if (parts.empty() && !in_parentheses) unexpected();
  if (!is_tuple && !parts.empty()) return parts.front();
  Expression& e = make(ExpressionKind::tuple, line);
  e.children = std::move(parts);
  return finish(e);
}

const Expression* ExpressionParser::postfix(const Expression* object) {
  for (;;) {
    if (token().is_symbol(".") || token().is_symbol("[")) {
      object = subscript(object);
    } else if (token().is_symbol("(")) {
      object = call(object);
    } else {
      return object;
    }
  }
}

const Expression* ExpressionParser::subscript(const Expression* object) {
  const Token open = take();
  if (open.text == ".") {
    const Token name = take();
    Expression& e = make(name.type == TokenType::name ? ExpressionKind::attribute : ExpressionKind::item, name.line);
    e.children = {object};
    if (name.type == TokenType::name) {
      e.text = name.text;
    } else if (name.type == TokenType::integer) {
      Expression& number = make(ExpressionKind::constant, name.line);
      number.value = Value::of_int(name.integer);
      e.children.push_back(&number);
    } else {
      syntax_error("expected a name or a number after '.'");
    }
    return finish(e);
  }
  const Expression* inside = index();
  if (inside->kind == ExpressionKind::slice) {
    const_cast<Expression*>(inside)->children[0] = object;  // made by index() for this place
    expect_symbol("]");
    return finish(const_cast<Expression&>(*inside));
  }
  Expression& e = make(ExpressionKind::item, open.line);
  std::vector<const Expression*> several = {inside};
  while (skip_symbol(",")) several.push_back(index());
  if (several.size() > 1) {
    Expression& all = make(ExpressionKind::tuple, open.line);
    all.children = std::move(several);
    inside = finish(all);
  }
  e.children = {object, inside};
  expect_symbol("]");
  return finish(e);
}

// What stands in brackets: an expression, or a slice whose object is still to be filled in.
const Expression* ExpressionParser::index() {
  const Level level(*this);
  const int line = token().line;
  const Expression* first = token().is_symbol(":") ? nullptr : expression();
  if (!token().is_symbol(":")) return first;
  Expression& e = make(ExpressionKind::slice, line);
  e.children = {nullptr, first, nullptr, nullptr};
  for (std::size_t i = 2; i < 4 && skip_symbol(":"); ++i)
    if (!token().is_symbol(":") && !token().is_symbol("]") && !token().is_symbol(",")) e.children[i] = expression();
  return &e;
}

CallArguments ExpressionParser::call_arguments() {
  const Level level(*this);
  CallArguments all;
  expect_symbol("(");
  bool first = true;
  while (!token().is_symbol(")")) {
    if (!first) {
      expect_symbol(",");
      if (token().is_symbol(")")) break;
    }
    first = false;
    if (skip_symbol("**")) {
      all.all_named = expression();
    } else if (skip_symbol("*")) {
      all.all_positional = expression();
    } else if (token().type == TokenType::name && look().is_symbol("=")) {
      const std::string name = take().text;
      take();
      all.named.emplace_back(name, expression());
    } else {
      if (!all.named.empty() || all.all_named) syntax_error("an argument without a name follows one with a name");
      all.positional.push_back(expression());
    }
  }
  expect_symbol(")");
  return all;
}

const Expression* ExpressionParser::call(const Expression* callee) {
  Expression& e = make(ExpressionKind::call, token().line);
  e.children = {callee};
  e.arguments = call_arguments();
  return finish(e);
}

const Expression* ExpressionParser::with_filters(const Expression* node) {
  for (;;) {
    if (token().is_symbol("|")) {
      node = filters(node, false);
    } else if (token().is_name("is")) {
      node = test(node);
    } else if (token().is_symbol("(")) {
      node = call(node);
    } else {
      return node;
    }
  }
}

// `inline_start`: the first filter's name stands without a bar before it ({% filter upper|trim %}).
const Expression* ExpressionParser::filters(const Expression* subject, bool inline_start) {
  while (inline_start || token().is_symbol("|")) {
    if (!inline_start) take();
    inline_start = false;
    Expression& e = make(ExpressionKind::filter, token().line);
    e.text = expect_name("a filter's name");
    while (skip_symbol(".")) e.text += "." + expect_name("a filter's name");
    e.children = {subject};
    if (token().is_symbol("(")) e.arguments = call_arguments();
    subject = finish(e);
  }
  return subject;
}

const Expression* ExpressionParser::test(const Expression* subject) {
  const int line = take().line;
  const bool negated = skip_name("not");
  Expression& e = make(ExpressionKind::test, line);
  e.text = expect_name("a test's name");
  while (skip_symbol(".")) e.text += "." + expect_name("a test's name");
  e.children = {subject};
  const TokenType type = token().type;
  const bool keyword = token().is_name("else") || token().is_name("or") || token().is_name("and") ||
                       token().is_name("if") || token().is_name("not") || token().is_name("in");
  const bool value = type == TokenType::string || type == TokenType::integer || type == TokenType::real ||
                     (type == TokenType::name && !keyword) || token().is_symbol("[") || token().is_symbol("{");
  if (token().is_symbol("(")) {
    e.arguments = call_arguments();
  } else if (value) {
    if (token().is_name("is")) syntax_error("tests cannot be chained with 'is'");
    const Level level(*this);
    e.arguments.positional.push_back(postfix(primary()));
  }
  const Expression* result = finish(e);
  return negated ? unary(Operator::logical_not, result, line) : result;
}

Target ExpressionParser::single_target(bool with_namespace) {
  if (token().is_symbol("(")) {
    take();
    Target inside = target(with_namespace);
    expect_symbol(")");
    return inside;
  }
  Target t;
  const std::string name = expect_name("a variable's name");
  for (const char* reserved : {"true", "false", "none", "True", "False", "None"})
    if (name == reserved) syntax_error("cannot assign to " + name);
  t.name = name_id(name);
  if (with_namespace && skip_symbol(".")) t.attribute = expect_name("an attribute's name");
  return t;
}

Target ExpressionParser::target(bool with_namespace, std::string_view stop) {
  const Level level(*this);
  Target first = single_target(with_namespace);
  if (!token().is_symbol(",")) return first;
  Target all;
  all.parts.push_back(std::move(first));
  while (skip_symbol(",")) {
    if (tuple_ends(stop) || token().is_symbol("=")) break;
    all.parts.push_back(single_target(with_namespace));
  }
  return all;
}

}  // namespace espalier::jinja
