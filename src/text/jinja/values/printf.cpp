#include "text/jinja/values/printf.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

#include "text/jinja/operations.h"
#include "text/jinja/values/unicode.h"
#include "text/utf8.h"

namespace espalier::jinja {
namespace {

// The greatest width and precision: beyond it a format is an attack.
constexpr int kWidest = 100'000;

// One %-directive.
struct Directive {
  std::string_view key;
  bool has_key = false, left = false, zeros = false, plus = false, space = false, alternate = false;
  int width = 0, precision = -1;
  char type = 's';
};

class PercentFormat {
 public:
  PercentFormat(Heap& heap, std::string_view format, const Value& arguments)
      : heap_(heap), rest_(format), out_(heap), arguments_(arguments) {
    if (arguments.kind == Kind::tuple)
      positional_ = arguments.elements();
    else
      positional_ = {&arguments_, 1};
  }

  Value run() {
    for (;;) {
      const std::size_t next = std::min(rest_.find('%'), rest_.size());
      out_.add(rest_.substr(0, next));
      rest_.remove_prefix(next);
      if (rest_.empty()) break;
      rest_.remove_prefix(1);
      directive();
    }
    // Python lets arguments go unused when they might have been asked for by name.
    const bool by_name_possible =
        arguments_.kind == Kind::dict || arguments_.kind == Kind::list || arguments_.kind == Kind::undefined;
    if (!used_names_ && used_ < positional_.size() && !by_name_possible)
      fail("not all arguments converted during string formatting");
    return out_.value();
  }

 private:
  char peek() const {
    if (rest_.empty()) fail("incomplete format");
    return rest_.front();
  }

  void directive() {
    Directive d;
    if (peek() == '(') {
      const std::size_t end = rest_.find(')');
      if (end == std::string_view::npos) fail("incomplete format key");
      d.key = rest_.substr(1, end - 1);
      d.has_key = true;
      rest_.remove_prefix(end + 1);
    }
    flags(d);
    d.width = number();
    if (d.width < 0) {
      d.left = true;
      d.width = -d.width;
    }
    if (peek() == '.') {
      rest_.remove_prefix(1);
      d.precision = std::max(0, number());
    }
    while (peek() == 'l' || peek() == 'h' || peek() == 'L') rest_.remove_prefix(1);
    d.type = peek();
    rest_.remove_prefix(1);
    if (d.type == '%') {
      out_.add('%');
    } else {
      write(d, d.has_key ? by_name(d.key) : next());
    }
  }

  void flags(Directive& d) {
    for (;; rest_.remove_prefix(1)) {
      switch (peek()) {
        case '-':
          d.left = true;
          break;
        case '0':
          d.zeros = true;
          break;
        case '+':
          d.plus = true;
          break;
        case ' ':
          d.space = true;
          break;
        case '#':
          d.alternate = true;
          break;
        default:
          return;
      }
    }
  }

  int number() {
    std::int64_t n = 0;
    if (peek() == '*') {
      rest_.remove_prefix(1);
      n = to_integer(next(), "a width");
    } else {
      while (peek() >= '0' && peek() <= '9' && n <= kWidest) {
        n = n * 10 + (peek() - '0');
        rest_.remove_prefix(1);
      }
    }
    if (n > kWidest || n < -kWidest) fail("a width of more than " + std::to_string(kWidest) + " in a format");
    return static_cast<int>(n);
  }

  Value next() {
    if (used_ >= positional_.size()) fail("not enough arguments for format string");
    return positional_[used_++];
  }

  Value by_name(std::string_view key) {
    used_names_ = true;
    if (arguments_.kind != Kind::dict) fail("format requires a mapping");
    const Value* found = find(heap_, arguments_, Value::of_string(key));
    if (!found) fail("the format needs '" + std::string(key) + "'");
    return *found;
  }

  void write(const Directive& d, const Value& value) {
    switch (d.type) {
      case 's':
      case 'r':
      case 'a':
        return write_text(d, value);
      case 'c': {
        Text one(heap_);
        std::string character;
        if (value.kind == Kind::integer)
          append_character(character, static_cast<char32_t>(value.integer));
        else
          character = std::string(text_of(heap_, value));
        return write_padded(d, character);
      }
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        return write_number(d, value);
      default:
        fail(std::string("unsupported format character '") + d.type + "'");
    }
  }

  void write_text(const Directive& d, const Value& value) {
    Text text(heap_);
    d.type == 's' ? add_text(text, value) : add_repr(text, value);
    std::string_view shown = text.view();
    if (d.precision >= 0) shown = shown.substr(0, byte_of(shown, static_cast<std::size_t>(d.precision)));
    write_padded(d, shown);
  }

