// roofline.h: kernels as dots under the roof that memory and multipliers are: operations a second over operations a
// byte, both axes logarithmic.
// Units:   GB/s and GOP/s at the axes. Threads: a pure function. Fails: never.
#pragma once

#include <string>
#include <vector>

#include "bench/kernels/kernel_work.h"

namespace espalier::bench {

// An SVG document. Results without operations (only memory bounds them) have no place in it.
std::string draw_roofline(const std::vector<KernelResult>& results, const MachineLimits& limits,
                          const std::string& title);

}  // namespace espalier::bench
