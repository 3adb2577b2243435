// object.name, object[key] and slices.
#include <algorithm>

#include "text/jinja/builtins/loop_object.h"
#include "text/jinja/builtins/methods.h"
#include "text/jinja/operations.h"
#include "text/jinja/values/callable.h"
#include "text/jinja/values/text_form.h"
#include "text/jinja/values/unicode.h"
#include "text/utf8.h"

namespace espalier::jinja {
namespace {

[[noreturn]] void undefined_used(const Value& value) {
  fail("'" + std::string(value.text()) + "' is undefined");
}

Value method(Heap& heap, const Value& object, std::string_view name) {
  const Function function = find_method(object.kind, name);
  if (!function) return Value::undefined(name);
  return Value::of_pointer(Kind::callable, heap.object(Callable{.name = name, .function = function, .self = object}));
}

Value namespace_entry(const Value& space, std::string_view name) {
  for (const Entry& entry : space.name_space->entries())
    if (entry.key.text() == name) return entry.value;
  return Value::undefined(name);
}

Value macro_attribute(Heap& heap, const Callable& callee, std::string_view name) {
  if (!callee.macro) return Value::undefined(name);
  if (name == "name") return Value::of_string(callee.name);
  if (name != "arguments") return Value::undefined(name);
  std::vector<Value> names;
  for (const Parameter& p : callee.macro->parameters) names.push_back(Value::of_string(p.text));
  return new_tuple(heap, names);
}

// What attribute access finds before it looks into the object's items.
Value own_attribute(Heap& heap, const Value& object, std::string_view name) {
  switch (object.kind) {
    case Kind::name_space:
      return namespace_entry(object, name);
    case Kind::loop:
      return loop_attribute(heap, *object.loop, name);
    case Kind::callable:
      return macro_attribute(heap, *object.callable, name);
    case Kind::cycler:
      if (name == "current" && object.cycler->values.size > 0)
        return object.cycler->values.items[object.cycler->position % object.cycler->values.size];
      return method(heap, object, name);
    default:
      return method(heap, object, name);
  }
}

Value element(Heap& heap, const Value& object, std::int64_t i) {
  const auto n = static_cast<std::int64_t>(length(heap, object));
  if (i < 0) i += n;
  if (i < 0 || i >= n) return Value::undefined("element");
  if (object.is_sequence()) return object.items[i];
  if (object.kind == Kind::range) return object.range->at(i);
  heap.scan(object.size);
  const std::size_t begin = byte_of(object.text(), static_cast<std::size_t>(i));
  return Value::of_string(object.text().substr(begin, utf8_step(object.text().substr(begin)).length));
}

bool indexable(const Value& value) {
  return value.is_string() || value.is_sequence() || value.kind == Kind::range;
}

// Where a slice begins and ends, and in what steps, as Python counts.
struct SliceRange {
  std::int64_t start, stop, step;
};

SliceRange slice_range(std::int64_t n, const Value& start, const Value& stop, const Value& step) {
  // Steps beyond any length behave alike; cutting them off keeps the arithmetic in range.
  constexpr std::int64_t longest = std::int64_t{1} << 33;
  SliceRange r{0, 0,
               step.kind == Kind::none ? 1 : std::clamp(to_integer(step, "the step of a slice"), -longest, longest)};
  if (r.step == 0) fail("the step of a slice must not be 0");
  const std::int64_t low = r.step < 0 ? -1 : 0, high = r.step < 0 ? n - 1 : n;
  const auto place = [&](const Value& v, std::int64_t otherwise) {
    if (v.kind == Kind::none) return otherwise;
    const std::int64_t i = to_integer(v, "the end of a slice");
    return std::clamp(i < 0 ? std::max(i, -n - 1) + n : i, low, high);
  };
  r.start = place(start, r.step < 0 ? high : low);
  r.stop = place(stop, r.step < 0 ? low : high);
  return r;
}

Value slice_string(Heap& heap, std::string_view text, const SliceRange& range) {
  heap.scan(text.size());
  if (range.step == 1) {
    const auto begin = byte_of(text, static_cast<std::size_t>(range.start));
    const auto rest = text.substr(begin);
    return Value::of_string(
        rest.substr(0, byte_of(rest, static_cast<std::size_t>(std::max<std::int64_t>(0, range.stop - range.start)))));
  }
  const auto characters = elements_of(heap, Value::of_string(text));
  Text out(heap);
  const Range places{range.start, range.stop, range.step};
  for (std::int64_t i = 0; i < places.length(); ++i)
    out.add(characters[static_cast<std::size_t>(places.at(i).integer)].text());
  return out.value();
}

}  // namespace

Value attribute(Heap& heap, const Value& object, std::string_view name) {
  if (object.kind == Kind::undefined) undefined_used(object);
  if (name.starts_with("_") && object.kind != Kind::dict) return Value::undefined(name);
  const Value own = own_attribute(heap, object, name);
  if (own.kind != Kind::undefined || object.kind != Kind::dict) return own;
  const Value* found = find(heap, object, Value::of_string(name));
  return found ? *found : own;
}

Value item(Heap& heap, const Value& object, const Value& key) {
  if (object.kind == Kind::undefined) undefined_used(object);
  if (object.kind == Kind::dict) {
    if (const Value* found = find(heap, object, key)) return *found;
  } else if (indexable(object) && (key.kind == Kind::integer || key.kind == Kind::boolean)) {
    return element(heap, object, to_integer(key, "an index"));
  }
  if (!key.is_string()) return Value::undefined("element");
  if (object.kind == Kind::dict)
    return key.text().starts_with("_") ? Value::undefined(key.text()) : own_attribute(heap, object, key.text());
  return attribute(heap, object, key.text());
}

Value slice(Heap& heap, const Value& object, const Value& start, const Value& stop, const Value& step) {
  if (object.kind == Kind::undefined) undefined_used(object);
  if (!indexable(object)) fail(std::string(type_name(object)) + " cannot be sliced");
  const SliceRange range = slice_range(static_cast<std::int64_t>(length(heap, object)), start, stop, step);
  if (object.is_string()) return slice_string(heap, object.text(), range);
  const Range places{range.start, range.stop, range.step};
  if (object.kind == Kind::range) {
    const Range& r = *object.range;
    return Value::of_pointer(Kind::range, heap.object(Range{r.start + range.start * r.step,
                                                            r.start + range.stop * r.step, r.step * range.step}));
  }
  const auto all = object.elements();
  if (range.step == 1)  // a view of the same elements
    return Value::of_items(
        object.kind, all.subspan(static_cast<std::size_t>(range.start), static_cast<std::size_t>(places.length())));
  const auto picked = heap.array<Value>(static_cast<std::size_t>(places.length()));
  heap.step(places.length());
  for (std::size_t i = 0; i < picked.size(); ++i)
    picked[i] = all[static_cast<std::size_t>(places.at(static_cast<std::int64_t>(i)).integer)];
  return Value::of_items(object.kind, picked);
}

}  // namespace espalier::jinja
