#include "text/jinja/interpreter.h"

#include <algorithm>

#include "text/jinja/failure.h"
#include "text/jinja/operations.h"
#include "text/jinja/values/text_form.h"

namespace espalier::jinja {
namespace {

Failure at_line(Failure failure, int line) {
  if (failure.line == 0) failure.line = line;
  return failure;
}

}  // namespace

Interpreter::Level::Level(int& level, int most, const char* what) : level_(level) {
  if (level >= most)
    throw Failure{Failure::Kind::limit, std::string(what) + " more than " + std::to_string(most) + " levels deep"};
  ++level;
}

void Interpreter::define(std::string_view name, const Value& value) {
  if (!scope_) scope_ = new_scope(nullptr);
  if (const NameId id = ast_.find_name(name); id >= 0) store(*scope_, id, value);
}

Output Interpreter::render() {
  Output result;
  output_ = &result;
  if (!scope_) scope_ = new_scope(nullptr);
  const Within globals(*this, new_scope(scope_));
  run(ast_.body);
  return result;
}

void Interpreter::store(Scope& scope, NameId name, const Value& value) {
  for (Scope::Variable& variable : scope.room.first(scope.size)) {
    if (variable.name != name) continue;
    variable.value = value;
    return;
  }
  if (scope.size == scope.room.size()) {
    const auto more = heap_.array<Scope::Variable>(std::max<std::size_t>(4, scope.room.size() * 2));
    std::copy(scope.room.begin(), scope.room.end(), more.begin());
    scope.room = more;
  }
  scope.room[scope.size++] = {name, value};
}

const Value* Interpreter::look_up(NameId name) const {
  for (const Scope* scope = scope_; scope; scope = scope->outer)
    for (const Scope::Variable& variable : scope->room.first(scope->size))
      if (variable.name == name) return &variable.value;
  return nullptr;
}

void Interpreter::charge(std::size_t bytes) {
  const std::size_t written = output_->text.size();
  if (captures_ == 0) {
    if (bytes > heap_.limits().output_bytes - std::min(written, heap_.limits().output_bytes))
      throw Failure{Failure::Kind::limit,
                    "the chat template writes more than " + std::to_string(heap_.limits().output_bytes >> 20) + " MiB"};
  } else {
    heap_.reserve(written + bytes);
  }
  heap_.scan(bytes);
}

void Interpreter::write(std::string_view text) {
  charge(text.size());
  output_->text.append(text);
  if (heap_.traces()) heap_.origins(text, output_->own);
}

void Interpreter::write_own(std::string_view text) {
  charge(text.size());
  output_->text.append(text);
  if (heap_.traces()) output_->own.append(text.size(), '\1');
}

Interpreter::Flow Interpreter::run(const Body& body) {
  for (const Statement* s : body) {
    const Flow flow = run(*s);
    if (flow != Flow::on) return flow;
  }
  return Flow::on;
}

Interpreter::Flow Interpreter::run(const Statement& s) try {
  const Level level(depth_, kDeepest, "the chat template works");
  heap_.step();
  switch (s.kind) {
    case StatementKind::text:
      write_own(s.text);
      break;
    case StatementKind::print:
      print(s);
      break;
    case StatementKind::for_loop:
      for_loop(s);
      break;
    case StatementKind::if_chain:
      return if_chain(s);
    case StatementKind::assign:
      assign(s.target, evaluate(*s.expression));
      break;
    case StatementKind::assign_block:
      assign_block(s);
      break;
    case StatementKind::macro: {
      const Callable macro{.name = s.text, .macro = &s, .scope = scope_};
      store(*scope_, s.target.name, Value::of_pointer(Kind::callable, heap_.object(macro)));
      break;
    }
    case StatementKind::call_block:
      call_block(s);
      break;
    case StatementKind::filter_block:
      filter_block(s);
      break;
    case StatementKind::with:
      with(s);
      break;
    case StatementKind::scope: {
      const Within inside(*this, new_scope(scope_));
      return run(s.body);
    }
    case StatementKind::break_loop:
      return Flow::leave_loop;
    case StatementKind::continue_loop:
      return Flow::next_round;
    case StatementKind::unavailable:
      fail("{% " + s.text + " %} is not available: a chat template stands alone");
  }
  return Flow::on;
} catch (Failure& failure) {
  throw at_line(std::move(failure), s.line);
}

void Interpreter::print(const Statement& s) {
  const Value value = evaluate(*s.expression);
  if (value.is_string()) return write(value.text());
  Text text(heap_);
  add_text(text, value);
  write(text.view());
}

Interpreter::Flow Interpreter::if_chain(const Statement& s) {
  for (const auto& [condition, body] : s.branches)
    if (!condition || truthy(evaluate(*condition))) return run(body);
  return Flow::on;
}

void Interpreter::for_loop(const Statement& s) {
  const Value iterable = evaluate(*s.expression);
  loop_over(s, elements_of(heap_, iterable), scope_, 0);
}

std::span<const Value> Interpreter::filtered(const Statement& s, std::span<const Value> items, Scope* around) {
  const auto kept = heap_.array<Value>(items.size());
  std::size_t n = 0;
  const Within inside(*this, new_scope(around));
  for (const Value& value : items) {
    scope_->size = 0;
    assign(s.target, value);
    if (truthy(evaluate(*s.condition))) kept[n++] = value;
  }
  return kept.first(n);
}

void Interpreter::loop_over(const Statement& s, std::span<const Value> items, Scope* around, int depth) {
  if (s.condition) items = filtered(s, items, around);
  if (items.empty()) {
    const Within inside(*this, new_scope(around));
    run(s.otherwise);
    return;
  }
  LoopObject* loop = heap_.object(
      LoopObject{.items = items, .depth = depth, .statement = s.recursive ? &s : nullptr, .scope = around});
  const Value loop_value = Value::of_pointer(Kind::loop, loop);
  const NameId loop_name = ast_.find_name("loop");
  const Within inside(*this, new_scope(around));
  for (std::size_t i = 0; i < items.size(); ++i) {
    heap_.step();
    loop->index = static_cast<std::uint32_t>(i);
    scope_->size = 0;  // what the last round assigned is gone
    store(*scope_, loop_name, loop_value);
    assign(s.target, items[i]);
    if (run(s.body) == Flow::leave_loop) break;
  }
}

void Interpreter::assign(const Target& target, const Value& value) {
  if (target.parts.empty()) {
    if (target.attribute.empty()) return store(*scope_, target.name, value);
    return assign_attribute(target, value);
  }
  const auto parts = elements_of(heap_, value);
  if (parts.size() != target.parts.size())
    fail("cannot unpack " + std::to_string(parts.size()) + " values into " + std::to_string(target.parts.size()) +
         " variables");
  for (std::size_t i = 0; i < parts.size(); ++i) assign(target.parts[i], parts[i]);
}

void Interpreter::assign_attribute(const Target& target, const Value& value) {
  const std::string& name = ast_.names[static_cast<std::size_t>(target.name)];
  const Value* space = look_up(target.name);
  if (!space || space->kind != Kind::name_space) fail("cannot assign attribute on non-namespace object '" + name + "'");
  if (target.attribute.starts_with("_"))
    fail("namespace attributes must not begin with an underscore, as '" + target.attribute + "' does");
  Namespace& all = *space->name_space;
  for (Entry& entry : all.room.first(all.size)) {
    if (entry.key.text() != target.attribute) continue;
    entry.value = value;
    return;
  }
  if (all.size == all.room.size()) {
    const auto more = heap_.array<Entry>(std::max<std::size_t>(4, all.room.size() * 2));
    std::copy(all.room.begin(), all.room.end(), more.begin());
    all.room = more;
  }
  all.room[all.size++] = {Value::of_string(target.attribute), value};
}

Value Interpreter::block_text(const Statement& s) {
  const Within inside(*this, new_scope(scope_));
  Capture text(*this);
  run(s.body);
  return text.value();
}

void Interpreter::assign_block(const Statement& s) {
  Value value = block_text(s);
  if (s.expression) value = evaluate_filter(*s.expression, &value);
  assign(s.target, value);
}

void Interpreter::filter_block(const Statement& s) {
  const Value value = block_text(s);
  write(text_of(heap_, evaluate_filter(*s.expression, &value)));
}

void Interpreter::call_block(const Statement& s) {
  const Callable body{.name = "caller", .macro = &s, .scope = scope_};
  const Value caller = Value::of_pointer(Kind::callable, heap_.object(body));
  write(text_of(heap_, evaluate_call(*s.expression, &caller)));
}

void Interpreter::with(const Statement& s) {
  std::vector<Value> values;
  for (const auto& [target, expression] : s.bindings) values.push_back(evaluate(*expression));
  const Within inside(*this, new_scope(scope_));
  for (std::size_t i = 0; i < values.size(); ++i) assign(s.bindings[i].first, values[i]);
  run(s.body);
}

}  // namespace espalier::jinja
