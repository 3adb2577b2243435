// expressions.h: what Python programs append, as the library's expressions.
#pragma once

#include "bindings.h"
#include "espalier/program.h"

namespace espalier::python {

// Text, an Expr, or a list or tuple of such. Fails: TypeError for anything else.
Expr expr_of(nb::handle object);

}  // namespace espalier::python
