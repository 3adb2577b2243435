// Methods of lists, tuples, dicts and cyclers.
#include "text/jinja/builtins/methods.h"

#include "text/jinja/operations.h"
#include "text/jinja/runtime.h"

namespace espalier::jinja {
namespace {

void expect_none(std::string_view name, const Arguments& given) {
  if (!given.empty()) fail(std::string(name) + "() takes no arguments");
}

template <DictView::Part part>
Value dict_view(Runtime& runtime, const Value& self, const Arguments& given) {
  expect_none("a dict's method", given);
  return Value::of_pointer(Kind::dict_view, runtime.heap().object(DictView{part, self}));
}

Value dict_get(Runtime& runtime, const Value& self, const Arguments& given) {
  const Bound bound("get", given, {"key", "default"});
  const Value* found = find(runtime.heap(), self, bound.need(0, "get()"));
  return found ? *found : bound.get(1, Value::none());
}

Value same(Runtime&, const Value& self, const Arguments& given) {
  expect_none("copy", given);
  return self;
}

Value count(Runtime& runtime, const Value& self, const Arguments& given) {
  const Bound bound("count", given, {"value"});
  std::int64_t n = 0;
  for (const Value& value : self.elements()) n += equal(runtime.heap(), value, bound.need(0, "count()"));
  return Value::of_int(n);
}

Value index(Runtime& runtime, const Value& self, const Arguments& given) {
  const Bound bound("index", given, {"value"});
  for (std::size_t i = 0; i < self.size; ++i)
    if (equal(runtime.heap(), self.items[i], bound.need(0, "index()")))
      return Value::of_int(static_cast<std::int64_t>(i));
  fail("the value is not in the list");
}

Value range_count(Runtime& runtime, const Value& self, const Arguments& given) {
  const Bound bound("count", given, {"value"});
  return Value::of_int(contains(runtime.heap(), self, bound.need(0, "count()")));
}

Value range_index(Runtime& runtime, const Value& self, const Arguments& given) {
  const Bound bound("index", given, {"value"});
  const Value wanted = bound.need(0, "index()");
  if (!contains(runtime.heap(), self, wanted)) fail("the value is not in the range");
  return Value::of_int((static_cast<std::int64_t>(to_real(wanted)) - self.range->start) / self.range->step);
}

Value changes(Runtime&, const Value&, const Arguments&) {
  fail("templates cannot change lists and dicts; build new ones with + or dict()");
}

Value next_of_cycle(Runtime&, const Value& self, const Arguments& given) {
  expect_none("next", given);
  Cycler& cycler = *self.cycler;
  const Value value = cycler.values.items[cycler.position];
  cycler.position = (cycler.position + 1) % cycler.values.size;
  return value;
}

Value reset_cycle(Runtime&, const Value& self, const Arguments& given) {
  expect_none("reset", given);
  self.cycler->position = 0;
  return Value::none();
}

struct Row {
  std::string_view name;
  Function function;
};

template <std::size_t N>
Function find_in(const Row (&rows)[N], std::string_view name) {
  for (const Row& row : rows)
    if (row.name == name) return row.function;
  return nullptr;
}

constexpr Row kDict[] = {{"items", dict_view<DictView::Part::items>},
                         {"keys", dict_view<DictView::Part::keys>},
                         {"values", dict_view<DictView::Part::values>},
                         {"get", dict_get},
                         {"copy", same},
                         {"update", changes},
                         {"pop", changes},
                         {"popitem", changes},
                         {"setdefault", changes},
                         {"clear", changes}};
constexpr Row kList[] = {{"count", count},    {"index", index},     {"copy", same},   {"append", changes},
                         {"extend", changes}, {"insert", changes},  {"pop", changes}, {"remove", changes},
                         {"clear", changes},  {"reverse", changes}, {"sort", changes}};
constexpr Row kTuple[] = {{"count", count}, {"index", index}};
constexpr Row kRange[] = {{"count", range_count}, {"index", range_index}};
constexpr Row kCycler[] = {{"next", next_of_cycle}, {"reset", reset_cycle}};

}  // namespace

Function find_method(Kind kind, std::string_view name) {
  switch (kind) {
    case Kind::string:
      return find_string_method(name);
    case Kind::dict:
      return find_in(kDict, name);
    case Kind::list:
      return find_in(kList, name);
    case Kind::tuple:
      return find_in(kTuple, name);
    case Kind::range:
      return find_in(kRange, name);
    case Kind::cycler:
      return find_in(kCycler, name);
    default:
      return nullptr;
  }
}

}  // namespace espalier::jinja
