// states.h: a program's state as Python holds it.
#pragma once

#include <memory>

#include "interpreter.h"

namespace espalier::python {

using PythonState = Held<State>;

inline std::unique_ptr<PythonState> held(State state) {
  return std::make_unique<PythonState>(std::move(state));
}

}  // namespace espalier::python
