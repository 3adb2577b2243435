// features.h: what of a processor only its system tells (cpu/table.cpp asks the processor itself for the rest).
// Threads: any. Fails: never; what is not known is not there.
#pragma once

namespace espalier::kernels {

// x86-64: tile registers, with the system's leave for this process to use them (it has 8 KiB more to save a thread).
bool has_tiles();

// AArch64.
bool has_dot_product();
bool has_i8mm();

}  // namespace espalier::kernels
