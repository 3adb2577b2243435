// simd.h (AMX): the vectors are those of AVX-512; tiles are named in tiles.h.
#pragma once

#include "kernels/cpu/avx512/simd.h"

namespace espalier::kernels::amx {

using Simd = avx512::Simd;

}  // namespace espalier::kernels::amx
