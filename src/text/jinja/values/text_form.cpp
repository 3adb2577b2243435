#include "text/jinja/values/text_form.h"

#include <charconv>
#include <cmath>

#include "text/jinja/operations.h"
#include "text/jinja/values/callable.h"
#include "text/jinja/values/unicode.h"
#include "text/utf8.h"

namespace espalier::jinja {
namespace {

void add_escaped(Text& out, char32_t c) {
  constexpr char digits[] = "0123456789abcdef";
  const int width = c < 0x100 ? 2 : c < 0x10000 ? 4 : 8;
  out.add(c < 0x100 ? "\\x" : c < 0x10000 ? "\\u" : "\\U");
  for (int shift = (width - 1) * 4; shift >= 0; shift -= 4) out.add(digits[c >> shift & 15]);
}

void add_string_repr(Text& out, std::string_view text) {
  const bool single = text.find('\'') == std::string_view::npos || text.find('"') != std::string_view::npos;
  const char quote = single ? '\'' : '"';
  out.add(quote);
  for (Characters all(text); !all.done();) {
    const std::string_view rest = all.rest();
    const char32_t c = all.next();
    if (c == static_cast<unsigned char>(quote) || c == '\\') {
      out.add('\\').add(static_cast<char>(c));
    } else if (c == '\n') {
      out.add("\\n");
    } else if (c == '\r') {
      out.add("\\r");
    } else if (c == '\t') {
      out.add("\\t");
    } else if (is_printable(c)) {
      out.add(rest.substr(0, rest.size() - all.rest().size()));
    } else {
      add_escaped(out, c);
    }
  }
  out.add(quote);
}

void add_elements(Text& out, std::span<const Value> values, int depth) {
  bool first = true;
  for (const Value& value : values) {
    if (!first) out.add(", ");
    first = false;
    add_repr(out, value, depth + 1);
  }
}

void add_dict(Text& out, std::span<const Entry> entries, int depth) {
  out.add('{');
  bool first = true;
  for (const Entry& entry : entries) {
    if (!first) out.add(", ");
    first = false;
    add_repr(out, entry.key, depth + 1);
    out.add(": ");
    add_repr(out, entry.value, depth + 1);
  }
  out.add('}');
}

void add_view(Text& out, const DictView& view, int depth) {
  constexpr std::string_view names[] = {"dict_items([", "dict_keys([", "dict_values(["};
  out.add(names[static_cast<int>(view.part)]);
  add_elements(out, elements_of(out.heap(), Value::of_pointer(Kind::dict_view, &view)), depth);
  out.add("])");
}

void add_range(Text& out, const Range& range) {
  out.add("range(").add(std::to_string(range.start)).add(", ").add(std::to_string(range.stop));
  if (range.step != 1) out.add(", ").add(std::to_string(range.step));
  out.add(')');
}

}  // namespace

void Text::fill(std::size_t n, char c) {
  heap_->reserve(text_.size() + n);
  heap_->scan(n);
  if (heap_->traces()) own_.append(n, '\0');
  text_.append(n, c);
}

void Text::fill(std::size_t n, std::string_view part) {
  if (part.empty()) return;
  if (n > heap_->limits().memory_bytes / part.size()) heap_->reserve(heap_->limits().memory_bytes + 1);
  heap_->reserve(text_.size() + n * part.size());
  for (std::size_t i = 0; i < n; ++i) add(part);
}

// The shortest digits that read back as the same number; with an exponent from 1e16 on and below 1e-4.
std::string real_text(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto scientific = std::to_chars(buffer, buffer + sizeof(buffer), x, std::chars_format::scientific);
  const std::string_view text(buffer, static_cast<std::size_t>(scientific.ptr - buffer));
  const int exponent = std::stoi(std::string(text.substr(text.find('e') + 1)));
  if (exponent < -4 || exponent >= 16) return std::string(text);
  const auto fixed = std::to_chars(buffer, buffer + sizeof(buffer), x, std::chars_format::fixed);
  std::string plain(buffer, fixed.ptr);
  if (plain.find('.') == std::string::npos) plain += ".0";
  return plain;
}

void add_text(Text& out, const Value& value) {
  if (value.kind == Kind::string) {
    out.add(value.text());
  } else if (value.kind != Kind::undefined) {
    add_repr(out, value);
  }
}

void add_repr(Text& out, const Value& value, int depth) {
  out.heap().step();
  if (depth > kDeepestValue) fail("a value is nested more than " + std::to_string(kDeepestValue) + " levels deep");
  switch (value.kind) {
    case Kind::undefined:
      out.add("Undefined");
      return;
    case Kind::none:
      out.add("None");
      return;
    case Kind::boolean:
      out.add(value.boolean ? "True" : "False");
      return;
    case Kind::integer:
      out.add(std::to_string(value.integer));
      return;
    case Kind::big_integer:
      out.add(value.text());
      return;
    case Kind::real:
      out.add(real_text(value.real));
      return;
    case Kind::string:
      add_string_repr(out, value.text());
      return;
    case Kind::list:
      out.add('[');
      add_elements(out, value.elements(), depth);
      out.add(']');
      return;
    case Kind::tuple:
      out.add('(');
      add_elements(out, value.elements(), depth);
      out.add(value.size == 1 ? ",)" : ")");
      return;
    case Kind::dict:
      add_dict(out, value.pairs(), depth);
      return;
    case Kind::dict_view:
      add_view(out, *value.view, depth);
      return;
    case Kind::range:
      add_range(out, *value.range);
      return;
    case Kind::name_space:
      out.add("<Namespace ");
      add_dict(out, value.name_space->entries(), depth);
      out.add('>');
      return;
    case Kind::generator:
      out.add("<generator object>");
      return;
    case Kind::loop:
      out.add("<LoopContext>");
      return;
    case Kind::cycler:
      out.add(value.cycler->joins ? "<Joiner>" : "<Cycler>");
      return;
    case Kind::callable:
      out.add("<").add(value.callable->name).add(">");
      return;
  }
}

std::string_view text_of(Heap& heap, const Value& value) {
  if (value.kind == Kind::string) return value.text();
  Text out(heap);
  add_text(out, value);
  return out.value().text();
}

}  // namespace espalier::jinja
