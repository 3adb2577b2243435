// recurrent_work.h: the kernels of recurrent layers at the shapes of real models, for `bench kernels`.
//
// Each row count is measured as so many sequences with a token each (up to 128 of them), whose states lie beyond the
// caches, and from 64 on also as so many tokens of one sequence. Units, threads, failures: kernel_work.h.
#pragma once

#include "bench/kernels/kernel_work.h"

namespace espalier::bench {

Result<> measure_recurrent(const KernelSelection& selection, const KernelMachine& machine,
                           const std::function<void(const KernelResult&)>& report);

}  // namespace espalier::bench
