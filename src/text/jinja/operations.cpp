#include "text/jinja/operations.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "text/jinja/values/text_form.h"
#include "text/jinja/values/unicode.h"
#include "text/utf8.h"

namespace espalier::jinja {
namespace {

[[noreturn]] void undefined_used(const Value& value) {
  fail("'" + std::string(value.text()) + "' is undefined");
}

void check_depth(int depth) {
  if (depth > kDeepestValue)
    fail("values nested more than " + std::to_string(kDeepestValue) + " levels deep cannot be compared");
}

bool equal_dicts(Heap& heap, const Value& a, const Value& b, int depth) {
  if (a.size != b.size) return false;
  for (const Entry& entry : a.pairs()) {
    const Value* other = find(heap, b, entry.key);
    if (!other || !equal(heap, entry.value, *other, depth + 1)) return false;
  }
  return true;
}

bool equal_numbers(const Value& a, const Value& b) {
  if (a.kind == Kind::real || b.kind == Kind::real) return to_real(a) == to_real(b);
  return to_integer(a, "") == to_integer(b, "");
}

std::span<const Value> characters_of(Heap& heap, std::string_view text) {
  heap.scan(text.size());
  const std::size_t n = count_characters(text);
  heap.step(static_cast<std::int64_t>(n));
  const auto all = heap.array<Value>(n);
  Characters walk(text);
  for (Value& value : all) {
    const std::string_view rest = walk.rest();
    walk.next();
    value = Value::of_string(rest.substr(0, rest.size() - walk.rest().size()));
  }
  return all;
}

std::span<const Value> view_elements(Heap& heap, const DictView& view) {
  heap.step(view.dict.size);
  const auto all = heap.array<Value>(view.dict.size);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Entry& entry = view.dict.entries[i];
    const Value both[] = {entry.key, entry.value};
    all[i] = view.part == DictView::Part::keys     ? entry.key
             : view.part == DictView::Part::values ? entry.value
                                                   : new_tuple(heap, both);
  }
  return all;
}

std::span<const Value> range_elements(Heap& heap, const Range& range) {
  const auto n = static_cast<std::size_t>(range.length());
  heap.step(range.length());
  const auto all = heap.array<Value>(n);
  for (std::size_t i = 0; i < n; ++i) all[i] = range.at(static_cast<std::int64_t>(i));
  return all;
}

}  // namespace

std::int64_t Range::length() const {
  if (step > 0) return stop <= start ? 0 : (stop - start - 1) / step + 1;
  return start <= stop ? 0 : (start - stop - 1) / -step + 1;
}

std::string_view type_name(const Value& value) {
  switch (value.kind) {
    case Kind::undefined:
      return "an undefined value";
    case Kind::none:
      return "none";
    case Kind::boolean:
      return "a boolean";
    case Kind::integer:
    case Kind::big_integer:
      return "an integer";
    case Kind::real:
      return "a number";
    case Kind::string:
      return "a string";
    case Kind::list:
      return "a list";
    case Kind::tuple:
      return "a tuple";
    case Kind::dict:
      return "a dict";
    case Kind::dict_view:
      return "a view of a dict";
    case Kind::range:
      return "a range";
    case Kind::generator:
      return "a generator";
    case Kind::name_space:
      return "a namespace";
    case Kind::callable:
      return "a function";
    case Kind::loop:
      return "the loop";
    case Kind::cycler:
      return "a cycler";
  }
  return "a value";
}

bool truthy(const Value& value) {
  switch (value.kind) {
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
      return value.boolean;
    case Kind::integer:
      return value.integer != 0;
    case Kind::real:
      return value.real != 0;
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
      return value.size > 0;
    case Kind::dict_view:
      return value.view->dict.size > 0;
    case Kind::range:
      return value.range->length() > 0;
    default:
      return true;
  }
}

