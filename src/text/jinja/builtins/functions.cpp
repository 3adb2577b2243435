// Global functions: range, dict, namespace, cycler, joiner, and the two that Hugging Face adds.
#include <time.h>

#include <cmath>

#include "text/jinja/operations.h"
#include "text/jinja/runtime.h"
#include "text/jinja/values/text_form.h"

namespace espalier::jinja {
namespace {

constexpr std::int64_t kLongestRange = 100'000;  // as in Jinja's sandbox

Value range(Runtime& runtime, const Value&, const Arguments& given) {
  const Bound bound("range", given, {"start", "stop", "step"});
  const bool only_stop = !bound.has(1);
  constexpr std::int64_t limit = std::int64_t{1} << 53;
  const auto number = [&](std::size_t i, std::int64_t otherwise) {
    const std::int64_t n = bound.has(i) ? to_integer(bound.need(i, "range()"), "range()'s argument") : otherwise;
    if (n < -limit || n > limit) fail("range() works with numbers up to 2 ** 53");
    return n;
  };
  const std::int64_t first = number(0, 0), step = number(2, 1);
  if (!bound.has(0)) fail("range() is missing an argument");
  if (step == 0) fail("range()'s step must not be 0");
  const Range all{only_stop ? 0 : first, only_stop ? first : number(1, 0), step};
  if (all.length() > kLongestRange)
    fail("a range of " + std::to_string(all.length()) + " numbers is longer than the limit of " +
         std::to_string(kLongestRange));
  return Value::of_pointer(Kind::range, runtime.heap().object(all));
}

// dict(mapping or pairs, name=value, ...)
Value dict(Runtime& runtime, const Value&, const Arguments& given) {
  Heap& heap = runtime.heap();
  if (given.positional.size() > 1) fail("dict() takes at most one argument without a name");
  Value result = Value::of_entries({});
  if (!given.positional.empty()) {
    const Value& source = given.positional[0];
    if (source.kind == Kind::dict) {
      result = source;
    } else {
      std::vector<Entry> entries;
      for (const Value& pair : elements_of(heap, source)) {
        const auto both = elements_of(heap, pair);
        if (both.size() != 2) fail("dict() needs pairs of key and value");
        heap.reserve((entries.size() + 1) * sizeof(Entry));
        entries.push_back({both[0], both[1]});
      }
      result = with_entries(heap, result, entries);
    }
  }
  std::vector<Entry> named;
  for (const auto& [name, value] : given.named) named.push_back({Value::of_string(name), value});
  return with_entries(heap, result, named);
}

Value name_space(Runtime& runtime, const Value& self, const Arguments& given) {
  const Value entries = dict(runtime, self, given);
  const auto room = runtime.heap().array<Entry>(entries.size + 4);
  std::copy(entries.pairs().begin(), entries.pairs().end(), room.begin());
  for (const Entry& entry : entries.pairs()) {
    if (!entry.key.is_string()) fail("the names in a namespace must be strings");
    if (entry.key.text().starts_with("_"))
      fail("namespace attributes must not begin with an underscore, as '" + std::string(entry.key.text()) + "' does");
  }
  return Value::of_pointer(Kind::name_space, runtime.heap().object(Namespace{room, entries.size}));
}

Value cycler(Runtime& runtime, const Value&, const Arguments& given) {
  if (given.positional.empty() || !given.named.empty()) fail("cycler() needs the values to go through");
  return Value::of_pointer(Kind::cycler,
                           runtime.heap().object(Cycler{new_tuple(runtime.heap(), given.positional), 0, false}));
}

Value joiner(Runtime& runtime, const Value&, const Arguments& given) {
  const Bound bound("joiner", given, {"sep"});
  const Value separator[] = {bound.get(0, Value::of_string(", "))};
  return Value::of_pointer(Kind::cycler, runtime.heap().object(Cycler{new_tuple(runtime.heap(), separator), 0, true}));
}

Value raise_exception(Runtime& runtime, const Value&, const Arguments& given) {
  const Bound bound("raise_exception", given, {"message"});
  throw Failure{Failure::Kind::raised,
                std::string(text_of(runtime.heap(),
                                    bound.get(0, Value::of_string("the chat template refused this conversation"))))};
}

Value strftime_now(Runtime& runtime, const Value&, const Arguments& given) {
  const Bound bound("strftime_now", given, {"format"});
  const std::string format(text_of(runtime.heap(), bound.need(0, "strftime_now()")));
  if (format.size() > 1000) fail("strftime_now(): the format is longer than 1000 characters");
  if (format.empty()) return Value::of_string("");
  const std::time_t now = runtime.now();
  tm local{};
  localtime_r(&now, &local);
  char buffer[16'384];
  const std::size_t size = std::strftime(buffer, sizeof(buffer), format.c_str(), &local);
  return Value::of_string(runtime.heap().text({buffer, size}));
}

constexpr std::pair<std::string_view, Function> kFunctions[] = {{"range", range},
                                                                {"dict", dict},
                                                                {"namespace", name_space},
                                                                {"cycler", cycler},
                                                                {"joiner", joiner},
                                                                {"raise_exception", raise_exception},
                                                                {"strftime_now", strftime_now}};

}  // namespace

Function find_function(std::string_view name) {
  for (const auto& [key, function] : kFunctions)
    if (key == name) return function;
  return nullptr;
}

}  // namespace espalier::jinja
