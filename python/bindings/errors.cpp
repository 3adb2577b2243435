#include "errors.h"

#include <nanobind/stl/string.h>

#include "base/error_kind.h"

namespace espalier::python {
namespace {

void raise(const Error& error, bool variable) {
  const nb::object exception = exception_of(error, variable);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
}

}  // namespace

nb::object exception_of(const Error& error, bool variable) {
  const nb::object make = nb::module_::import_("espalier.errors").attr("make_error");
  return make(kind_name(error.kind), error.message, error.field, error.code, variable);
}

void translate_errors() {
  nb::register_exception_translator([](const std::exception_ptr& failure, void*) {
    try {
      std::rethrow_exception(failure);
    } catch (const VariableError& missing) {
      raise(missing.error(), true);
    } catch (const ProgramError& failed) {
      raise(failed.error(), false);
    }
  });
}

}  // namespace espalier::python