std::size_t length(Heap& heap, const Value& value) {
  switch (value.kind) {
    case Kind::undefined:
      return 0;
    case Kind::string:
      heap.scan(value.size);
      return count_characters(value.text());
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
      return value.size;
    case Kind::dict_view:
      return value.view->dict.size;
    case Kind::range:
      return static_cast<std::size_t>(value.range->length());
    default:
      fail(std::string(type_name(value)) + " has no length");
  }
}

double to_real(const Value& value) {
  return value.kind == Kind::real ? value.real
                                  : static_cast<double>(value.kind == Kind::boolean ? value.boolean : value.integer);
}

std::int64_t to_integer(const Value& value, std::string_view what) {
  if (value.kind == Kind::integer) return value.integer;
  if (value.kind == Kind::boolean) return value.boolean;
  fail(std::string(what) + " must be an integer, not " + std::string(type_name(value)));
}

bool equal(Heap& heap, const Value& a, const Value& b, int depth) {
  heap.step();
  check_depth(depth);
  if (a.is_number() && b.is_number()) return equal_numbers(a, b);
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Kind::undefined:
    case Kind::none:
      return true;
    case Kind::big_integer:
      return a.text() == b.text();
    case Kind::string:
      if (a.size != b.size) return false;
      heap.scan(a.size);
      return a.text() == b.text();
    case Kind::list:
    case Kind::tuple:
      return a.size == b.size &&
             std::equal(a.elements().begin(), a.elements().end(), b.elements().begin(),
                        [&](const Value& x, const Value& y) { return equal(heap, x, y, depth + 1); });
    case Kind::dict:
      return equal_dicts(heap, a, b, depth);
    case Kind::range:
      return a.range->start == b.range->start && a.range->stop == b.range->stop && a.range->step == b.range->step;
    default:
      return a.pointer == b.pointer;
  }
}

int order(Heap& heap, const Value& a, const Value& b, int depth) {
  heap.step();
  check_depth(depth);
  if (a.is_number() && b.is_number()) {
    if (a.kind == Kind::real || b.kind == Kind::real) return (to_real(a) > to_real(b)) - (to_real(a) < to_real(b));
    const auto x = to_integer(a, ""), y = to_integer(b, "");
    return (x > y) - (x < y);
  }
  if (a.is_string() && b.is_string()) {
    heap.scan(std::min(a.size, b.size));
    return a.text().compare(b.text());
  }
  if (a.kind == b.kind && a.is_sequence()) {
    for (std::size_t i = 0; i < std::min(a.size, b.size); ++i) {
      if (equal(heap, a.items[i], b.items[i], depth + 1)) continue;
      return order(heap, a.items[i], b.items[i], depth + 1);
    }
    return (a.size > b.size) - (a.size < b.size);
  }
  if (a.kind == Kind::undefined) undefined_used(a);
  if (b.kind == Kind::undefined) undefined_used(b);
  fail(std::string(type_name(a)) + " and " + std::string(type_name(b)) + " have no order");
}

bool contains(Heap& heap, const Value& container, const Value& item) {
  switch (container.kind) {
    case Kind::string:
      if (!item.is_string()) fail("only a string can be in a string, not " + std::string(type_name(item)));
      heap.scan(container.size);
      return item.size == 0 || memmem(container.characters, container.size, item.characters, item.size) != nullptr;
    case Kind::dict:
      if (item.kind == Kind::list || item.kind == Kind::dict)
        fail(std::string(type_name(item)) + " cannot be the key of a dict");
      return find(heap, container, item) != nullptr;
    case Kind::range: {
      if (!item.is_number() || to_real(item) != std::floor(to_real(item))) return false;
      const Range& range = *container.range;
      const double n = (to_real(item) - static_cast<double>(range.start)) / static_cast<double>(range.step);
      return n >= 0 && n < static_cast<double>(range.length()) && n == std::floor(n);
    }
    default:
      break;
  }
  for (const Value& element : elements_of(heap, container))
    if (equal(heap, element, item)) return true;
  return false;
}

