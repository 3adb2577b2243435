// value.h: what expressions evaluate to. Python's values, as far as templates can see them.
//
// A Value is 16 bytes and copied freely; what it points to lies in the Heap of the rendering, in the parsed template or
// in the request's JSON, all of which outlive it. Strings are UTF-8; lists, tuples and dicts never change.
// Threads: those of the rendering. Fails: accessors do not check the kind.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace espalier::jinja {

struct Value;
struct Entry;
struct Range;
struct Namespace;
struct Callable;
struct LoopObject;
struct Generator;
struct DictView;
struct Cycler;

// The types that a Value can have.
enum class Kind : std::uint8_t {
  undefined,  // text() is the name that was not found
  none,
  boolean,
  integer,
  big_integer,  // beyond int64; text() is its decimal form. Can be shown and compared, not computed with
  real,
  string,
  list,
  tuple,
  dict,
  dict_view,  // of dict.items(), .keys(), .values()
  range,
  generator,  // the result of a filter such as map: can be walked through once
  name_space,
  callable,
  loop,
  cycler,
};

// A value of the template language: 16 bytes, copied freely.
struct Value {
  Kind kind = Kind::undefined;
  std::uint32_t size = 0;  // bytes of a string, items of a list, tuple or dict
  union {
    bool boolean;
    std::int64_t integer = 0;
    double real;
    const char* characters;
    const Value* items;
    const Entry* entries;
    Range* range;
    Namespace* name_space;
    const Callable* callable;
    LoopObject* loop;
    Generator* generator;
    const DictView* view;
    Cycler* cycler;
    const void* pointer;
  };

  static Value undefined(std::string_view name = {}) { return of_text(Kind::undefined, name); }
  static Value none() { return of(Kind::none); }
  static Value of_bool(bool b) {
    Value v = of(Kind::boolean);
    v.boolean = b;
    return v;
  }
  static Value of_int(std::int64_t n) {
    Value v = of(Kind::integer);
    v.integer = n;
    return v;
  }
  static Value of_real(double x) {
    Value v = of(Kind::real);
    v.real = x;
    return v;
  }
  static Value of_string(std::string_view text) { return of_text(Kind::string, text); }
  static Value of_text(Kind kind, std::string_view text) {
    Value v = of(kind);
    v.size = static_cast<std::uint32_t>(text.size());
    v.characters = text.data();
    return v;
  }
  static Value of_items(Kind kind, std::span<const Value> values) {
    Value v = of(kind);
    v.size = static_cast<std::uint32_t>(values.size());
    v.items = values.data();
    return v;
  }
  static Value of_entries(std::span<const Entry> all);
  static Value of_pointer(Kind kind, const void* object) {
    Value v = of(kind);
    v.pointer = object;
    return v;
  }

  bool is(Kind k) const { return kind == k; }
  bool is_string() const { return kind == Kind::string; }
  bool is_number() const { return kind == Kind::integer || kind == Kind::real || kind == Kind::boolean; }
  bool is_sequence() const { return kind == Kind::list || kind == Kind::tuple; }
  std::string_view text() const { return {characters, size}; }
  std::span<const Value> elements() const { return {items, size}; }
  std::span<const Entry> pairs() const;

 private:
  static Value of(Kind kind) {
    Value v;
    v.kind = kind;
    return v;
  }
};
static_assert(sizeof(Value) == 16);

// A key with its value in a dict.
struct Entry {
  Value key, value;
};

inline Value Value::of_entries(std::span<const Entry> all) {
  Value v;
  v.kind = Kind::dict;
  v.size = static_cast<std::uint32_t>(all.size());
  v.entries = all.data();
  return v;
}
inline std::span<const Entry> Value::pairs() const {
  return {entries, size};
}

// What range() gives: numbers that are not stored.
struct Range {
  std::int64_t start, stop, step;
  std::int64_t length() const;
  Value at(std::int64_t i) const { return Value::of_int(start + i * step); }
};

// What a dict's items(), keys() or values() gives.
struct DictView {
  enum class Part { items, keys, values } part;
  Value dict;
};

// A sequence that is read once, from `position` on.
struct Generator {
  Value source;  // a list, tuple or string
  std::uint32_t position = 0;
};

// The one kind of value that a template can change.
struct Namespace {
  std::span<Entry> room;
  std::uint32_t size = 0;
  std::span<Entry> entries() const { return room.first(size); }
};

// cycler(...) and joiner(...).
struct Cycler {
  Value values;  // a tuple
  std::uint32_t position = 0;
  bool joins = false;  // joiner: nothing at first, then always the one value
};

// "str object" and so on, for messages.
std::string_view type_name(const Value& value);

}  // namespace espalier::jinja
