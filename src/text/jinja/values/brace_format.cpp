// "{}".format(...) and the mini-language of format specifications.
#include <algorithm>
#include <charconv>

#include "text/jinja/operations.h"
#include "text/jinja/values/printf.h"
#include "text/jinja/values/unicode.h"
#include "text/utf8.h"

namespace espalier::jinja {
namespace {

constexpr std::size_t kWidest = 100'000;

class BraceFormat {
 public:
  BraceFormat(Heap& heap, const Arguments& arguments) : heap_(heap), arguments_(arguments) {}

  void run(Text& out, std::string_view format, int nested) {
    if (nested > 1) fail("format specifications are nested too deeply");
    while (!format.empty()) {
      const std::size_t next = std::min(format.find_first_of("{}"), format.size());
      out.add(format.substr(0, next));
      format.remove_prefix(next);
      if (format.empty()) return;
      if (format.size() > 1 && format[0] == format[1]) {
        out.add(format[0]);
        format.remove_prefix(2);
      } else if (format[0] == '}') {
        fail("single '}' in a format string");
      } else {
        field(out, format, nested);
      }
    }
  }

 private:
  // {name!conversion:specification}; `format` begins with the brace and is moved past the field.
  void field(Text& out, std::string_view& format, int nested) {
    int open = 0;
    std::size_t end = 0;
    for (; end < format.size(); ++end) {
      open += format[end] == '{' ? 1 : format[end] == '}' ? -1 : 0;
      if (open == 0) break;
    }
    if (open != 0) fail("expected '}' before the end of a format string");
    std::string_view inside = format.substr(1, end - 1);
    format.remove_prefix(end + 1);
    const std::size_t name_end = std::min(inside.find_first_of("!:"), inside.size());
    Value value = argument(inside.substr(0, name_end));
    inside.remove_prefix(name_end);
    if (inside.starts_with('!')) {
      if (inside.size() < 2) fail("a conversion is missing after '!'");
      Text text(heap_);
      inside[1] == 's' ? add_text(text, value) : add_repr(text, value);
      value = text.value();
      inside.remove_prefix(2);
    }
    if (inside.starts_with(':')) inside.remove_prefix(1);
    Text specification(heap_);
    run(specification, inside, nested + 1);
    add_formatted(out, value, specification.view());
  }

  // "0", "name", "name.attribute[index]"; empty: the next positional argument.
  Value argument(std::string_view path) {
    const std::size_t end = std::min(path.find_first_of(".["), path.size());
    Value value = first(path.substr(0, end));
    path.remove_prefix(end);
    while (!path.empty()) {
      const bool bracket = path[0] == '[';
      const std::size_t stop = bracket ? path.find(']') : std::min(path.find_first_of(".[", 1), path.size());
      if (stop == std::string_view::npos) fail("missing ']' in a format string");
      const std::string_view name = path.substr(1, stop - 1);
      std::int64_t number = 0;
      const auto [last, error] = std::from_chars(name.data(), name.data() + name.size(), number);
      const bool is_number = error == std::errc() && last == name.data() + name.size() && !name.empty();
      value = !bracket ? attribute(heap_, value, name)
                       : item(heap_, value, is_number ? Value::of_int(number) : Value::of_string(name));
      path.remove_prefix(stop + bracket);
    }
    return value;
  }

  Value first(std::string_view name) {
    std::size_t place = next_;
    if (name.empty()) {
      ++next_;
    } else {
      const auto [last, error] = std::from_chars(name.data(), name.data() + name.size(), place);
      if (error != std::errc() || last != name.data() + name.size()) {
        for (const auto& [key, value] : arguments_.named)
          if (key == name) return value;
        fail("the format needs '" + std::string(name) + "'");
      }
    }
    if (place >= arguments_.positional.size()) fail("the format needs more arguments than it was given");
    return arguments_.positional[place];
  }

