// Methods of strings.
#include <algorithm>
#include <cstring>
#include <optional>

#include "text/jinja/builtins/methods.h"
#include "text/jinja/operations.h"
#include "text/jinja/runtime.h"
#include "text/jinja/values/printf.h"
#include "text/jinja/values/string_tools.h"
#include "text/jinja/values/text_form.h"
#include "text/jinja/values/unicode.h"
#include "text/utf8.h"

namespace espalier::jinja {
namespace {

std::string_view string_argument(const Value& value, std::string_view callee) {
  if (!value.is_string()) fail(std::string(callee) + "() needs a string, not " + std::string(type_name(value)));
  return value.text();
}

template <Case to>
Value change_case(Runtime& runtime, const Value& self, const Arguments&) {
  runtime.heap().reserve(std::size_t{self.size} * 3);
  runtime.heap().scan(self.size);
  return Value::of_string(runtime.heap().text_made_of(self.text(), to_case(self.text(), to)));
}

// Lower case, but letters with a long upper form are spelled out: ß is ss.
Value casefold(Runtime& runtime, const Value& self, const Arguments&) {
  Text out(runtime.heap());
  for (Characters all(self.text()); !all.done();) {
    const char32_t c = all.next();
    std::string upper, lower;
    append_case(upper, c, Case::upper);
    append_case(lower, c, Case::lower);
    out.add(count_characters(upper) > 1 ? to_case(upper, Case::lower) : lower);
  }
  return out.value();
}

Value capitalize(Runtime& runtime, const Value& self, const Arguments&) {
  return capitalised(runtime.heap(), self.text());
}

Value title(Runtime& runtime, const Value& self, const Arguments&) {
  Text out(runtime.heap());
  bool in_word = false;
  for (Characters all(self.text()); !all.done();) {
    const char32_t c = all.next();
    std::string converted;
    append_case(converted, c, in_word ? Case::lower : Case::title);
    out.add(converted);
    in_word = is_alphabetic(c);
  }
  return out.value();
}

Value swapcase(Runtime& runtime, const Value& self, const Arguments&) {
  Text out(runtime.heap());
  for (Characters all(self.text()); !all.done();) {
    const char32_t c = all.next();
    std::string converted;
    append_case(converted, c, is_upper(c) ? Case::lower : Case::upper);
    out.add(converted);
  }
  return out.value();
}

template <bool left, bool right>
Value strip(Runtime& runtime, const Value& self, const Arguments& given) {
  const Bound bound("strip", given, {"chars"});
  const Value chars = bound.get(0, Value::none());
  if (chars.kind != Kind::none) string_argument(chars, "strip");
  return Value::of_string(stripped(runtime.heap(), self.text(), chars, left, right));
}

// The part of the text that the arguments start and end leave, and where it begins, in characters.
struct Window {
  std::string_view text;
  std::size_t first = 0;
};

Window window(Heap& heap, const Value& self, const Value& start, const Value& end) {
  if (start.kind == Kind::none && end.kind == Kind::none) return {self.text(), 0};
  const Value part = slice(heap, self, start, end, Value::none());
  return {part.text(),
          count_characters({self.characters, static_cast<std::size_t>(part.characters - self.characters)})};
}

template <bool at_end>
Value starts_or_ends(Runtime& runtime, const Value& self, const Arguments& given) {
  const Bound bound(at_end ? "endswith" : "startswith", given, {"prefix", "start", "end"});
  const std::string_view text =
      window(runtime.heap(), self, bound.get(1, Value::none()), bound.get(2, Value::none())).text;
  const Value what = bound.need(0, "startswith() or endswith()");
  const auto fits = [&](const Value& v) {
    const std::string_view s = string_argument(v, at_end ? "endswith" : "startswith");
    return at_end ? text.ends_with(s) : text.starts_with(s);
  };
  if (what.kind != Kind::tuple) return Value::of_bool(fits(what));
  return Value::of_bool(std::any_of(what.elements().begin(), what.elements().end(), fits));
}

template <bool from_right, bool must_be_there>
Value find_text(Runtime& runtime, const Value& self, const Arguments& given) {
  const Bound bound("find", given, {"sub", "start", "end"});
  const Window part = window(runtime.heap(), self, bound.get(1, Value::none()), bound.get(2, Value::none()));
  const std::string_view wanted = string_argument(bound.need(0, "find()"), "find");
  const auto found =
      from_right ? last_of(runtime.heap(), part.text, wanted) : first_of(runtime.heap(), part.text, wanted);
  if (!found && must_be_there) fail("substring not found");
  return Value::of_int(found ? static_cast<std::int64_t>(part.first + count_characters(part.text.substr(0, *found)))
                             : -1);
}

Value count(Runtime& runtime, const Value& self, const Arguments& given) {
  const Bound bound("count", given, {"sub", "start", "end"});
  const std::string_view text =
      window(runtime.heap(), self, bound.get(1, Value::none()), bound.get(2, Value::none())).text;
  const std::string_view wanted = string_argument(bound.need(0, "count()"), "count");
  if (wanted.empty()) return Value::of_int(static_cast<std::int64_t>(count_characters(text)) + 1);
  std::int64_t n = 0;
  for (std::string_view rest = text;; ++n) {
    const auto found = first_of(runtime.heap(), rest, wanted);
    if (!found) return Value::of_int(n);
    rest.remove_prefix(*found + wanted.size());
  }
}

Value replace(Runtime& runtime, const Value& self, const Arguments& given) {
  const Bound bound("replace", given, {"old", "new", "count"});
  const std::string_view from = string_argument(bound.need(0, "replace()"), "replace"),
                         to = string_argument(bound.need(1, "replace()"), "replace");
  return replaced(runtime.heap(), self.text(), from, to, to_integer(bound.get(2, Value::of_int(-1)), "count"));
}

template <bool from_right>
Value split(Runtime& runtime, const Value& self, const Arguments& given) {
  const Bound bound("split", given, {"sep", "maxsplit"});
  const Value separator = bound.get(0, Value::none());
  if (separator.kind != Kind::none && string_argument(separator, "split").empty()) fail("empty separator");
  return split_text(runtime.heap(), self.text(), separator, to_integer(bound.get(1, Value::of_int(-1)), "maxsplit"),
                    from_right);
}

Value split_lines(Runtime& runtime, const Value& self, const Arguments& given) {
  const Bound bound("splitlines", given, {"keepends"});
  return new_list(runtime.heap(), lines_of(runtime.heap(), self.text(), truthy(bound.get(0, Value::of_bool(false)))));
}

template <bool from_right>
Value partition(Runtime& runtime, const Value& self, const Arguments& given) {
  const Bound bound("partition", given, {"sep"});
  const std::string_view separator = string_argument(bound.need(0, "partition()"), "partition"), text = self.text();
  if (separator.empty()) fail("empty separator");
  const auto found = from_right ? last_of(runtime.heap(), text, separator) : first_of(runtime.heap(), text, separator);
  const Value whole = self, empty = Value::of_string("");
  const Value nowhere[] = {from_right ? empty : whole, empty, from_right ? whole : empty};
  if (!found) return new_tuple(runtime.heap(), nowhere);
  const Value parts[] = {Value::of_string(text.substr(0, *found)),
                         Value::of_string(text.substr(*found, separator.size())),
                         Value::of_string(text.substr(*found + separator.size()))};
  return new_tuple(runtime.heap(), parts);
}

template <bool at_end>
Value remove_affix(Runtime&, const Value& self, const Arguments& given) {
  const Bound bound("removeprefix", given, {"prefix"});
  const std::string_view affix = string_argument(bound.need(0, "removeprefix()"), "removeprefix"), text = self.text();
  if (at_end ? !text.ends_with(affix) : !text.starts_with(affix)) return self;
  return Value::of_string(at_end ? text.substr(0, text.size() - affix.size()) : text.substr(affix.size()));
}

Value join(Runtime& runtime, const Value& self, const Arguments& given) {
  const Bound bound("join", given, {"iterable"});
  Text out(runtime.heap());
  bool first = true;
  for (const Value& part : elements_of(runtime.heap(), bound.need(0, "join()"))) {
    if (!std::exchange(first, false)) out.add(self.text());
    out.add(string_argument(part, "join"));
  }
  return out.value();
}

enum class Side { left, right, both };

template <Side side>
Value pad(Runtime& runtime, const Value& self, const Arguments& given) {
  const Bound bound("center", given, {"width", "fillchar"});
  const std::string_view fill = string_argument(bound.get(1, Value::of_string(" ")), "center");
  if (count_characters(fill) != 1) fail("the fill character must be exactly one character long");
  return padded(runtime.heap(), self.text(), to_integer(bound.need(0, "center()"), "width"), fill,
                side == Side::left    ? -1
                : side == Side::right ? 1
                                      : 0);
}

Value zfill(Runtime& runtime, const Value& self, const Arguments& given) {
  const Bound bound("zfill", given, {"width"});
  const auto width = to_integer(bound.need(0, "zfill()"), "width");
  const auto n = static_cast<std::int64_t>(length(runtime.heap(), self));
  const std::string_view text = self.text();
  const std::size_t sign = text.starts_with('-') || text.starts_with('+');
  Text out(runtime.heap());
  out.add(text.substr(0, sign));
  if (width > n) out.fill(static_cast<std::size_t>(width - n), '0');
  return out.add(text.substr(sign)).value();
}

Value expand_tabs(Runtime& runtime, const Value& self, const Arguments& given) {
  const Bound bound("expandtabs", given, {"tabsize"});
  const auto size = std::max<std::int64_t>(0, to_integer(bound.get(0, Value::of_int(8)), "tabsize"));
  Text out(runtime.heap());
  std::int64_t column = 0;
  for (const Value& c : elements_of(runtime.heap(), self)) {
    if (c.text() == "\t") {
      const std::int64_t spaces = size == 0 ? 0 : size - column % size;
      out.fill(static_cast<std::size_t>(spaces), ' ');
      column += spaces;
    } else {
      out.add(c.text());
      column = c.text() == "\n" || c.text() == "\r" ? 0 : column + 1;
    }
  }
  return out.value();
}

Value format(Runtime& runtime, const Value& self, const Arguments& given) {
  return brace_format(runtime.heap(), self.text(), given);
}

bool is_decimal(char32_t c) {
  return is_numeric(c) && (c < 0x80 || !is_alphabetic(c));
}
bool is_alphanumeric(char32_t c) {
  return is_alphabetic(c) || is_numeric(c);
}

// True for a text that is not empty and has only such characters.
template <bool (*holds)(char32_t)>
Value all_are(Runtime& runtime, const Value& self, const Arguments&) {
  runtime.heap().step(self.size / 16);
  Characters all(self.text());
  bool result = !all.done();
  while (result && !all.done()) result = holds(all.next());
  return Value::of_bool(result);
}

// True when there is a cased character and none of the other case.
template <bool upper>
Value cased(Runtime& runtime, const Value& self, const Arguments&) {
  runtime.heap().step(self.size / 16);
  return Value::of_bool(has_case(self.text(), upper));
}

Value is_title(Runtime& runtime, const Value& self, const Arguments&) {
  runtime.heap().step(self.size / 16);
  bool any = false, in_word = false;
  for (Characters all(self.text()); !all.done();) {
    const char32_t c = all.next();
    if (is_upper(c) ? in_word : is_lower(c) && !in_word) return Value::of_bool(false);
    in_word = is_upper(c) || is_lower(c);
    any |= in_word;
  }
  return Value::of_bool(any);
}

Value ascii_only(Runtime&, const Value& self, const Arguments&) {
  return Value::of_bool(is_ascii(self.text()));
}

struct Row {
  std::string_view name;
  Function function;
};

constexpr Row kMethods[] = {{"upper", change_case<Case::upper>},
                            {"lower", change_case<Case::lower>},
                            {"casefold", casefold},
                            {"capitalize", capitalize},
                            {"title", title},
                            {"swapcase", swapcase},
                            {"strip", strip<true, true>},
                            {"lstrip", strip<true, false>},
                            {"rstrip", strip<false, true>},
                            {"startswith", starts_or_ends<false>},
                            {"endswith", starts_or_ends<true>},
                            {"find", find_text<false, false>},
                            {"rfind", find_text<true, false>},
                            {"index", find_text<false, true>},
                            {"rindex", find_text<true, true>},
                            {"count", count},
                            {"replace", replace},
                            {"split", split<false>},
                            {"rsplit", split<true>},
                            {"splitlines", split_lines},
                            {"partition", partition<false>},
                            {"rpartition", partition<true>},
                            {"removeprefix", remove_affix<false>},
                            {"removesuffix", remove_affix<true>},
                            {"join", join},
                            {"center", pad<Side::both>},
                            {"ljust", pad<Side::left>},
                            {"rjust", pad<Side::right>},
                            {"zfill", zfill},
                            {"expandtabs", expand_tabs},
                            {"format", format},
                            {"isdigit", all_are<is_decimal>},
                            {"isdecimal", all_are<is_decimal>},
                            {"isnumeric", all_are<is_numeric>},
                            {"isalpha", all_are<is_alphabetic>},
                            {"isalnum", all_are<is_alphanumeric>},
                            {"isspace", all_are<is_space>},
                            {"isprintable", all_are<is_printable>},
                            {"isupper", cased<true>},
                            {"islower", cased<false>},
                            {"istitle", is_title},
                            {"isascii", ascii_only}};

}  // namespace

Function find_string_method(std::string_view name) {
  for (const Row& row : kMethods)
    if (row.name == name) return row.function;
  return nullptr;
}

}  // namespace espalier::jinja
