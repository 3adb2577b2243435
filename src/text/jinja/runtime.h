// runtime.h: what filters, tests, functions and methods see of the rendering they run in.
#pragma once

#include <ctime>
#include <string_view>

#include "text/jinja/values/callable.h"
#include "text/jinja/values/heap.h"
#include "text/jinja/values/value.h"

namespace espalier::jinja {

// The heap, the clock and call() of a rendering, for filters and methods.
class Runtime {
 public:
  Runtime(const Limits& limits, std::time_t now, bool traces = false) : heap_(limits, traces), now_(now) {}
  virtual ~Runtime() = default;

  virtual Value call(const Value& callee, const Arguments& arguments) = 0;

  Value filter(std::string_view name, const Value& subject, const Arguments& arguments);
  bool test(std::string_view name, const Value& subject, const Arguments& arguments);
  Heap& heap() { return heap_; }
  std::time_t now() const { return now_; }

 protected:
  Heap heap_;
  std::time_t now_;
};

// Tables by name; nullptr: there is none. A test returns a boolean.
Function find_filter(std::string_view name);
Function find_text_filter(std::string_view name);
Function find_sequence_filter(std::string_view name);
Function find_number_filter(std::string_view name);
Function find_test(std::string_view name);
Function find_function(std::string_view name);

Value to_json(Runtime& runtime, const Value& value, const Arguments& arguments);  // the filter tojson

}  // namespace espalier::jinja