  void write_padded(const Directive& d, std::string_view shown) {
    const std::size_t n = count_characters(shown), width = static_cast<std::size_t>(d.width);
    if (!d.left && width > n) out_.fill(width - n, ' ');
    out_.add(shown);
    if (d.left && width > n) out_.fill(width - n, ' ');
  }

  void write_number(const Directive& d, const Value& value) {
    const bool integral = std::string_view("diuxXo").find(d.type) != std::string_view::npos;
    Value number = value;
    if (integral && value.kind == Kind::real && d.type != 'x' && d.type != 'X' && d.type != 'o')
      number = Value::of_int(static_cast<std::int64_t>(std::clamp(value.real, -9e18, 9e18)));
    if (!number.is_number() && number.kind != Kind::big_integer)
      fail(std::string("%") + d.type + " format: a number is required, not " + std::string(type_name(value)));
    const char type = d.type == 'i' || d.type == 'u' ? 'd' : d.type;
    const std::string digits = format_magnitude(number, {type, d.precision, d.alternate, '\0'});
    const std::string sign = is_negative(number) ? "-" : d.plus ? "+" : d.space ? " " : "";
    const std::size_t width = static_cast<std::size_t>(d.width), n = sign.size() + digits.size();
    const std::size_t missing = width > n ? width - n : 0;
    if (!d.left && !d.zeros) out_.fill(missing, ' ');
    out_.add(sign);
    if (!d.left && d.zeros) out_.fill(missing, '0');
    out_.add(digits);
    if (d.left) out_.fill(missing, ' ');
  }

  Heap& heap_;
  std::string_view rest_;
  Text out_;
  Value arguments_;
  std::span<const Value> positional_;
  std::size_t used_ = 0;
  bool used_names_ = false;
};

std::string integer_digits(const Value& number, const NumberFormat& format) {
  if (number.kind == Kind::big_integer) {
    const std::string_view text = number.text();
    return std::string(text.substr(text.starts_with('-')));
  }
  const std::int64_t n = to_integer(number, "a number");
  const std::uint64_t magnitude =
      n < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(n) : static_cast<std::uint64_t>(n);
  const int base = format.type == 'x' || format.type == 'X' ? 16 : format.type == 'o' ? 8 : format.type == 'b' ? 2 : 10;
  char buffer[72];
  std::string digits(buffer, std::to_chars(buffer, buffer + sizeof(buffer), magnitude, base).ptr);
  if (format.type == 'X')
    std::transform(digits.begin(), digits.end(), digits.begin(),
                   [](char c) { return c >= 'a' ? static_cast<char>(c - 32) : c; });
  if (format.precision > static_cast<int>(digits.size()))
    digits.insert(0, static_cast<std::size_t>(format.precision) - digits.size(), '0');
  if (format.alternate && base != 10) digits.insert(0, std::string("0") + format.type);
  return digits;
}

void group_thousands(std::string& digits, char separator) {
  std::size_t end = std::min({digits.find('.'), digits.find('e'), digits.size()});
  for (; end > 3; end -= 3) digits.insert(end - 3, 1, separator);
}

}  // namespace

bool is_negative(const Value& number) {
  if (number.kind == Kind::real) return std::signbit(number.real) && !std::isnan(number.real);
  if (number.kind == Kind::big_integer) return number.text().starts_with('-');
  return to_integer(number, "a number") < 0;
}

std::string format_magnitude(const Value& number, const NumberFormat& format) {
  std::string digits;
  if (std::string_view("dxXob").find(format.type) != std::string_view::npos) {
    digits = integer_digits(number, format);
  } else {
    if (number.kind == Kind::big_integer) fail("the number is larger than a 64-bit integer");
    const double x = std::fabs(to_real(number)) * (format.type == '%' ? 100 : 1);
    const char type = format.type == '%' ? 'f' : format.type;
    if (std::isnan(x) || std::isinf(x)) return std::isnan(x) ? "nan" : "inf";
    const int precision = std::min(format.precision < 0 ? 6 : format.precision, kWidest);
    const char pattern[] = {'%', '.', '*', type, '\0'};
    digits.resize(static_cast<std::size_t>(precision) + 400);
    digits.resize(static_cast<std::size_t>(std::snprintf(digits.data(), digits.size(), pattern, precision, x)));
    if (format.type == '%') digits += '%';
  }
  if (format.group != '\0') group_thousands(digits, format.group);
  return digits;
}

Value percent_format(Heap& heap, std::string_view format, const Value& arguments) {
  return PercentFormat(heap, format, arguments).run();
}

}  // namespace espalier::jinja
