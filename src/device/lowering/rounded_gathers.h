// rounded_gathers.h: which gathers of a program may bring bf16 instead of floats: those whose readers are products that round their
// rows so anyway, on every rank. Half of the bytes cross, and no bit changes.
//
// Threads: all ranks of a group ask at once. Fails: as the group says (ranks/collective.h).
#pragma once

#include <set>

#include "device/lowering/products.h"

namespace espalier::device {

// By operation.
std::set<int> rounded_gathers(const Program& program, const Loaded& loaded, const Products& products);

}  // namespace espalier::device
