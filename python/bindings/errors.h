// errors.h: the library's errors as the exceptions of espalier/errors.py.
// Threads: those that hold the GIL.
#pragma once

#include <utility>

#include "bindings.h"
#include "espalier/error.h"
#include "espalier/program.h"

namespace espalier::python {

void translate_errors();  // once: ProgramError that leaves a bound function becomes an exception

// `variable`: it was met while a variable was read.
nb::object exception_of(const Error& error, bool variable = false);

// A ProgramError that was met while a variable was read: a KeyError in Python.
class VariableError : public ProgramError {
 public:
  using ProgramError::ProgramError;
};

template <class T>
T value_of(Result<T> result) {
  if (!result.ok()) throw ProgramError(std::move(result).error());
  return std::move(result).value();
}

}  // namespace espalier::python
