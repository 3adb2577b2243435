// python_json.h: JSON values as Python's, and texts in either form.
// Threads: those that hold the GIL. Fails: TypeError for what JSON cannot hold.
#pragma once

#include <string>
#include <string_view>

#include "bindings.h"
#include "espalier/json.h"

namespace espalier::python {

nb::object python_of(const Json& json);
nb::object text_of(std::string_view text);  // bytes that are no UTF-8 become U+FFFD

}  // namespace espalier::python
