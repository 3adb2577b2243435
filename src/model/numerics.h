// numerics.h: the version of the arithmetic.
//
// Keys and values that outlive the process are only used by a program that would compute the same bits. Raise this
// number with every change that may change a bit of what a model stores: an order of a sum, a rounding, a kernel. (A
// start also computes a short text and compares its bits, see engine/memory/disk_cache.h; the number says it without luck.)
#pragma once

namespace espalier {

inline constexpr int kNumericsVersion = 6;

}  // namespace espalier
