// bindings.h: the parts of the module `_espalier`, one file each.
//
// The package espalier (python/espalier) is the only user: names, defaults and docstrings are there, meaning is in
// include/espalier. Nothing here decides anything about programs.
#pragma once

#include <nanobind/nanobind.h>

namespace espalier::python {

namespace nb = nanobind;

void bind_values(nb::module_& m);       // options, results
void bind_expressions(nb::module_& m);  // gen, select, roles, ...
void bind_choices(nb::module_& m);
void bind_states(nb::module_& m);
void bind_running(nb::module_& m);
void bind_compiler(nb::module_& m);
void bind_backends(nb::module_& m);
void bind_engine(nb::module_& m);
void bind_waiting(nb::module_& m);

}  // namespace espalier::python
