// held_backend.h: a back end as Python holds it.
#pragma once

#include <memory>

#include "espalier/backend.h"
#include "interpreter.h"

namespace espalier::python {

using PythonBackend = Held<std::shared_ptr<Backend>>;

inline std::unique_ptr<PythonBackend> held(std::shared_ptr<Backend> backend) {
  return std::make_unique<PythonBackend>(std::move(backend));
}

}  // namespace espalier::python
