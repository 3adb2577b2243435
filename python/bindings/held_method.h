// held_method.h: a method of select() as Python holds it.
//
// The library gets a reference of its own, not one through Python's object: its threads drop what they used when they
// are done with it, which may be while the interpreter ends.
#pragma once

#include <memory>

#include "espalier/backend.h"
#include "interpreter.h"

namespace espalier::python {

using PythonMethod = Held<std::shared_ptr<const ChoicesMethod>>;

}  // namespace espalier::python
