// gen_options.h: the options of a generation out of keyword arguments.
#pragma once

#include "bindings.h"
#include "espalier/program.h"

namespace espalier::python {

// Unknown names are a TypeError; None is unset.
GenOptions gen_options(const nb::kwargs& given);

}  // namespace espalier::python