bool compare(Heap& heap, Operator op, const Value& a, const Value& b) {
  switch (op) {
    case Operator::eq:
      return equal(heap, a, b);
    case Operator::ne:
      return !equal(heap, a, b);
    case Operator::in:
      return contains(heap, b, a);
    case Operator::not_in:
      return !contains(heap, b, a);
    default:
      break;
  }
  const bool has_nan = (a.kind == Kind::real && std::isnan(a.real)) || (b.kind == Kind::real && std::isnan(b.real));
  const int sign = order(heap, a, b);
  if (has_nan) return false;
  switch (op) {
    case Operator::lt:
      return sign < 0;
    case Operator::le:
      return sign <= 0;
    case Operator::gt:
      return sign > 0;
    default:
      return sign >= 0;
  }
}

bool iterable(const Value& value) {
  switch (value.kind) {
    case Kind::undefined:
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::dict_view:
    case Kind::range:
    case Kind::generator:
      return true;
    default:
      return false;
  }
}

std::span<const Value> elements_of(Heap& heap, const Value& value) {
  heap.step();
  switch (value.kind) {
    case Kind::undefined:
      return {};
    case Kind::list:
    case Kind::tuple:
      return value.elements();
    case Kind::string:
      return characters_of(heap, value.text());
    case Kind::dict:
      return view_elements(heap, {DictView::Part::keys, value});
    case Kind::dict_view:
      return view_elements(heap, *value.view);
    case Kind::range:
      return range_elements(heap, *value.range);
    case Kind::generator: {
      const auto rest = value.generator->source.elements().subspan(value.generator->position);
      value.generator->position = value.generator->source.size;
      return rest;
    }
    default:
      fail(std::string(type_name(value)) + " cannot be iterated over");
  }
}

const Value* find(Heap& heap, const Value& dict, const Value& key) {
  heap.step(1 + dict.size / 16);
  for (const Entry& entry : dict.pairs()) {
    if (key.is_string() ? entry.key.is_string() && entry.key.text() == key.text() : equal(heap, entry.key, key))
      return &entry.value;
  }
  return nullptr;
}

const Value* find(const Value& dict, std::string_view key) {
  for (const Entry& entry : dict.pairs())
    if (entry.key.is_string() && entry.key.text() == key) return &entry.value;
  return nullptr;
}

Value with_entries(Heap& heap, const Value& dict, std::span<const Entry> more) {
  heap.step(dict.size + static_cast<std::int64_t>(more.size()));
  const auto all = heap.array<Entry>(dict.size + more.size());
  std::copy(dict.pairs().begin(), dict.pairs().end(), all.begin());
  std::size_t n = dict.size;
  for (const Entry& entry : more) {
    if (entry.key.kind == Kind::list || entry.key.kind == Kind::dict)
      fail(std::string(type_name(entry.key)) + " cannot be the key of a dict");
    const Value* known = find(heap, Value::of_entries(all.first(n)), entry.key);
    if (known) {
      const_cast<Value&>(*known) = entry.value;  // in the new dict, which nobody has seen yet
    } else {
      all[n++] = entry;
    }
  }
  return Value::of_entries(all.first(n));
}

Value new_list(Heap& heap, std::span<const Value> values) {
  heap.step(static_cast<std::int64_t>(values.size() / 8));
  const auto copy = heap.array<Value>(values.size());
  std::copy(values.begin(), values.end(), copy.begin());
  return Value::of_items(Kind::list, copy);
}

Value new_tuple(Heap& heap, std::span<const Value> values) {
  Value tuple = new_list(heap, values);
  tuple.kind = Kind::tuple;
  return tuple;
}

Value new_generator(Heap& heap, const Value& source) {
  return Value::of_pointer(Kind::generator, heap.object(Generator{source, 0}));
}

}  // namespace espalier::jinja
