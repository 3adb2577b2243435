// Filters on text.
#include <algorithm>
#include <array>

#include "text/jinja/operations.h"
#include "text/jinja/runtime.h"
#include "text/jinja/values/printf.h"
#include "text/jinja/values/string_tools.h"
#include "text/jinja/values/text_form.h"
#include "text/jinja/values/unicode.h"
#include "text/utf8.h"

namespace espalier::jinja {
namespace {

template <Case to>
Value change_case(Runtime& runtime, const Value& subject, const Arguments&) {
  const std::string_view text = text_of(runtime.heap(), subject);
  runtime.heap().reserve(text.size() * 3);
  runtime.heap().scan(text.size());
  return Value::of_string(runtime.heap().text_made_of(text, to_case(text, to)));
}

Value capitalize(Runtime& runtime, const Value& subject, const Arguments&) {
  return capitalised(runtime.heap(), text_of(runtime.heap(), subject));
}

// Words begin after white space, hyphens and opening brackets; unlike str.title() an apostrophe does not begin one.
Value title(Runtime& runtime, const Value& subject, const Arguments&) {
  Text out(runtime.heap());
  bool in_word = false;
  for (Characters all(text_of(runtime.heap(), subject)); !all.done();) {
    const char32_t c = all.next();
    const bool separator =
        is_space(c) || (c < 0x80 && std::string_view("-({[<").find(static_cast<char>(c)) != std::string_view::npos);
    std::string converted;
    append_case(converted, c, in_word ? Case::lower : Case::upper);
    out.add(converted);
    in_word = !separator;
  }
  return out.value();
}

Value trim(Runtime& runtime, const Value& subject, const Arguments& given) {
  const Bound bound("trim", given, {"chars"});
  Value chars = bound.get(0, Value::none());
  if (chars.kind != Kind::none) chars = Value::of_string(text_of(runtime.heap(), chars));
  return Value::of_string(stripped(runtime.heap(), text_of(runtime.heap(), subject), chars, true, true));
}

Value replace(Runtime& runtime, const Value& subject, const Arguments& given) {
  const Bound bound("replace", given, {"old", "new", "count"});
  const Value count = bound.get(2, Value::none());
  Heap& heap = runtime.heap();
  return replaced(heap, text_of(heap, subject), text_of(heap, bound.need(0, "replace")),
                  text_of(heap, bound.need(1, "replace")), count.kind == Kind::none ? -1 : to_integer(count, "count"));
}

Value string(Runtime& runtime, const Value& subject, const Arguments&) {
  return Value::of_string(text_of(runtime.heap(), subject));
}

Value escape(Runtime& runtime, const Value& subject, const Arguments&) {
  constexpr std::string_view special = "&<>'\"";
  constexpr std::string_view names[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
  Text out(runtime.heap());
  std::string_view rest = text_of(runtime.heap(), subject);
  while (!rest.empty()) {
    const std::size_t plain = std::min(rest.find_first_of(special), rest.size());
    out.add(rest.substr(0, plain));
    if (plain < rest.size()) out.add(names[special.find(rest[plain])]);
    rest.remove_prefix(std::min(plain + 1, rest.size()));
  }
  return out.value();
}

Value striptags(Runtime& runtime, const Value& subject, const Arguments&) {
  constexpr std::pair<std::string_view, std::string_view> entities[] = {
      {"&lt;", "<"}, {"&gt;", ">"}, {"&#39;", "'"}, {"&#34;", "\""}, {"&quot;", "\""}, {"&amp;", "&"}};
  Heap& heap = runtime.heap();
  Text without_tags(heap);
  std::string_view rest = text_of(heap, subject);
  for (;;) {
    const auto begin = first_of(heap, rest, "<");
    const auto end = begin ? first_of(heap, rest.substr(*begin), ">") : std::nullopt;
    if (!end) break;
    without_tags.add(rest.substr(0, *begin));
    rest.remove_prefix(*begin + *end + 1);
  }
  without_tags.add(rest);
  Text joined(heap);
  for (const Value& word : split_text(heap, without_tags.value().text(), Value::none(), -1, false).elements()) {
    if (joined.size() > 0) joined.add(' ');
    joined.add(word.text());
  }
  Value text = joined.value();
  for (const auto& [entity, character] : entities) text = replaced(heap, text.text(), entity, character, -1);
  return text;
}

Value indent(Runtime& runtime, const Value& subject, const Arguments& given) {
  const Bound bound("indent", given, {"width", "first", "blank"});
  Heap& heap = runtime.heap();
  if (!subject.is_string()) fail("indent: a string is needed, not " + std::string(type_name(subject)));
  const Value width = bound.get(0, Value::of_int(4));
  Text spaces(heap);
  width.is_string()
      ? spaces.add(width.text())
      : (spaces.fill(static_cast<std::size_t>(std::clamp<std::int64_t>(to_integer(width, "width"), 0, 1 << 20)), ' '),
         spaces);
  Text text(heap);
  add_text(text, subject);
  text.add('\n');  // so that the last line counts even when it is empty
  const bool blank = truthy(bound.get(2, Value::of_bool(false)));
  Text out(heap);
  if (truthy(bound.get(1, Value::of_bool(false)))) out.add(spaces.view());
  bool first = true;
  for (const Value& line : lines_of(heap, text.value().text(), false)) {
    if (!first) out.add('\n');
    if (!first && (blank || line.size > 0)) out.add(spaces.view());
    out.add(line.text());
    first = false;
  }
  return out.value();
}

Value center(Runtime& runtime, const Value& subject, const Arguments& given) {
  const Bound bound("center", given, {"width"});
  return padded(runtime.heap(), text_of(runtime.heap(), subject), to_integer(bound.get(0, Value::of_int(80)), "width"),
                " ", 0);
}

Value truncate(Runtime& runtime, const Value& subject, const Arguments& given) {
  const Bound bound("truncate", given, {"length", "killwords", "end", "leeway"});
  Heap& heap = runtime.heap();
  const std::int64_t most = to_integer(bound.get(0, Value::of_int(255)), "length"),
                     leeway = to_integer(bound.get(3, Value::of_int(5)), "leeway");
  const Value end = Value::of_string(text_of(heap, bound.get(2, Value::of_string("..."))));
  const auto end_length = static_cast<std::int64_t>(length(heap, end));
  if (most < end_length) fail("truncate: the length must be at least that of the end");
  if (leeway < 0) fail("truncate: the leeway must not be negative");
  if (static_cast<std::int64_t>(length(heap, subject)) <= most + leeway) return subject;
  if (!subject.is_string()) fail("truncate: a string is needed, not " + std::string(type_name(subject)));
  std::string_view kept =
      subject.text().substr(0, byte_of(subject.text(), static_cast<std::size_t>(most - end_length)));
  if (!truthy(bound.get(1, Value::of_bool(false)))) kept = kept.substr(0, std::min(kept.rfind(' '), kept.size()));
  Text out(heap);
  return out.add(kept).add(end.text()).value();
}

Value wordcount(Runtime& runtime, const Value& subject, const Arguments&) {
  std::int64_t n = 0;
  bool in_word = false;
  const std::string_view text = text_of(runtime.heap(), subject);
  runtime.heap().step(static_cast<std::int64_t>(text.size() / 16));
  for (Characters all(text); !all.done();) {
    const char32_t c = all.next();
    const bool word = c == '_' || is_alphabetic(c) || is_numeric(c);
    n += word && !in_word;
    in_word = word;
  }
  return Value::of_int(n);
}

void add_url_part(Text& out, std::string_view text, bool in_query) {
  constexpr char digits[] = "0123456789ABCDEF";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain =
        byte < 0x80 && (is_alphabetic(byte) || is_numeric(byte) ||
                        std::string_view("_.-~").find(c) != std::string_view::npos || (c == '/' && !in_query));
    if (plain)
      out.add(c);
    else if (c == ' ' && in_query)
      out.add('+');
    else
      out.add('%').add(digits[byte >> 4]).add(digits[byte & 15]);
  }
}

Value urlencode(Runtime& runtime, const Value& subject, const Arguments&) {
  Heap& heap = runtime.heap();
  Text out(heap);
  if (!subject.is_string() && iterable(subject) && subject.kind != Kind::dict && subject.kind != Kind::undefined)
    fail("urlencode: a string or a dict is needed, not " + std::string(type_name(subject)));
  if (subject.kind != Kind::dict) {
    add_url_part(out, text_of(heap, subject), false);
    return out.value();
  }
  for (const Entry& entry : subject.pairs()) {
    if (out.size() > 0) out.add('&');
    add_url_part(out, text_of(heap, entry.key), true);
    out.add('=');
    add_url_part(out, text_of(heap, entry.value), true);
  }
  return out.value();
}

Value format(Runtime& runtime, const Value& subject, const Arguments& given) {
  Heap& heap = runtime.heap();
  if (!given.named.empty() && !given.positional.empty()) fail("format: give positional or keyword arguments, not both");
  if (given.named.empty()) return percent_format(heap, text_of(heap, subject), new_tuple(heap, given.positional));
  std::vector<Entry> entries;
  for (const auto& [name, value] : given.named) entries.push_back({Value::of_string(name), value});
  return percent_format(heap, text_of(heap, subject), with_entries(heap, Value::of_entries({}), entries));
}

constexpr std::pair<std::string_view, Function> kFilters[] = {{"upper", change_case<Case::upper>},
                                                              {"lower", change_case<Case::lower>},
                                                              {"capitalize", capitalize},
                                                              {"title", title},
                                                              {"trim", trim},
                                                              {"replace", replace},
                                                              {"string", string},
                                                              {"safe", string},
                                                              {"e", escape},
                                                              {"escape", escape},
                                                              {"forceescape", escape},
                                                              {"striptags", striptags},
                                                              {"indent", indent},
                                                              {"center", center},
                                                              {"truncate", truncate},
                                                              {"wordcount", wordcount},
                                                              {"urlencode", urlencode},
                                                              {"format", format},
                                                              {"tojson", to_json}};

}  // namespace

Function find_text_filter(std::string_view name) {
  for (const auto& [key, function] : kFilters)
    if (key == name) return function;
  return nullptr;
}

Function find_filter(std::string_view name) {
  for (const auto find_in : {find_text_filter, find_sequence_filter, find_number_filter})
    if (const Function found = find_in(name)) return found;
  return nullptr;
}

}  // namespace espalier::jinja
