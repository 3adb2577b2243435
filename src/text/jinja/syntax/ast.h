// ast.h: a parsed template.
//
// Nodes live in the Ast's deques and refer to each other by pointer; names are numbered, so that looking one up
// compares integers. Immutable after parsing, shared by all renderings.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/values/value.h"

namespace espalier::jinja {

using NameId = int;

// What an expression node is; the comments say what its children are.
enum class ExpressionKind {
  constant,
  name,
  list,
  tuple,
  dict,        // children: key, value, key, value, ...
  attribute,   // children: object; text: name
  item,        // children: object, index
  slice,       // children: object, start, stop, step; those left out are null
  call,        // children: callee
  filter,      // children: subject (null in a filter block); text: name
  test,        // children: subject; text: name
  unary,       // text: "-", "+", "not"
  binary,      // text: the operator; "and" and "or" evaluate the right side only when needed
  comparison,  // children: n + 1 operands; operators: n of ==, !=, <, <=, >, >=, in, not in
  concatenation,
  conditional,  // children: condition, then, else (may be null)
};

// The binary operators of arithmetic, comparison, joining and membership.
enum class Operator {
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  power,
  logical_and,
  logical_or,
  negate,
  plus,
  logical_not,
  eq,
  ne,
  lt,
  le,
  gt,
  ge,
  in,
  not_in
};

struct Expression;

// The arguments of a call as written, before they are evaluated.
struct CallArguments {
  std::vector<const Expression*> positional{};
  std::vector<std::pair<std::string, const Expression*>> named{};
  const Expression* all_positional = nullptr;  // *args
  const Expression* all_named = nullptr;       // **kwargs
};

// A node of an expression tree.
struct Expression {
  ExpressionKind kind;
  int line = 0;
  int depth = 1;  // of the tree below, itself included
  std::string text{};
  NameId name = -1;
  Value value{};  // constant; points into `text`
  Operator op = Operator::add;
  std::vector<Operator> operators{};
  std::vector<const Expression*> children{};
  CallArguments arguments{};
};

// Where an assignment goes.
struct Target {
  NameId name = -1;             // of the variable, or of the namespace
  std::string attribute{};      // of the namespace; empty for a variable
  std::vector<Target> parts{};  // a tuple of targets
};

// What a statement node is.
enum class StatementKind {
  text,
  print,
  for_loop,
  if_chain,
  assign,
  assign_block,
  macro,
  call_block,
  filter_block,
  with,
  scope,
  break_loop,
  continue_loop,
  unavailable
};

struct Statement;
using Body = std::vector<const Statement*>;

// A parameter of a macro, with its default.
struct Parameter {
  NameId name;
  std::string text{};
  const Expression* fallback = nullptr;
};

// A node of the template: text, an output or a tag with its body.
struct Statement {
  StatementKind kind;
  int line = 0;
  std::string text{};  // text: what to write; macro: its name; unavailable: the tag
  const Expression* expression =
      nullptr;  // print, for: iterable, assign: value, filter block: the filters, call block: the call
  const Expression* condition = nullptr;  // for: filter of the items
  Target target{};                        // for, assign, assign block
  std::vector<std::pair<const Expression*, Body>>
      branches{};  // if: conditions with bodies; the last condition may be null
  std::vector<std::pair<Target, const Expression*>> bindings{};  // with
  std::vector<Parameter> parameters{};                           // macro, call block
  Body body{}, otherwise{};
  bool recursive = false;                                               // for
  bool uses_varargs = false, uses_kwargs = false, uses_caller = false;  // macro
};

// The parsed template: owns all nodes and names.
struct Ast {
  std::deque<Expression> expressions;
  std::deque<Statement> statements;
  std::deque<std::string> names;  // by NameId
  Body body;

  NameId find_name(std::string_view name) const;  // -1: the template does not use it
};

}  // namespace espalier::jinja
