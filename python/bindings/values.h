// values.h: what variables hold, between Python and the library.
//
// Text and lists of values are the library's; anything else is kept as the Python object it is, and comes back as the
// same one.
// Threads: those that hold the GIL; values may be dropped on any thread.
#pragma once

#include <string>

#include "bindings.h"
#include "espalier/program.h"

namespace espalier::python {

// A Python object that may be dropped on any thread, even when the interpreter has ended.
class KeptObject {
 public:
  explicit KeptObject(nb::object object) : object_(std::move(object)) {}
  ~KeptObject();
  KeptObject(const KeptObject&) = delete;
  KeptObject& operator=(const KeptObject&) = delete;
  const nb::object& get() const { return object_; }

 private:
  nb::object object_;
};

Value value_of_python(nb::handle object);
nb::object python_of(const Value& value);
std::string string_of(nb::handle text);  // of a str; lone surrogates, which no text has, are refused

}  // namespace espalier::python
