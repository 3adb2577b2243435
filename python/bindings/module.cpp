#include "bindings.h"
#include "errors.h"

NB_MODULE(_espalier, m) {
  using namespace espalier::python;
  m.doc() = "The library behind the package espalier.";
  m.attr("version") = ESPALIER_VERSION;
  translate_errors();
  bind_waiting(m);
  bind_values(m);
  bind_choices(m);
  bind_expressions(m);
  bind_backends(m);
  bind_states(m);
  bind_running(m);
  bind_compiler(m);
  bind_engine(m);
}
