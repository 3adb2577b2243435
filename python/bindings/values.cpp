#include "values.h"

#include <nanobind/stl/string.h>

#include "interpreter.h"
#include "python_json.h"

namespace espalier::python {
namespace {

class PythonValue final : public ForeignValue {
 public:
  explicit PythonValue(nb::object object) : kept_(std::move(object)) {}
  std::string text() const override {
    const nb::gil_scoped_acquire gil;
    return string_of(nb::str(kept_.get()));
  }
  const nb::object& get() const { return kept_.get(); }

 private:
  KeptObject kept_;
};

}  // namespace

KeptObject::~KeptObject() {
  if (nb::is_alive() && !running_functions().closed()) {
    const nb::gil_scoped_acquire gil;
    object_.reset();
  } else {
    object_.release();  // the interpreter is gone, and its objects with it
  }
}

std::string string_of(nb::handle text) {
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (data == nullptr) throw nb::python_error();
  return {data, static_cast<std::size_t>(size)};
}

Value value_of_python(nb::handle object) {
  if (PyUnicode_CheckExact(object.ptr())) return string_of(object);
  return Value(std::shared_ptr<const ForeignValue>(std::make_shared<PythonValue>(nb::borrow(object))));
}

nb::object python_of(const Value& value) {
  if (const auto* foreign = value.foreign()) {
    const auto* mine = dynamic_cast<const PythonValue*>(foreign->get());
    return mine != nullptr ? mine->get() : text_of((*foreign)->text());
  }
  if (const Json* numbers = value.numbers()) return python_of(*numbers);
  if (!value.is_list()) return text_of(value.text());
  nb::list list;
  for (const Value& element : value.list()) list.append(python_of(element));
  return list;
}

}  // namespace espalier::python
