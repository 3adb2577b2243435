// experts.h: a layer of experts as a device's stage. Threads: one. Fails: unsupported, out_of_memory.
#pragma once

#include "device/lowering/products.h"

namespace espalier::device {

Result<> add_experts(const ExpertsOp& op, Products& products, ProgramBuffers& buffers, RowsMaker& rows);

}  // namespace espalier::device
