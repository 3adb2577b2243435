// Tests: {{ x is string }}.
#include <cmath>

#include "text/jinja/operations.h"
#include "text/jinja/runtime.h"
#include "text/jinja/values/string_tools.h"
#include "text/jinja/values/text_form.h"

namespace espalier::jinja {
namespace {

template <Kind kind>
Value is_kind(Runtime&, const Value& subject, const Arguments&) {
  return Value::of_bool(subject.kind == kind);
}

Value defined(Runtime&, const Value& subject, const Arguments&) {
  return Value::of_bool(subject.kind != Kind::undefined);
}

template <bool value>
Value is_bool(Runtime&, const Value& subject, const Arguments&) {
  return Value::of_bool(subject.kind == Kind::boolean && subject.boolean == value);
}

Value is_integer(Runtime&, const Value& subject, const Arguments&) {
  return Value::of_bool(subject.kind == Kind::integer || subject.kind == Kind::big_integer);
}

Value is_number(Runtime&, const Value& subject, const Arguments&) {
  return Value::of_bool(subject.is_number() || subject.kind == Kind::big_integer);
}

Value is_sequence(Runtime&, const Value& subject, const Arguments&) {
  return Value::of_bool(subject.is_string() || subject.is_sequence() || subject.kind == Kind::dict ||
                        subject.kind == Kind::range || subject.kind == Kind::undefined);
}

Value is_iterable(Runtime&, const Value& subject, const Arguments&) {
  return Value::of_bool(iterable(subject));
}

Value is_callable(Runtime&, const Value& subject, const Arguments&) {
  return Value::of_bool(subject.kind == Kind::callable || subject.kind == Kind::undefined ||
                        subject.kind == Kind::loop || (subject.kind == Kind::cycler && subject.cycler->joins));
}

Value never(Runtime&, const Value&, const Arguments&) {
  return Value::of_bool(false);
}

Value other(const Arguments& given) {
  const Bound bound("the test", given, {"other"});
  return bound.need(0, "the test");
}

template <Operator op>
Value compares(Runtime& runtime, const Value& subject, const Arguments& given) {
  return Value::of_bool(compare(runtime.heap(), op, subject, other(given)));
}

Value same_as(Runtime& runtime, const Value& subject, const Arguments& given) {
  const Value right = other(given);
  const bool simple = subject.kind != Kind::list && subject.kind != Kind::dict && subject.kind != Kind::tuple;
  return Value::of_bool(subject.kind == right.kind &&
                        (simple ? equal(runtime.heap(), subject, right) : subject.pointer == right.pointer));
}

Value divisible_by(Runtime& runtime, const Value& subject, const Arguments& given) {
  return Value::of_bool(!truthy(arithmetic(runtime.heap(), Operator::modulo, subject, other(given))));
}

template <int rest>
Value parity(Runtime& runtime, const Value& subject, const Arguments&) {
  return Value::of_bool(equal(runtime.heap(), arithmetic(runtime.heap(), Operator::modulo, subject, Value::of_int(2)),
                              Value::of_int(rest)));
}

template <bool upper>
Value has_only_case(Runtime& runtime, const Value& subject, const Arguments&) {
  const std::string_view text = text_of(runtime.heap(), subject);
  runtime.heap().step(static_cast<std::int64_t>(text.size() / 16));
  return Value::of_bool(has_case(text, upper));
}

template <Function (*find_in)(std::string_view)>
Value is_known(Runtime&, const Value& subject, const Arguments&) {
  return Value::of_bool(subject.is_string() && find_in(subject.text()) != nullptr);
}

constexpr std::pair<std::string_view, Function> kTests[] = {{"defined", defined},
                                                            {"undefined", is_kind<Kind::undefined>},
                                                            {"none", is_kind<Kind::none>},
                                                            {"boolean", is_kind<Kind::boolean>},
                                                            {"true", is_bool<true>},
                                                            {"false", is_bool<false>},
                                                            {"integer", is_integer},
                                                            {"float", is_kind<Kind::real>},
                                                            {"number", is_number},
                                                            {"string", is_kind<Kind::string>},
                                                            {"mapping", is_kind<Kind::dict>},
                                                            {"sequence", is_sequence},
                                                            {"iterable", is_iterable},
                                                            {"callable", is_callable},
                                                            {"escaped", never},
                                                            {"sameas", same_as},
                                                            {"divisibleby", divisible_by},
                                                            {"odd", parity<1>},
                                                            {"even", parity<0>},
                                                            {"lower", has_only_case<false>},
                                                            {"upper", has_only_case<true>},
                                                            {"in", compares<Operator::in>},
                                                            {"eq", compares<Operator::eq>},
                                                            {"equalto", compares<Operator::eq>},
                                                            {"==", compares<Operator::eq>},
                                                            {"ne", compares<Operator::ne>},
                                                            {"!=", compares<Operator::ne>},
                                                            {"lt", compares<Operator::lt>},
                                                            {"lessthan", compares<Operator::lt>},
                                                            {"<", compares<Operator::lt>},
                                                            {"le", compares<Operator::le>},
                                                            {"<=", compares<Operator::le>},
                                                            {"gt", compares<Operator::gt>},
                                                            {"greaterthan", compares<Operator::gt>},
                                                            {">", compares<Operator::gt>},
                                                            {"ge", compares<Operator::ge>},
                                                            {">=", compares<Operator::ge>},
                                                            {"filter", is_known<find_filter>},
                                                            {"test", is_known<find_test>}};

}  // namespace

Function find_test(std::string_view name) {
  for (const auto& [key, function] : kTests)
    if (key == name) return function;
  return nullptr;
}

}  // namespace espalier::jinja
