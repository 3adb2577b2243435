// Filters on numbers, and default.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

#include "text/jinja/operations.h"
#include "text/jinja/runtime.h"
#include "text/jinja/values/text_form.h"
#include "text/jinja/values/unicode.h"

namespace espalier::jinja {
namespace {

// "  +1_000 " without what Python's int() and float() overlook.
std::string plain_number(std::string_view text) {
  text = trim_right(trim_left(text));
  if (text.starts_with('+')) text.remove_prefix(1);
  std::string digits;
  for (const char c : text.substr(0, 400))
    if (c != '_') digits.push_back(c);
  return digits;
}

std::optional<double> parse_real(std::string_view text) {
  const std::string digits = plain_number(text);
  double x = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), x);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return x;
}

std::optional<std::int64_t> parse_integer(std::string_view text, int base) {
  std::string digits = plain_number(text);
  const bool negative = digits.starts_with('-');
  if (negative) digits.erase(0, 1);
  const std::string prefix = digits.substr(0, 2);
  const auto drops = [&](const char* low, const char* high, int of) {
    return (base == of || base == 0) && (prefix == low || prefix == high);
  };
  int actual = base == 0 ? 10 : base;
  if (drops("0x", "0X", 16))
    actual = 16, digits.erase(0, 2);
  else if (drops("0o", "0O", 8))
    actual = 8, digits.erase(0, 2);
  else if (drops("0b", "0B", 2))
    actual = 2, digits.erase(0, 2);
  std::int64_t n = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n, actual);
  if (digits.empty() || digits[0] == '-' || error != std::errc() || end != digits.data() + digits.size())
    return std::nullopt;
  return negative ? -n : n;
}

[[noreturn]] void undefined_used(const Value& value) {
  fail("'" + std::string(value.text()) + "' is undefined");
}

Value integer(Runtime&, const Value& subject, const Arguments& given) {
  const Bound bound("int", given, {"default", "base"});
  const Value fallback = bound.get(0, Value::of_int(0));
  const std::int64_t base = to_integer(bound.get(1, Value::of_int(10)), "base");
  if (base != 0 && (base < 2 || base > 36)) fail("int: the base must be 0 or between 2 and 36");
  if (subject.kind == Kind::undefined) undefined_used(subject);
  if (subject.kind == Kind::big_integer) return subject;
  if (subject.is_string()) {
    if (const auto n = parse_integer(subject.text(), static_cast<int>(base))) return Value::of_int(*n);
    const auto x = parse_real(subject.text());
    return x && std::fabs(*x) < 9e18 ? Value::of_int(static_cast<std::int64_t>(*x)) : fallback;
  }
  if (!subject.is_number()) return fallback;
  if (subject.kind != Kind::real) return Value::of_int(to_integer(subject, ""));
  return std::fabs(subject.real) < 9e18 ? Value::of_int(static_cast<std::int64_t>(subject.real)) : fallback;
}

Value real(Runtime&, const Value& subject, const Arguments& given) {
  const Bound bound("float", given, {"default"});
  if (subject.kind == Kind::undefined) undefined_used(subject);
  std::optional<double> x;
  if (subject.is_number()) x = to_real(subject);
  if (subject.is_string() || subject.kind == Kind::big_integer) x = parse_real(subject.text());
  return x ? Value::of_real(*x) : bound.get(0, Value::of_real(0));
}

Value absolute(Runtime&, const Value& subject, const Arguments&) {
  if (!subject.is_number()) fail("abs: a number is needed, not " + std::string(type_name(subject)));
  if (subject.kind == Kind::real) return Value::of_real(std::fabs(subject.real));
  const std::int64_t n = to_integer(subject, "");
  return n < 0 ? negate(Value::of_int(n)) : Value::of_int(n);
}

// Python's round(): to the nearest, halves to the even neighbour, judged by the exact decimal value.
double round_half_even(double x, int digits) {
  if (digits > 15 || !std::isfinite(x)) return x;
  if (digits < 0) {
    const double power = std::pow(10.0, -digits);
    return std::nearbyint(x / power) * power;
  }
  char buffer[400];
  std::snprintf(buffer, sizeof(buffer), "%.*f", digits, x);
  double rounded = 0;
  std::from_chars(buffer, buffer + sizeof(buffer), rounded);
  return rounded;
}

Value round(Runtime&, const Value& subject, const Arguments& given) {
  const Bound bound("round", given, {"precision", "method"});
  const auto digits =
      static_cast<int>(std::clamp<std::int64_t>(to_integer(bound.get(0, Value::of_int(0)), "precision"), -300, 300));
  const Value method = bound.get(1, Value::of_string("common"));
  if (!subject.is_number()) fail("round: a number is needed, not " + std::string(type_name(subject)));
  const std::string_view how = method.is_string() ? method.text() : std::string_view();
  if (how == "common") {
    if (subject.kind == Kind::real) return Value::of_real(round_half_even(subject.real, digits));
    if (digits >= 0) return Value::of_int(to_integer(subject, ""));
    return Value::of_int(static_cast<std::int64_t>(round_half_even(to_real(subject), digits)));
  }
  if (how != "ceil" && how != "floor") fail("round: the method must be common, ceil or floor");
  const double power = std::pow(10.0, digits), scaled = to_real(subject) * power;
  return Value::of_real((how == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / power);
}

Value filesizeformat(Runtime& runtime, const Value& subject, const Arguments& given) {
  const Bound bound("filesizeformat", given, {"binary"});
  const bool binary = truthy(bound.get(0, Value::of_bool(false)));
  double bytes = 0;
  if (subject.is_number())
    bytes = to_real(subject);
  else if (subject.is_string() && parse_real(subject.text()))
    bytes = *parse_real(subject.text());
  else
    fail("filesizeformat: a number is needed, not " + std::string(type_name(subject)));
  Text out(runtime.heap());
  const double base = binary ? 1024 : 1000;
  if (bytes == 1) return Value::of_string("1 Byte");
  if (bytes < base)
    return out.add(std::to_string(static_cast<std::int64_t>(std::clamp(bytes, -9e18, 9e18)))).add(" Bytes").value();
  constexpr std::string_view decimal[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
  constexpr std::string_view binaries[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
  std::size_t i = 0;
  double unit = base;
  for (; i < 7 && bytes >= unit * base; ++i) unit *= base;
  char buffer[400];
  std::snprintf(buffer, sizeof(buffer), "%.1f ", bytes / unit);
  return out.add(buffer).add(binary ? binaries[i] : decimal[i]).value();
}

Value fallback(Runtime&, const Value& subject, const Arguments& given) {
  const Bound bound("default", given, {"default_value", "boolean"});
  const bool use = subject.kind == Kind::undefined || (truthy(bound.get(1, Value::of_bool(false))) && !truthy(subject));
  return use ? bound.get(0, Value::of_string("")) : subject;
}

constexpr std::pair<std::string_view, Function> kFilters[] = {
    {"int", integer},      {"float", real}, {"abs", absolute}, {"round", round}, {"filesizeformat", filesizeformat},
    {"default", fallback}, {"d", fallback}};

}  // namespace

Function find_number_filter(std::string_view name) {
  for (const auto& [key, function] : kFilters)
    if (key == name) return function;
  return nullptr;
}

}  // namespace espalier::jinja