  Heap& heap_;
  const Arguments& arguments_;
  std::size_t next_ = 0;
};

struct Specification {
  std::string_view fill = " ";
  char align = '\0', sign = '-', group = '\0', type = '\0';
  bool alternate = false;
  std::size_t width = 0;
  int precision = -1;
};

std::size_t take_number(std::string_view& text) {
  std::size_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error == std::errc::result_out_of_range || n > kWidest)
    fail("a width of more than " + std::to_string(kWidest) + " in a format");
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return n;
}

bool take_one(std::string_view& text, std::string_view of, char& where) {
  if (text.empty() || of.find(text[0]) == std::string_view::npos) return false;
  where = text[0];
  text.remove_prefix(1);
  return true;
}

Specification parse(std::string_view text) {
  Specification s;
  const std::size_t first = text.empty() ? 0 : utf8_step(text).length;
  char ignored = '\0';
  if (first > 0 && first < text.size() && std::string_view("<>=^").find(text[first]) != std::string_view::npos) {
    s.fill = text.substr(0, first);
    s.align = text[first];
    text.remove_prefix(first + 1);
  } else {
    take_one(text, "<>=^", s.align);
  }
  take_one(text, "+- ", s.sign);
  s.alternate = take_one(text, "#", ignored);
  if (take_one(text, "0", ignored) && s.align == '\0') {
    s.fill = "0";
    s.align = '=';
  }
  s.width = take_number(text);
  take_one(text, ",_", s.group);
  if (take_one(text, ".", ignored)) s.precision = static_cast<int>(take_number(text));
  take_one(text, "bcdeEfFgGnosxX%", s.type);
  if (!text.empty()) fail("the format specification cannot be understood at '" + std::string(text.substr(0, 20)) + "'");
  return s;
}

void add_aligned(Text& out, std::string_view sign, std::string_view body, const Specification& s, char usual) {
  const char align = s.align == '\0' ? usual : s.align;
  const std::size_t n = count_characters(sign) + count_characters(body), missing = s.width > n ? s.width - n : 0;
  const std::size_t left = align == '<' || align == '=' ? 0 : align == '^' ? missing / 2 : missing;
  out.fill(left, s.fill);
  out.add(sign);
  if (align == '=') out.fill(missing, s.fill);
  out.add(body);
  if (align == '<' || align == '^') out.fill(missing - left, s.fill);
}

}  // namespace

void add_formatted(Text& out, const Value& value, std::string_view text) {
  if (text.empty()) return add_text(out, value);
  const Specification s = parse(text);
  const bool number = (value.is_number() && value.kind != Kind::boolean) || value.kind == Kind::big_integer ||
                      (value.kind == Kind::boolean && s.type != '\0' && s.type != 's');
  if (!number) {
    if (!value.is_string() && value.kind != Kind::boolean)
      fail("a format specification is not possible for " + std::string(type_name(value)));
    if (s.type != '\0' && s.type != 's') fail(std::string("the format '") + s.type + "' is not possible for a string");
    std::string_view shown = text_of(out.heap(), value);
    if (s.precision >= 0) shown = shown.substr(0, byte_of(shown, static_cast<std::size_t>(s.precision)));
    return add_aligned(out, "", shown, s, '<');
  }
  const std::string sign = is_negative(value) ? "-" : s.sign == '-' ? "" : std::string(1, s.sign);
  if (s.type == '\0' && value.kind == Kind::real && s.precision < 0) {
    std::string shown = real_text(std::abs(value.real));
    return add_aligned(out, sign, shown, s, '>');
  }
  const bool real = value.kind == Kind::real;
  const char type = s.type == '\0' || s.type == 'n' ? (real ? 'g' : 'd') : s.type;
  if (real && std::string_view("bcdoxX").find(type) != std::string_view::npos)
    fail(std::string("the format '") + type + "' is not possible for a number with a fraction");
  add_aligned(out, sign, format_magnitude(value, {type, s.precision, s.alternate, s.group}), s, '>');
}

Value brace_format(Heap& heap, std::string_view format, const Arguments& arguments) {
  Text out(heap);
  BraceFormat(heap, arguments).run(out, format, 0);
  return out.value();
}

}  // namespace espalier::jinja
