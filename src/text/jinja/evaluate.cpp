// Expressions and calls.
#include <algorithm>

#include "text/jinja/failure.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operations.h"
#include "text/jinja/values/text_form.h"

namespace espalier::jinja {

Arguments Arguments::without_first(std::size_t n) const {
  Arguments rest = *this;
  rest.positional.erase(rest.positional.begin(),
                        rest.positional.begin() + static_cast<std::ptrdiff_t>(std::min(n, positional.size())));
  return rest;
}

Value Runtime::filter(std::string_view name, const Value& subject, const Arguments& arguments) {
  const Function function = find_filter(name);
  if (!function) fail("there is no filter named '" + std::string(name) + "'");
  heap_.step();
  return function(*this, subject, arguments);
}

bool Runtime::test(std::string_view name, const Value& subject, const Arguments& arguments) {
  const Function function = find_test(name);
  if (!function) fail("there is no test named '" + std::string(name) + "'");
  heap_.step();
  return truthy(function(*this, subject, arguments));
}

Value Interpreter::evaluate(const Expression& e) {
  const Level level(depth_, kDeepest, "the chat template works");
  heap_.step();
  const auto child = [&](std::size_t i) { return evaluate(*e.children[i]); };
  switch (e.kind) {
    case ExpressionKind::constant:
      return constant(e);
    case ExpressionKind::name:
      return evaluate_name(e);
    case ExpressionKind::list:
      return evaluate_children(Kind::list, e);
    case ExpressionKind::tuple:
      return evaluate_children(Kind::tuple, e);
    case ExpressionKind::dict:
      return evaluate_dict(e);
    case ExpressionKind::attribute:
      return attribute(heap_, child(0), e.text);
    case ExpressionKind::item: {
      const Value object = child(0);
      return item(heap_, object, child(1));
    }
    case ExpressionKind::slice: {
      const Value object = child(0), start = slice_part(e.children[1]), stop = slice_part(e.children[2]);
      return slice(heap_, object, start, stop, slice_part(e.children[3]));
    }
    case ExpressionKind::call:
      return evaluate_call(e, nullptr);
    case ExpressionKind::filter:
      return evaluate_filter(e, nullptr);
    case ExpressionKind::test: {
      const Value subject = child(0);
      return Value::of_bool(test(e.text, subject, arguments(e.arguments)));
    }
    case ExpressionKind::unary: {
      const Value operand = child(0);
      if (e.op == Operator::logical_not) return Value::of_bool(!truthy(operand));
      return e.op == Operator::negate ? negate(operand) : negate(negate(operand));
    }
    case ExpressionKind::binary:
      return evaluate_binary(e);
    case ExpressionKind::comparison:
      return evaluate_comparison(e);
    case ExpressionKind::concatenation:
      return evaluate_concatenation(e);
    case ExpressionKind::conditional:
      if (truthy(child(0))) return child(1);
      return e.children[2] ? child(2) : Value::undefined("the inline if-expression without else");
  }
  return Value::undefined();
}

Value Interpreter::constant(const Expression& e) {
  if (!heap_.traces() || !e.value.is_string()) return e.value;
  const auto known = constants_.find(&e);
  if (known != constants_.end()) return known->second;
  return constants_[&e] = Value::of_string(heap_.own_text(e.value.text()));
}

Value Interpreter::evaluate_name(const Expression& e) {
  if (const Value* found = look_up(e.name)) return *found;
  if (const Function function = find_function(e.text))
    return Value::of_pointer(Kind::callable, heap_.object(Callable{.name = e.text, .function = function}));
  return Value::undefined(e.text);
}

Value Interpreter::evaluate_children(Kind kind, const Expression& e) {
  const auto all = heap_.array<Value>(e.children.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = evaluate(*e.children[i]);
  return Value::of_items(kind, all);
}

Value Interpreter::evaluate_dict(const Expression& e) {
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < e.children.size(); i += 2) {
    const Value key = evaluate(*e.children[i]);
    entries.push_back({key, evaluate(*e.children[i + 1])});
  }
  return with_entries(heap_, Value::of_entries({}), entries);
}

Value Interpreter::evaluate_binary(const Expression& e) {
  const Value left = evaluate(*e.children[0]);
  if (e.op == Operator::logical_and) return truthy(left) ? evaluate(*e.children[1]) : left;
  if (e.op == Operator::logical_or) return truthy(left) ? left : evaluate(*e.children[1]);
  return arithmetic(heap_, e.op, left, evaluate(*e.children[1]));
}

Value Interpreter::evaluate_comparison(const Expression& e) {
  Value left = evaluate(*e.children[0]);
  for (std::size_t i = 0; i < e.operators.size(); ++i) {
    const Value right = evaluate(*e.children[i + 1]);
    if (!compare(heap_, e.operators[i], left, right)) return Value::of_bool(false);
    left = right;
  }
  return Value::of_bool(true);
}

Value Interpreter::evaluate_concatenation(const Expression& e) {
  Text out(heap_);
  for (const Expression* part : e.children) add_text(out, evaluate(*part));
  return out.value();
}

// `subject` stands for what a filter block or a block assignment captured.
Value Interpreter::evaluate_filter(const Expression& e, const Value* subject) {
  const Expression* inner = e.children[0];
  Value value;
  if (!inner) {
    value = *subject;
  } else {
    const Level level(depth_, kDeepest, "the chat template works");
    value = inner->kind == ExpressionKind::filter ? evaluate_filter(*inner, subject) : evaluate(*inner);
  }
  return filter(e.text, value, arguments(e.arguments));
}

Value Interpreter::slice_part(const Expression* e) {
  return e ? evaluate(*e) : Value::none();
}

Arguments Interpreter::arguments(const CallArguments& a) {
  Arguments all;
  for (const Expression* e : a.positional) all.positional.push_back(evaluate(*e));
  if (a.all_positional) {
    const auto more = elements_of(heap_, evaluate(*a.all_positional));
    heap_.reserve(more.size_bytes());
    all.positional.insert(all.positional.end(), more.begin(), more.end());
  }
  for (const auto& [name, e] : a.named) all.named.emplace_back(name, evaluate(*e));
  if (a.all_named) {
    const Value more = evaluate(*a.all_named);
    if (more.kind != Kind::dict) fail("** needs a dict, not " + std::string(type_name(more)));
    for (const Entry& entry : more.pairs()) {
      if (!entry.key.is_string()) fail("** needs a dict whose keys are strings");
      heap_.step();
      all.named.emplace_back(entry.key.text(), entry.value);
    }
  }
  return all;
}

Value Interpreter::evaluate_call(const Expression& e, const Value* caller) {
  const Value callee = evaluate(*e.children[0]);
  Arguments given = arguments(e.arguments);
  if (caller) given.named.emplace_back("caller", *caller);
  try {
    return call(callee, given);
  } catch (Failure& failure) {
    if (failure.line == 0) failure.line = e.line;
    throw;
  }
}

Value Interpreter::call(const Value& callee, const Arguments& given) {
  heap_.step();
  switch (callee.kind) {
    case Kind::callable:
      if (callee.callable->macro) return call_macro(*callee.callable, given);
      return callee.callable->function(*this, callee.callable->self, given);
    case Kind::loop:
      return call_loop(*callee.loop, given);
    case Kind::cycler:
      if (callee.cycler->joins)
        return callee.cycler->position++ == 0 ? Value::of_string("") : callee.cycler->values.items[0];
      break;
    case Kind::undefined:
      fail("'" + std::string(callee.text()) + "' is undefined");
    default:
      break;
  }
  fail(std::string(type_name(callee)) + " cannot be called");
}

Value Interpreter::call_macro(const Callable& macro, const Arguments& given) {
  const Level level(calls_, heap_.limits().depth, "macros of the chat template call each other");
  const Within inside(*this, new_scope(macro.scope));
  bind_parameters(macro, given);
  Capture text(*this);
  run(macro.macro->body);
  return text.value();
}

void Interpreter::bind_parameters(const Callable& macro, const Arguments& given) {
  const Statement& s = *macro.macro;
  std::vector<bool> bound(s.parameters.size());
  std::vector<Entry> others;
  for (std::size_t i = 0; i < std::min(given.positional.size(), s.parameters.size()); ++i) {
    store(*scope_, s.parameters[i].name, given.positional[i]);
    bound[i] = true;
  }
  for (const auto& [name, value] : given.named) {
    const auto found = std::find_if(s.parameters.begin(), s.parameters.end(),
                                    [&, key = name](const Parameter& p) { return p.text == key; });
    if (found != s.parameters.end()) {
      const auto i = static_cast<std::size_t>(found - s.parameters.begin());
      if (bound[i]) fail("macro '" + std::string(macro.name) + "' got two values for '" + std::string(name) + "'");
      store(*scope_, found->name, value);
      bound[i] = true;
    } else if (name == "caller" && s.uses_caller) {
      store(*scope_, ast_.find_name("caller"), value);
    } else {
      others.push_back({Value::of_string(name), value});
    }
  }
  if (given.positional.size() > s.parameters.size() && !s.uses_varargs)
    fail("macro '" + std::string(macro.name) + "' takes not more than " + std::to_string(s.parameters.size()) +
         " argument(s)");
  if (!others.empty() && !s.uses_kwargs)
    fail("macro '" + std::string(macro.name) + "' takes no keyword argument '" + std::string(others[0].key.text()) +
         "'");
  for (std::size_t i = 0; i < s.parameters.size(); ++i) {
    if (bound[i]) continue;
    const Parameter& p = s.parameters[i];
    store(*scope_, p.name, p.fallback ? evaluate(*p.fallback) : Value::undefined(p.text));
  }
  if (s.uses_varargs) {
    const std::span<const Value> all(given.positional);
    store(*scope_, ast_.find_name("varargs"), new_tuple(heap_, all.subspan(std::min(s.parameters.size(), all.size()))));
  }
  if (s.uses_kwargs) store(*scope_, ast_.find_name("kwargs"), with_entries(heap_, Value::of_entries({}), others));
}

Value Interpreter::call_loop(LoopObject& loop, const Arguments& given) {
  if (!loop.statement) fail("the loop is not recursive; write {% for ... recursive %}");
  if (given.positional.size() != 1 || !given.named.empty()) fail("loop() takes one argument, what to loop over");
  const Level level(calls_, heap_.limits().depth, "a loop of the chat template recurses");
  const auto items = elements_of(heap_, given.positional[0]);
  Capture text(*this);
  loop_over(*loop.statement, items, loop.scope, loop.depth + 1);
  return text.value();
}

Value loop_attribute(Heap& heap, LoopObject& loop, std::string_view name) {
  const auto n = static_cast<std::int64_t>(loop.items.size()), i = std::int64_t{loop.index};
  if (name == "index") return Value::of_int(i + 1);
  if (name == "index0") return Value::of_int(i);
  if (name == "revindex") return Value::of_int(n - i);
  if (name == "revindex0") return Value::of_int(n - i - 1);
  if (name == "first") return Value::of_bool(i == 0);
  if (name == "last") return Value::of_bool(i == n - 1);
  if (name == "length") return Value::of_int(n);
  if (name == "depth") return Value::of_int(loop.depth + 1);
  if (name == "depth0") return Value::of_int(loop.depth);
  if (name == "previtem")
    return i > 0 ? loop.items[static_cast<std::size_t>(i - 1)] : Value::undefined("there is no previous item");
  if (name == "nextitem")
    return i + 1 < n ? loop.items[static_cast<std::size_t>(i + 1)] : Value::undefined("there is no next item");
  Function function = nullptr;
  if (name == "cycle") {
    function = [](Runtime&, const Value& self, const Arguments& given) {
      if (given.positional.empty()) fail("no items for cycling given");
      return given.positional[self.loop->index % given.positional.size()];
    };
  } else if (name == "changed") {
    function = [](Runtime& runtime, const Value& self, const Arguments& given) {
      const Value now = new_tuple(runtime.heap(), given.positional);
      const bool changed = !self.loop->has_changed || !equal(runtime.heap(), now, self.loop->last_changed);
      self.loop->last_changed = now;
      self.loop->has_changed = true;
      return Value::of_bool(changed);
    };
  }
  if (!function) return Value::undefined(name);
  return Value::of_pointer(
      Kind::callable,
      heap.object(Callable{.name = name, .function = function, .self = Value::of_pointer(Kind::loop, &loop)}));
}

}  // namespace espalier::jinja
