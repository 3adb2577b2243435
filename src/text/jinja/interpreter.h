// interpreter.h: one rendering of a parsed template.
// Threads: one. Fails: throws Failure with the line of the statement.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/loop_object.h"
#include "text/jinja/runtime.h"

namespace espalier::jinja {

// Variables of one block. Inner scopes see the outer ones; assignments go to the innermost.
struct Scope {
  struct Variable {
    NameId name;
    Value value;
  };
  Scope* outer = nullptr;
  std::span<Variable> room;
  std::uint32_t size = 0;
};

// Walks an Ast with variables and writes the output.
class Interpreter : public Runtime {
 public:
  // Evaluations inside one another: the parser bounds those of one expression, macros multiply them. A level takes well
  // under a kilobyte of stack.
  static constexpr int kDeepest = 1'500;

  Interpreter(const Ast& ast, const Limits& limits, std::time_t now) : Runtime(limits, now), ast_(ast) {}

  void define(std::string_view name, const Value& value);  // a variable that the template may read
  std::string render();

  Value call(const Value& callee, const Arguments& arguments) override;

 private:
  enum class Flow { on, next_round, leave_loop };

  Flow run(const Body& body);
  Flow run(const Statement& s);
  void print(const Statement& s);
  Flow if_chain(const Statement& s);
  void for_loop(const Statement& s);
  void loop_over(const Statement& s, std::span<const Value> items, Scope* around, int depth);
  std::span<const Value> filtered(const Statement& s, std::span<const Value> items, Scope* around);
  Value block_text(const Statement& s);
  void assign_block(const Statement& s);
  void call_block(const Statement& s);
  void filter_block(const Statement& s);
  void with(const Statement& s);
  void assign(const Target& target, const Value& value);
  void assign_attribute(const Target& target, const Value& value);

  Value evaluate(const Expression& e);
  Value evaluate_name(const Expression& e);
  Value evaluate_children(Kind kind, const Expression& e);
  Value evaluate_dict(const Expression& e);
  Value evaluate_binary(const Expression& e);
  Value evaluate_comparison(const Expression& e);
  Value evaluate_concatenation(const Expression& e);
  Value evaluate_filter(const Expression& e, const Value* subject);
  Value evaluate_call(const Expression& e, const Value* caller);
  Arguments arguments(const CallArguments& a);
  Value slice_part(const Expression* e);

  Value call_macro(const Callable& macro, const Arguments& given);
  Value call_loop(LoopObject& loop, const Arguments& given);
  void bind_parameters(const Callable& macro, const Arguments& given);

  Scope* new_scope(Scope* outer) { return heap_.object(Scope{outer, {}, 0}); }
  void store(Scope& scope, NameId name, const Value& value);
  const Value* look_up(NameId name) const;
  void write(std::string_view text);

  // Enters a scope while it lives.
  class Within {
   public:
    Within(Interpreter& interpreter, Scope* scope)
        : interpreter_(interpreter), before_(std::exchange(interpreter.scope_, scope)) {}
    ~Within() { interpreter_.scope_ = before_; }
    Within(const Within&) = delete;
    Within& operator=(const Within&) = delete;

   private:
    Interpreter& interpreter_;
    Scope* before_;
  };

  // Collects what is written while it lives.
  class Capture {
   public:
    explicit Capture(Interpreter& interpreter)
        : interpreter_(interpreter), before_(std::exchange(interpreter.output_, &text_)) {
      ++interpreter.captures_;
    }
    ~Capture() {
      interpreter_.output_ = before_;
      --interpreter_.captures_;
    }
    Capture(const Capture&) = delete;
    Capture& operator=(const Capture&) = delete;
    Value value() { return Value::of_string(interpreter_.heap_.text(text_)); }

   private:
    Interpreter& interpreter_;
    std::string text_;
    std::string* before_;
  };

  // Counts one level of something while it lives; refuses more than `most`.
  class Level {
   public:
    Level(int& level, int most, const char* what);
    ~Level() { --level_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    int& level_;
  };

  const Ast& ast_;
  Scope* scope_ = nullptr;
  std::string* output_ = nullptr;
  int captures_ = 0;  // output_ is a capture, not the result
  int depth_ = 0;     // evaluations inside one another
  int calls_ = 0;     // macros and recursive loops inside one another
};

}  // namespace espalier::jinja
