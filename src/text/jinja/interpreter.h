// interpreter.h: one rendering of a parsed template.
// Threads: one. Fails: throws Failure with the line of the statement.
#pragma once

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/jinja/builtins/loop_object.h"
#include "text/jinja/runtime.h"
#include "text/jinja/syntax/ast.h"

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

// Text that is being written.
struct Output {
  std::string text;
  std::string own;  // when the heap traces: for each byte, whether the template wrote it
};

// One rendering.
class Interpreter : public Runtime {
 public:
  // Evaluations inside one another: the parser bounds those of one expression, macros multiply them. A level takes well
  // under a kilobyte of stack.
  static constexpr int kDeepest = 1'500;

  // `traces`: for each byte of the result it becomes known whether the template wrote it.
  Interpreter(const Ast& ast, const Limits& limits, std::time_t now, bool traces = false)
      : Runtime(limits, now, traces), ast_(ast) {}

  void define(std::string_view name, const Value& value);  // a variable that the template may read
  Output render();

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
  Value constant(const Expression& e);
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
  void write_own(std::string_view text);  // of the template itself
  void charge(std::size_t bytes);         // about to be written

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
        : interpreter_(interpreter), before_(std::exchange(interpreter.output_, &output_)) {
      ++interpreter.captures_;
    }
    ~Capture() {
      interpreter_.output_ = before_;
      --interpreter_.captures_;
    }
    Capture(const Capture&) = delete;
    Capture& operator=(const Capture&) = delete;
    Value value() {
      Heap& heap = interpreter_.heap_;
      return Value::of_string(heap.traces() ? heap.text(output_.text, output_.own) : heap.text(output_.text));
    }

   private:
    Interpreter& interpreter_;
    Output output_;
    Output* before_;
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
  Output* output_ = nullptr;
  int captures_ = 0;  // output_ is a capture, not the result
  int depth_ = 0;     // evaluations inside one another
  int calls_ = 0;     // macros and recursive loops inside one another
  std::unordered_map<const Expression*, Value>
      constants_;  // when the heap traces: as copies that count as the template's
};

}  // namespace espalier::jinja
