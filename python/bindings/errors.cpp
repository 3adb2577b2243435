#include "errors.h"

#include <nanobind/stl/string.h>

namespace espalier::python {
namespace {

const char* kind_name(Error::Kind kind) {
  switch (kind) {
    case Error::Kind::bad_request:
      return "bad_request";
    case Error::Kind::unauthorized:
      return "unauthorized";
    case Error::Kind::forbidden:
      return "forbidden";
    case Error::Kind::not_found:
      return "not_found";
    case Error::Kind::timeout:
      return "timeout";
    case Error::Kind::too_large:
      return "too_large";
    case Error::Kind::unsupported:
      return "unsupported";
    case Error::Kind::busy:
      return "busy";
    case Error::Kind::cancelled:
      return "cancelled";
    case Error::Kind::internal:
      return "internal";
    case Error::Kind::unavailable:
      return "unavailable";
    case Error::Kind::bad_file:
      return "bad_file";
    case Error::Kind::out_of_memory:
      return "out_of_memory";
    case Error::Kind::cannot_bind:
      return "cannot_bind";
    case Error::Kind::network:
      return "network";
  }
  return "internal";
}

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
