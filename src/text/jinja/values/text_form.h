// text_form.h: values as text, as Python's str() and repr() write them.
// Threads: those of the rendering. Fails: throws Failure (limit; runtime when values are nested too deeply).
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/values/heap.h"
#include "text/jinja/values/value.h"

namespace espalier::jinja {

inline constexpr int kDeepestValue = 100;  // lists and dicts inside one another, where a walk recurses

// A growing text that is charged as it grows.
class Text {
 public:
  explicit Text(Heap& heap) : heap_(&heap) {}

  Text& add(std::string_view more) {
    heap_->reserve(text_.size() + more.size());
    heap_->scan(more.size());
    if (heap_->traces()) heap_->origins(more, own_);
    text_.append(more);
    return *this;
  }
  Text& add(char c) { return add(std::string_view(&c, 1)); }
  void fill(std::size_t n, char c);
  void fill(std::size_t n, std::string_view part);

  std::string_view view() const { return text_; }
  std::size_t size() const { return text_.size(); }
  Value value() { return Value::of_string(heap_->traces() ? heap_->text(text_, own_) : heap_->text(text_)); }
  Heap& heap() { return *heap_; }

 private:
  Heap* heap_;
  std::string text_;
  std::string own_;  // when the heap traces: for each byte, whether the template wrote it
};

void add_text(Text& out, const Value& value);                 // str(value)
void add_repr(Text& out, const Value& value, int depth = 0);  // repr(value)
std::string real_text(double x);                              // repr of a float

// str(value) without a copy where the value is a string.
std::string_view text_of(Heap& heap, const Value& value);

}  // namespace espalier::jinja
