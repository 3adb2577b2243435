// launches.h: starts a kernel by its number, with the task that it takes.
#pragma once

#include <cstddef>

#include "kernels/cuda/simt/simt.h"

namespace espalier::device {

// False: there is no such kernel, or its task has another size.
bool launch(simt::Stream stream, int kernel, const void* task, std::size_t bytes);

}  // namespace espalier::device
