// multiply_launches.h: which kernel takes a product, by its type and its rows; the kernels are spread over some files, since each
// type has its own.
//
// Threads: any. Fails: a type that a file does not have gives null pointers.
#pragma once

#include "kernels/cuda/products/multiply_task.h"

namespace espalier::cuda {

struct MultiplyWork;
using MultiplyLaunch = void (*)(simt::Stream, const MultiplyWork&);

// Of one type, by the form of rows.
struct MultiplyLaunches {
  MultiplyLaunch floats = nullptr, bytes = nullptr, two_bytes = nullptr, halves = nullptr;
};
// The type whose panels those of `type` are.
constexpr DType panel_type(DType type) {
  switch (type) {
    case DType::iq2_xxs:
    case DType::iq2_xs:
      return DType::iq2_s;
    case DType::tq1_0:
      return DType::tq2_0;
    case DType::nvfp4:
      return DType::nvfp4_g;
    default:
      return type;
  }
}
// Of bf16, by tensor cores.
void multiply_tensor(simt::Stream stream, const MultiplyWork& work);
// Rows of bf16 by wgmma. False, and nothing was launched: this is no Hopper, its wgmma does not take the type or rounds otherwise than
// its mma, these are experts, or tiles would be too few for all multiprocessors.
bool multiply_many_by_wgmma(simt::Stream stream, const MultiplyWork& work, DType type);
// Rows of bf16 with weights whose codes are floats, or that are f16, by tensor cores; null: another type.
MultiplyLaunch multiply_float_codes(DType type);

// Each of a panel_type().
MultiplyLaunches multiply_plain(DType type);   // floats, and codes that are floats
MultiplyLaunches multiply_legacy(DType type);  // Q8_0 to Q5_1, IQ4_NL, MXFP4
MultiplyLaunches multiply_super(DType type);   // K-quants
MultiplyLaunches multiply_table(DType type);   // tables of blocks of 256, and NVFP4
MultiplyLaunches multiply_group(DType type);   // G2 to G8

}  // namespace espalier::cuda
