// + - * / // % ** on numbers, texts and lists.
#include <cmath>
#include <limits>

#include "text/jinja/operations.h"
#include "text/jinja/values/printf.h"
#include "text/jinja/values/text_form.h"

namespace espalier::jinja {
namespace {

constexpr std::string_view symbol_of(Operator op) {
  switch (op) {
    case Operator::add:
      return "+";
    case Operator::subtract:
      return "-";
    case Operator::multiply:
      return "*";
    case Operator::divide:
      return "/";
    case Operator::floor_divide:
      return "//";
    case Operator::modulo:
      return "%";
    default:
      return "**";
  }
}

[[noreturn]] void meaningless(Operator op, const Value& a, const Value& b) {
  for (const Value* value : {&a, &b})
    if (value->kind == Kind::undefined) fail("'" + std::string(value->text()) + "' is undefined");
  fail("'" + std::string(symbol_of(op)) + "' has no meaning between " + std::string(type_name(a)) + " and " +
       std::string(type_name(b)));
}

[[noreturn]] void too_large() {
  fail("the result is larger than a 64-bit integer");
}

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  if (b == 0) fail("division by zero");
  if (a == std::numeric_limits<std::int64_t>::min() && b == -1) too_large();
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

std::int64_t floor_modulo(std::int64_t a, std::int64_t b) {
  if (b == 0) fail("division by zero");
  if (b == -1) return 0;
  const std::int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

Value integer_power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) fail("0 cannot be raised to a negative power");
    return Value::of_real(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  std::int64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) too_large();
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) too_large();
  }
  return Value::of_int(result);
}

Value on_integers(Operator op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  switch (op) {
    case Operator::add:
      if (__builtin_add_overflow(a, b, &result)) too_large();
      return Value::of_int(result);
    case Operator::subtract:
      if (__builtin_sub_overflow(a, b, &result)) too_large();
      return Value::of_int(result);
    case Operator::multiply:
      if (__builtin_mul_overflow(a, b, &result)) too_large();
      return Value::of_int(result);
    case Operator::divide:
      if (b == 0) fail("division by zero");
      return Value::of_real(static_cast<double>(a) / static_cast<double>(b));
    case Operator::floor_divide:
      return Value::of_int(floor_divide(a, b));
    case Operator::modulo:
      return Value::of_int(floor_modulo(a, b));
    default:
      return integer_power(a, b);
  }
}

Value on_reals(Operator op, double a, double b) {
  switch (op) {
    case Operator::add:
      return Value::of_real(a + b);
    case Operator::subtract:
      return Value::of_real(a - b);
    case Operator::multiply:
      return Value::of_real(a * b);
    case Operator::power:
      return Value::of_real(std::pow(a, b));
    default:
      break;
  }
  if (b == 0) fail("division by zero");
  if (op == Operator::divide) return Value::of_real(a / b);
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  if (op == Operator::modulo) return Value::of_real(rest != 0 ? rest : std::copysign(0.0, b));
  return Value::of_real(std::round((a - rest) / b));
}

Value repeated(Heap& heap, const Value& what, const Value& times) {
  const std::int64_t n = std::max<std::int64_t>(0, to_integer(times, "the right side of *"));
  if (what.is_string()) {
    Text out(heap);
    out.fill(what.size == 0 ? 0 : static_cast<std::size_t>(n), what.text());
    return out.value();
  }
  if (what.size == 0) return what;
  const auto count = static_cast<std::size_t>(n);
  if (count > heap.limits().memory_bytes / sizeof(Value) / what.size) heap.reserve(heap.limits().memory_bytes + 1);
  const auto all = heap.array<Value>(count * what.size);
  heap.step(static_cast<std::int64_t>(all.size() / 8));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = what.items[i % what.size];
  return Value::of_items(what.kind, all);
}

Value joined(Heap& heap, const Value& a, const Value& b) {
  if (a.is_string()) {
    heap.reserve(std::size_t{a.size} + b.size);
    Text out(heap);
    return out.add(a.text()).add(b.text()).value();
  }
  const auto all = heap.array<Value>(std::size_t{a.size} + b.size);
  heap.step(static_cast<std::int64_t>(all.size() / 8));
  std::copy(b.elements().begin(), b.elements().end(), std::copy(a.elements().begin(), a.elements().end(), all.begin()));
  return Value::of_items(a.kind, all);
}

}  // namespace

Value arithmetic(Heap& heap, Operator op, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.kind == Kind::real || b.kind == Kind::real) return on_reals(op, to_real(a), to_real(b));
    return on_integers(op, to_integer(a, ""), to_integer(b, ""));
  }
  const bool both_same = a.kind == b.kind && (a.is_string() || a.is_sequence());
  if (op == Operator::add && both_same) return joined(heap, a, b);
  const auto repeats = [](const Value& what, const Value& times) {
    return (what.is_string() || what.is_sequence()) && (times.kind == Kind::integer || times.kind == Kind::boolean);
  };
  if (op == Operator::multiply && repeats(a, b)) return repeated(heap, a, b);
  if (op == Operator::multiply && repeats(b, a)) return repeated(heap, b, a);
  if (op == Operator::modulo && a.is_string()) return percent_format(heap, a.text(), b);
  meaningless(op, a, b);
}

Value negate(const Value& a) {
  if (a.kind == Kind::real) return Value::of_real(-a.real);
  if (a.kind == Kind::integer || a.kind == Kind::boolean) return on_integers(Operator::subtract, 0, to_integer(a, ""));
  meaningless(Operator::subtract, Value::of_int(0), a);
}

}  // namespace espalier::jinja
