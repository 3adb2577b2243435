// The filter tojson, as Hugging Face defines it for chat templates: json.dumps(value, ensure_ascii=False).
#include <algorithm>
#include <cmath>

#include "text/jinja/operations.h"
#include "text/jinja/runtime.h"
#include "text/jinja/values/text_form.h"
#include "text/jinja/values/unicode.h"

namespace espalier::jinja {
namespace {

struct Style {
  bool ascii = false, sorted = false, indented = false;
  std::string_view indent, between = ", ", after_key = ": ";
};

class Writer {
 public:
  Writer(Text& out, const Style& style) : out_(out), style_(style) {}

  void write(const Value& value, int depth) {
    out_.heap().step();
    if (depth > kDeepestValue) fail("a value is nested more than " + std::to_string(kDeepestValue) + " levels deep");
    switch (value.kind) {
      case Kind::none:
        out_.add("null");
        return;
      case Kind::boolean:
        out_.add(value.boolean ? "true" : "false");
        return;
      case Kind::integer:
        out_.add(std::to_string(value.integer));
        return;
      case Kind::big_integer:
        out_.add(value.text());
        return;
      case Kind::real:
        out_.add(real(value.real));
        return;
      case Kind::string:
        string(value.text());
        return;
      case Kind::list:
      case Kind::tuple:
        return list(value, depth);
      case Kind::dict:
        return dict(value, depth);
      default:
        fail(std::string(type_name(value)) + " cannot be written as JSON");
    }
  }

 private:
  static std::string real(double x) {
    if (std::isnan(x)) return "NaN";
    if (std::isinf(x)) return x < 0 ? "-Infinity" : "Infinity";
    return real_text(x);
  }

  void line(int depth) {
    if (!style_.indented) return;
    out_.add('\n');
    out_.fill(static_cast<std::size_t>(depth), style_.indent);
  }

  void list(const Value& value, int depth) {
    out_.add('[');
    bool first = true;
    for (const Value& element : value.elements()) {
      if (!std::exchange(first, false)) out_.add(style_.between);
      line(depth + 1);
      write(element, depth + 1);
    }
    if (!first) line(depth);
    out_.add(']');
  }

  void dict(const Value& value, int depth) {
    std::span<const Entry> entries = value.pairs();
    std::vector<Entry> sorted;
    if (style_.sorted) {
      out_.heap().reserve(entries.size_bytes());
      sorted.assign(entries.begin(), entries.end());
      std::stable_sort(sorted.begin(), sorted.end(),
                       [&](const Entry& a, const Entry& b) { return order(out_.heap(), a.key, b.key) < 0; });
      entries = sorted;
    }
    out_.add('{');
    bool first = true;
    for (const Entry& entry : entries) {
      if (!std::exchange(first, false)) out_.add(style_.between);
      line(depth + 1);
      key(entry.key);
      out_.add(style_.after_key);
      write(entry.value, depth + 1);
    }
    if (!first) line(depth);
    out_.add('}');
  }

  void key(const Value& value) {
    if (value.is_string()) return string(value.text());
    if (value.is_sequence() || value.kind == Kind::dict)
      fail("keys of JSON objects must be strings, not " + std::string(type_name(value)));
    out_.add('"');
    write(value, 0);
    out_.add('"');
  }

  void string(std::string_view text) {
    out_.add('"');
    std::size_t plain = 0;  // begin of what needs no escape
    for (std::size_t i = 0; i < text.size();) {
      const auto byte = static_cast<unsigned char>(text[i]);
      if (byte >= 0x20 && byte != '"' && byte != '\\' && (byte < 0x80 || !style_.ascii)) {
        ++i;
        continue;
      }
      out_.add(text.substr(plain, i - plain));
      Characters one(text.substr(i));
      escape(one.next());
      i = text.size() - one.rest().size();
      plain = i;
    }
    out_.add(text.substr(plain));
    out_.add('"');
  }

  void escape(char32_t c) {
    constexpr std::string_view special = "\"\\\n\r\t\b\f", letters = "\"\\nrtbf";
    if (const std::size_t which = c < 0x80 ? special.find(static_cast<char>(c)) : std::string_view::npos;
        which != std::string_view::npos) {
      out_.add('\\').add(letters[which]);
    } else if (c >= 0x10000) {
      unit(0xd800 + ((c - 0x10000) >> 10));
      unit(0xdc00 + ((c - 0x10000) & 0x3ff));
    } else {
      unit(c);
    }
  }

  void unit(char32_t c) {
    constexpr char digits[] = "0123456789abcdef";
    out_.add("\\u");
    for (int shift = 12; shift >= 0; shift -= 4) out_.add(digits[c >> shift & 15]);
  }

  Text& out_;
  const Style& style_;
};

Style style_of(Heap& heap, const Arguments& given) {
  const Bound bound("tojson", given, {"ensure_ascii", "indent", "separators", "sort_keys"});
  Style style;
  style.ascii = truthy(bound.get(0, Value::of_bool(false)));
  style.sorted = truthy(bound.get(3, Value::of_bool(false)));
  const Value indent = bound.get(1, Value::none());
  if (indent.kind != Kind::none) {
    style.indented = true;
    style.between = ",";
    if (indent.is_string()) {
      style.indent = indent.text();
    } else {
      Text spaces(heap);
      spaces.fill(static_cast<std::size_t>(std::clamp<std::int64_t>(to_integer(indent, "indent"), 0, 1000)), ' ');
      style.indent = spaces.value().text();
    }
  }
  const Value separators = bound.get(2, Value::none());
  if (separators.kind != Kind::none) {
    if (!separators.is_sequence() || separators.size != 2 || !separators.items[0].is_string() ||
        !separators.items[1].is_string())
      fail("separators must be two strings");
    style.between = separators.items[0].text();
    style.after_key = separators.items[1].text();
  }
  return style;
}

}  // namespace

Value to_json(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Style style = style_of(runtime.heap(), arguments);
  Text out(runtime.heap());
  Writer(out, style).write(value, 0);
  return out.value();
}

}  // namespace espalier::jinja
