#include "text/jinja/values/string_tools.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "text/jinja/failure.h"
#include "text/jinja/operations.h"
#include "text/jinja/values/text_form.h"
#include "text/jinja/values/unicode.h"
#include "text/utf8.h"

namespace espalier::jinja {
namespace {

// A list that is charged as it grows.
class Growing {
 public:
  explicit Growing(Heap& heap) : heap_(heap) {}
  void add(std::string_view text) {
    heap_.step();
    heap_.reserve((values_.size() + 1) * sizeof(Value));
    values_.push_back(Value::of_string(text));
  }
  std::vector<Value>& values() { return values_; }

 private:
  Heap& heap_;
  std::vector<Value> values_;
};

std::string_view last_word(std::string_view text) {
  std::size_t begin = text.size();
  while (begin > 0) {
    std::size_t previous = begin - 1;
    while (previous > 0 && (static_cast<unsigned char>(text[previous]) & 0xc0u) == 0x80u) --previous;
    if (is_space(utf8_step(text.substr(previous)).character)) break;
    begin = previous;
  }
  return text.substr(begin);
}

std::size_t word_length(std::string_view text) {
  Characters all(text);
  while (!all.done()) {
    const std::string_view rest = all.rest();
    if (is_space(all.next())) return text.size() - rest.size();
  }
  return text.size();
}

void split_at_spaces(Growing& out, std::string_view text, std::int64_t most) {
  for (text = trim_left(text); !text.empty(); text = trim_left(text)) {
    if (most-- == 0) return out.add(trim_right(text));
    const std::size_t size = word_length(text);
    out.add(text.substr(0, size));
    text.remove_prefix(size);
  }
}

void split_at_spaces_from_right(Growing& out, std::string_view text, std::int64_t most) {
  for (text = trim_right(text); !text.empty(); text = trim_right(text)) {
    if (most-- == 0) {
      out.add(trim_left(text));
      break;
    }
    const std::string_view word = last_word(text);
    out.add(word);
    text.remove_suffix(word.size());
  }
  std::reverse(out.values().begin(), out.values().end());
}

std::string_view reversed(Heap& heap, std::string_view text) {
  const auto copy = heap.array<char>(text.size());
  heap.scan(text.size());
  std::reverse_copy(text.begin(), text.end(), copy.begin());
  return {copy.data(), copy.size()};
}

std::vector<Value> split_from_left(Heap& heap, std::string_view text, std::string_view separator, std::int64_t most) {
  Growing out(heap);
  while (most-- != 0) {
    const auto found = first_of(heap, text, separator);
    if (!found) break;
    out.add(text.substr(0, *found));
    text.remove_prefix(*found + separator.size());
  }
  out.add(text);
  return std::move(out.values());
}

std::vector<Value> split_from_right(Heap& heap, std::string_view text, std::string_view separator, std::int64_t most) {
  std::string_view backwards = reversed(heap, text);
  const std::string_view wanted = reversed(heap, separator);
  Growing out(heap);
  while (most-- != 0) {
    const auto found = first_of(heap, backwards, wanted);
    if (!found) break;
    out.add(text.substr(text.size() - *found));
    text.remove_suffix(*found + separator.size());
    backwards.remove_prefix(*found + separator.size());
  }
  out.add(text);
  std::reverse(out.values().begin(), out.values().end());
  return std::move(out.values());
}

bool ends_line(char32_t c) {
  return (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

}  // namespace

// memmem takes linear time whatever is searched for; std::string_view::find does not.
std::optional<std::size_t> first_of(Heap& heap, std::string_view text, std::string_view wanted) {
  if (wanted.empty()) return 0;
  const void* found = text.empty() ? nullptr : memmem(text.data(), text.size(), wanted.data(), wanted.size());
  const std::size_t at = found ? static_cast<std::size_t>(static_cast<const char*>(found) - text.data()) : text.size();
  heap.scan(at + wanted.size());
  return found ? std::optional(at) : std::nullopt;
}

// Searched for backwards in the reversed text, for the same reason.
std::optional<std::size_t> last_of(Heap& heap, std::string_view text, std::string_view wanted) {
  const std::string_view reversed_text = reversed(heap, text);
  const auto found = first_of(heap, reversed_text, reversed(heap, wanted));
  return found ? std::optional(text.size() - *found - wanted.size()) : std::nullopt;
}

Value replaced(Heap& heap, std::string_view text, std::string_view from, std::string_view to, std::int64_t most) {
  if (most < 0) most = std::numeric_limits<std::int64_t>::max();
  Text out(heap);
  if (from.empty()) {
    for (const Value& c : elements_of(heap, Value::of_string(text)))
      out.add(most-- > 0 ? to : std::string_view()).add(c.text());
    return out.add(most > 0 ? to : std::string_view()).value();
  }
  while (most-- > 0) {
    const auto found = first_of(heap, text, from);
    if (!found) break;
    out.add(text.substr(0, *found)).add(to);
    text.remove_prefix(*found + from.size());
  }
  if (out.size() == 0) return Value::of_string(text);
  return out.add(text).value();
}

Value split_text(Heap& heap, std::string_view text, const Value& separator, std::int64_t most, bool from_right) {
  Growing out(heap);
  heap.scan(text.size());
  if (separator.kind == Kind::none) {
    from_right ? split_at_spaces_from_right(out, text, most) : split_at_spaces(out, text, most);
    return new_list(heap, out.values());
  }
  return new_list(heap, from_right ? split_from_right(heap, text, separator.text(), most)
                                   : split_from_left(heap, text, separator.text(), most));
}

std::span<const Value> lines_of(Heap& heap, std::string_view text, bool keep_ends) {
  heap.scan(text.size());
  Growing out(heap);
  std::string_view line = text;
  for (Characters all(text); !all.done();) {
    const std::string_view before = all.rest();
    const char32_t c = all.next();
    if (!ends_line(c)) continue;
    if (c == '\r' && all.rest().starts_with('\n')) all.next();
    const auto end = static_cast<std::size_t>((keep_ends ? all.rest() : before).data() - line.data());
    out.add(line.substr(0, end));
    line = all.rest();
  }
  if (!line.empty()) out.add(line);
  return new_list(heap, out.values()).elements();
}

std::string_view stripped(Heap& heap, std::string_view text, const Value& chars, bool left, bool right) {
  heap.scan(text.size());
  if (chars.kind == Kind::none) {
    if (left) text = trim_left(text);
    return right ? trim_right(text) : text;
  }
  const auto belongs = [&](std::string_view character) {
    heap.scan(chars.size);
    return chars.text().find(character) != std::string_view::npos;
  };
  while (left && !text.empty()) {
    const std::size_t size = utf8_step(text).length;
    if (!belongs(text.substr(0, size))) break;
    text.remove_prefix(size);
  }
  while (right && !text.empty()) {
    std::size_t begin = text.size() - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xc0u) == 0x80u) --begin;
    if (!belongs(text.substr(begin))) break;
    text = text.substr(0, begin);
  }
  return text;
}

Value capitalised(Heap& heap, std::string_view text) {
  if (text.empty()) return Value::of_string(text);
  Characters all(text);
  std::string first;
  append_case(first, all.next(), Case::title);
  heap.reserve(text.size() * 3);
  heap.scan(text.size());
  Text out(heap);
  return out.add(first).add(to_case(all.rest(), Case::lower)).value();
}

Value padded(Heap& heap, std::string_view text, std::int64_t width, std::string_view fill, int side) {
  const auto n = static_cast<std::int64_t>(length(heap, Value::of_string(text)));
  if (width <= n) return Value::of_string(text);
  const std::int64_t missing = width - n;
  const std::int64_t left = side < 0 ? 0 : side > 0 ? missing : missing / 2 + (missing & width & 1);
  Text out(heap);
  out.fill(static_cast<std::size_t>(left), fill);
  out.add(text);
  out.fill(static_cast<std::size_t>(missing - left), fill);
  return out.value();
}

bool has_case(std::string_view text, bool upper) {
  bool any = false;
  for (Characters all(text); !all.done();) {
    const char32_t c = all.next();
    if (upper ? is_lower(c) : is_upper(c)) return false;
    any |= upper ? is_upper(c) : is_lower(c);
  }
  return any;
}

}  // namespace espalier::jinja
