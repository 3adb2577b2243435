// Filters on lists, dicts and other things that can be walked through.
#include <algorithm>
#include <charconv>

#include "text/jinja/operations.h"
#include "text/jinja/runtime.h"
#include "text/jinja/values/text_form.h"
#include "text/jinja/values/unicode.h"

namespace espalier::jinja {
namespace {

using Values = std::vector<Value>;

Values copy_of(Runtime& runtime, const Value& subject) {
  const auto all = elements_of(runtime.heap(), subject);
  runtime.heap().reserve(all.size_bytes());
  runtime.heap().step(static_cast<std::int64_t>(all.size() / 8));
  return {all.begin(), all.end()};
}

// "name", "a.b", 0 or "list.0": the attribute of an item that a filter looks at.
Value path(Runtime& runtime, Value value, const Value& attribute_path) {
  if (attribute_path.kind == Kind::none) return value;
  if (attribute_path.kind == Kind::integer) return item(runtime.heap(), value, attribute_path);
  if (!attribute_path.is_string()) fail("an attribute must be a string or an integer");
  std::string_view rest = attribute_path.text();
  for (;;) {
    const std::size_t dot = std::min(rest.find('.'), rest.size());
    const std::string_view part = rest.substr(0, dot);
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    const bool digits = !part.empty() && part[0] != '-' && error == std::errc() && end == part.data() + part.size();
    value = item(runtime.heap(), value, digits ? Value::of_int(number) : Value::of_string(part));
    if (dot == rest.size()) return value;
    rest.remove_prefix(dot + 1);
  }
}

// What values are compared by: without regard to case unless that is asked for.
Value sort_key(Runtime& runtime, const Value& value, const Value& attribute_path, bool case_sensitive) {
  const Value key = path(runtime, value, attribute_path);
  if (case_sensitive || !key.is_string()) return key;
  runtime.heap().scan(key.size);
  return Value::of_string(runtime.heap().text(to_case(key.text(), Case::lower)));
}

struct Keyed {
  Value key, value;
};

std::vector<Keyed> keyed(Runtime& runtime, std::span<const Value> values, const Value& attribute_path,
                         bool case_sensitive) {
  runtime.heap().reserve(values.size() * sizeof(Keyed));
  std::vector<Keyed> all;
  for (const Value& value : values) all.push_back({sort_key(runtime, value, attribute_path, case_sensitive), value});
  return all;
}

// Several attributes, separated by commas, make a tuple of keys.
void sort_by(Runtime& runtime, std::vector<Keyed>& all, bool reverse) {
  Heap& heap = runtime.heap();
  std::stable_sort(all.begin(), all.end(), [&](const Keyed& a, const Keyed& b) {
    return reverse ? order(heap, b.key, a.key) < 0 : order(heap, a.key, b.key) < 0;
  });
}

Value values_of(Runtime& runtime, const std::vector<Keyed>& all) {
  const auto values = runtime.heap().array<Value>(all.size());
  std::transform(all.begin(), all.end(), values.begin(), [](const Keyed& k) { return k.value; });
  return Value::of_items(Kind::list, values);
}

Value count(Runtime& runtime, const Value& subject, const Arguments&) {
  return Value::of_int(static_cast<std::int64_t>(length(runtime.heap(), subject)));
}

Value first(Runtime& runtime, const Value& subject, const Arguments&) {
  if (subject.kind == Kind::generator) {
    Generator& g = *subject.generator;
    return g.position < g.source.size ? g.source.items[g.position++]
                                      : Value::undefined("No first item, sequence was empty.");
  }
  if (subject.is_string())
    return subject.size == 0 ? Value::undefined("the first character")
                             : item(runtime.heap(), subject, Value::of_int(0));
  const auto all = elements_of(runtime.heap(), subject);
  return all.empty() ? Value::undefined("the first item") : all.front();
}

Value last(Runtime& runtime, const Value& subject, const Arguments&) {
  if (subject.kind == Kind::generator) fail("a generator has no last item; use |list first");
  const auto all = elements_of(runtime.heap(), subject);
  return all.empty() ? Value::undefined("the last item") : all.back();
}

Value list(Runtime& runtime, const Value& subject, const Arguments&) {
  return new_list(runtime.heap(), elements_of(runtime.heap(), subject));
}

Value reverse(Runtime& runtime, const Value& subject, const Arguments&) {
  Values all = copy_of(runtime, subject);
  std::reverse(all.begin(), all.end());
  if (!subject.is_string()) return new_generator(runtime.heap(), new_list(runtime.heap(), all));
  Text out(runtime.heap());
  for (const Value& c : all) out.add(c.text());
  return out.value();
}

Value join(Runtime& runtime, const Value& subject, const Arguments& given) {
  const Bound bound("join", given, {"d", "attribute"});
  const std::string_view between = text_of(runtime.heap(), bound.get(0, Value::of_string("")));
  Text out(runtime.heap());
  bool at_start = true;
  for (const Value& value : elements_of(runtime.heap(), subject)) {
    if (!std::exchange(at_start, false)) out.add(between);
    add_text(out, path(runtime, value, bound.get(1, Value::none())));
  }
  return out.value();
}

Value sort(Runtime& runtime, const Value& subject, const Arguments& given) {
  const Bound bound("sort", given, {"reverse", "case_sensitive", "attribute"});
  const bool case_sensitive = truthy(bound.get(1, Value::of_bool(false)));
  const Value attributes = bound.get(2, Value::none());
  const auto values = elements_of(runtime.heap(), subject);
  std::vector<Keyed> all;
  if (attributes.is_string() && attributes.text().find(',') != std::string_view::npos) {
    runtime.heap().reserve(values.size() * sizeof(Keyed));
    for (const Value& value : values) {
      Values keys;
      std::string_view rest = attributes.text();
      for (std::size_t comma = 0; comma != std::string_view::npos;
           rest.remove_prefix(std::min(comma + 1, rest.size()))) {
        comma = rest.find(',');
        keys.push_back(sort_key(runtime, value, Value::of_string(rest.substr(0, comma)), case_sensitive));
        if (comma == std::string_view::npos) break;
      }
      all.push_back({new_tuple(runtime.heap(), keys), value});
    }
  } else {
    all = keyed(runtime, values, attributes, case_sensitive);
  }
  sort_by(runtime, all, truthy(bound.get(0, Value::of_bool(false))));
  return values_of(runtime, all);
}

Value dictsort(Runtime& runtime, const Value& subject, const Arguments& given) {
  const Bound bound("dictsort", given, {"case_sensitive", "by", "reverse"});
  if (subject.kind != Kind::dict) fail("dictsort: a dict is needed, not " + std::string(type_name(subject)));
  const Value by = bound.get(1, Value::of_string("key"));
  const bool by_value = by.is_string() && by.text() == "value";
  if (!by_value && !(by.is_string() && by.text() == "key")) fail("dictsort: sort by either \"key\" or \"value\"");
  const Value pairs =
      Value::of_pointer(Kind::dict_view, runtime.heap().object(DictView{DictView::Part::items, subject}));
  auto all = keyed(runtime, elements_of(runtime.heap(), pairs), Value::of_int(by_value ? 1 : 0),
                   truthy(bound.get(0, Value::of_bool(false))));
  sort_by(runtime, all, truthy(bound.get(2, Value::of_bool(false))));
  return values_of(runtime, all);
}

Value unique(Runtime& runtime, const Value& subject, const Arguments& given) {
  const Bound bound("unique", given, {"case_sensitive", "attribute"});
  Values keys, kept;
  for (const Value& value : elements_of(runtime.heap(), subject)) {
    const Value key =
        sort_key(runtime, value, bound.get(1, Value::none()), truthy(bound.get(0, Value::of_bool(false))));
    if (key.kind == Kind::list || key.kind == Kind::dict)
      fail("unique: " + std::string(type_name(key)) + " cannot be told apart by its value");
    if (std::any_of(keys.begin(), keys.end(), [&](const Value& known) { return equal(runtime.heap(), known, key); }))
      continue;
    runtime.heap().reserve((keys.size() + 1) * 2 * sizeof(Value));
    keys.push_back(key);
    kept.push_back(value);
  }
  return new_generator(runtime.heap(), new_list(runtime.heap(), kept));
}

template <bool greatest>
Value extreme(Runtime& runtime, const Value& subject, const Arguments& given) {
  const Bound bound("min or max", given, {"case_sensitive", "attribute"});
  const auto all = keyed(runtime, elements_of(runtime.heap(), subject), bound.get(1, Value::none()),
                         truthy(bound.get(0, Value::of_bool(false))));
  if (all.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  const Keyed* best = &all.front();
  for (std::size_t i = 1; i < all.size(); ++i) {
    const int sign = order(runtime.heap(), all[i].key, best->key);
    if (greatest ? sign > 0 : sign < 0) best = &all[i];
  }
  return best->value;
}

Value sum(Runtime& runtime, const Value& subject, const Arguments& given) {
  const Bound bound("sum", given, {"attribute", "start"});
  Value total = bound.get(1, Value::of_int(0));
  for (const Value& value : elements_of(runtime.heap(), subject))
    total = arithmetic(runtime.heap(), Operator::add, total, path(runtime, value, bound.get(0, Value::none())));
  return total;
}

Value batch(Runtime& runtime, const Value& subject, const Arguments& given) {
  const Bound bound("batch", given, {"linecount", "fill_with"});
  const std::int64_t size = to_integer(bound.need(0, "batch"), "linecount");
  const Value fill = bound.get(1, Value::none());
  const auto all = elements_of(runtime.heap(), subject);
  if (size < 1) return new_generator(runtime.heap(), new_list(runtime.heap(), {}));
  Values rows;
  for (std::size_t begin = 0; begin < all.size(); begin += static_cast<std::size_t>(size)) {
    const auto part = all.subspan(begin, std::min(static_cast<std::size_t>(size), all.size() - begin));
    runtime.heap().step();
    if (fill.kind != Kind::none && part.size() < static_cast<std::size_t>(size)) {
      runtime.heap().step(size / 8);
      const auto row = runtime.heap().array<Value>(static_cast<std::size_t>(size));
      std::fill(std::copy(part.begin(), part.end(), row.begin()), row.end(), fill);
      rows.push_back(Value::of_items(Kind::list, row));
    } else {
      rows.push_back(new_list(runtime.heap(), part));
    }
  }
  return new_generator(runtime.heap(), new_list(runtime.heap(), rows));
}

Value slice_filter(Runtime& runtime, const Value& subject, const Arguments& given) {
  const Bound bound("slice", given, {"slices", "fill_with"});
  const std::int64_t slices = to_integer(bound.need(0, "slice"), "slices");
  const Value fill = bound.get(1, Value::none());
  const auto all = elements_of(runtime.heap(), subject);
  if (slices < 1) fail("slice: at least one slice is needed");
  const auto n = static_cast<std::size_t>(slices);
  runtime.heap().step(slices);
  const auto rows = runtime.heap().array<Value>(n);
  std::size_t begin = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t size = all.size() / n + (i < all.size() % n);
    Values row(all.begin() + static_cast<std::ptrdiff_t>(begin),
               all.begin() + static_cast<std::ptrdiff_t>(begin + size));
    if (fill.kind != Kind::none && all.size() % n != 0 && i >= all.size() % n) row.push_back(fill);
    rows[i] = new_list(runtime.heap(), row);
    begin += size;
  }
  return new_generator(runtime.heap(), Value::of_items(Kind::list, rows));
}

Value groupby(Runtime& runtime, const Value& subject, const Arguments& given) {
  const Bound bound("groupby", given, {"attribute", "default", "case_sensitive"});
  Heap& heap = runtime.heap();
  std::vector<Keyed> all;
  for (const Value& value : elements_of(heap, subject)) {
    heap.reserve((all.size() + 1) * sizeof(Keyed));
    Value key = path(runtime, value, bound.need(0, "groupby"));
    if (key.kind == Kind::undefined && bound.has(1)) key = bound.get(1, key);
    all.push_back(
        {truthy(bound.get(2, Value::of_bool(false))) ? key : sort_key(runtime, key, Value::none(), false), value});
  }
  sort_by(runtime, all, false);
  Values groups;
  for (std::size_t begin = 0; begin < all.size();) {
    Values members;
    std::size_t end = begin;
    for (; end < all.size() && equal(heap, all[end].key, all[begin].key); ++end) members.push_back(all[end].value);
    Value shown = path(runtime, members.front(), bound.need(0, "groupby"));
    if (shown.kind == Kind::undefined) shown = bound.get(1, shown);
    const Value pair[] = {shown, new_list(heap, members)};
    groups.push_back(new_tuple(heap, pair));
    begin = end;
  }
  return new_list(heap, groups);
}

// What map and select walk through: none and false count as empty.
std::span<const Value> elements_if_any(Heap& heap, const Value& subject) {
  return truthy(subject) ? elements_of(heap, subject) : std::span<const Value>();
}

Value map(Runtime& runtime, const Value& subject, const Arguments& given) {
  Heap& heap = runtime.heap();
  Values out;
  const auto keep = [&](const Value& value) {
    heap.reserve((out.size() + 1) * sizeof(Value));
    out.push_back(value);
  };
  if (given.positional.empty()) {
    const Bound bound("map", given, {"attribute", "default"});
    const Value attribute_path = bound.need(0, "map");
    for (const Value& value : elements_if_any(heap, subject)) {
      const Value found = path(runtime, value, attribute_path);
      keep(found.kind == Kind::undefined ? bound.get(1, found) : found);
    }
  } else {
    if (!given.positional[0].is_string()) fail("map: a filter's name is needed");
    const Arguments rest = given.without_first(1);
    for (const Value& value : elements_if_any(heap, subject))
      keep(runtime.filter(given.positional[0].text(), value, rest));
  }
  return new_generator(heap, new_list(heap, out));
}

// select, reject and the two that look at an attribute.
template <bool wanted, bool by_attribute>
Value choose(Runtime& runtime, const Value& subject, const Arguments& given) {
  constexpr std::size_t test_place = by_attribute ? 1 : 0;
  if (by_attribute && given.positional.empty()) fail("an attribute is needed");
  const Value attribute_path = by_attribute ? given.positional[0] : Value::none();
  const bool has_test = given.positional.size() > test_place;
  if (has_test && !given.positional[test_place].is_string()) fail("a test's name is needed");
  const Arguments rest = given.without_first(test_place + 1);
  Values kept;
  for (const Value& value : elements_if_any(runtime.heap(), subject)) {
    const Value looked_at = path(runtime, value, attribute_path);
    const bool holds =
        has_test ? runtime.test(given.positional[test_place].text(), looked_at, rest) : truthy(looked_at);
    if (holds != wanted) continue;
    runtime.heap().reserve((kept.size() + 1) * sizeof(Value));
    kept.push_back(value);
  }
  return new_generator(runtime.heap(), new_list(runtime.heap(), kept));
}

Value items(Runtime& runtime, const Value& subject, const Arguments&) {
  Heap& heap = runtime.heap();
  if (subject.kind == Kind::undefined) return new_generator(heap, new_list(heap, {}));
  if (subject.kind != Kind::dict) fail("items: a dict is needed, not " + std::string(type_name(subject)));
  const Value view = Value::of_pointer(Kind::dict_view, heap.object(DictView{DictView::Part::items, subject}));
  return new_generator(heap, new_list(heap, elements_of(heap, view)));
}

Value attr(Runtime& runtime, const Value& subject, const Arguments& given) {
  const Bound bound("attr", given, {"name"});
  const std::string_view name = text_of(runtime.heap(), bound.need(0, "attr"));
  // Attributes only: what lies under the name as an item of a dict is not looked at.
  return subject.kind == Kind::dict && !find(subject, name) ? attribute(runtime.heap(), subject, name)
         : subject.kind == Kind::dict                       ? Value::undefined(name)
                                                            : attribute(runtime.heap(), subject, name);
}

constexpr std::pair<std::string_view, Function> kFilters[] = {{"length", count},
                                                              {"count", count},
                                                              {"first", first},
                                                              {"last", last},
                                                              {"list", list},
                                                              {"reverse", reverse},
                                                              {"join", join},
                                                              {"sort", sort},
                                                              {"dictsort", dictsort},
                                                              {"unique", unique},
                                                              {"min", extreme<false>},
                                                              {"max", extreme<true>},
                                                              {"sum", sum},
                                                              {"batch", batch},
                                                              {"slice", slice_filter},
                                                              {"groupby", groupby},
                                                              {"map", map},
                                                              {"select", choose<true, false>},
                                                              {"reject", choose<false, false>},
                                                              {"selectattr", choose<true, true>},
                                                              {"rejectattr", choose<false, true>},
                                                              {"items", items},
                                                              {"attr", attr}};

}  // namespace

Function find_sequence_filter(std::string_view name) {
  for (const auto& [key, function] : kFilters)
    if (key == name) return function;
  return nullptr;
}

}  // namespace espalier::jinja
