// methods.h: methods of values, those of Python's types that read and never change.
#pragma once

#include <string_view>

#include "text/jinja/values/callable.h"
#include "text/jinja/values/value.h"

namespace espalier::jinja {

// nullptr: there is no such method.
Function find_method(Kind kind, std::string_view name);
Function find_string_method(std::string_view name);

}  // namespace espalier::jinja
