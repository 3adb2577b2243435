// multiply_task.h: the product of rows and packed weights on a device, out of the CPU's own panels.
//
// Every output is computed in one order whatever rows stand beside it. With rows of bytes (int8, int16) these are exact sums of
// 32 codes that are folded in order, with floats one multiply-add after the other, as on the CPU: results are its bits.
// Rows of bf16 go through tensor cores, which do not round as a CPU does: not its bits, but the same ones whatever rows stand
// beside a row. K is summed up in groups of 1,024, each from zero, which are added in order; of weights that become bf16 on their
// way (float_codes.h) in pieces of 128.
// Threads: asynchronous on a stream. Fails: never.
#pragma once

#include "kernels/cpu/table.h"
#include "kernels/cuda/simt/simt.h"
#include "kernels/row_format.h"
#include "tensor/dtype.h"

namespace espalier::cuda {

// MatmulTask has rows, weights, and what becomes of results; then_panel is not looked at. Panels that are paired come whole;
// rows that are no floats begin at multiples of 16 bytes. Rows of bf16 (as to_bf16() makes them) are for panels of bf16,
// of f16, and of codes that are floats (has_float_codes()).
struct MultiplyTask {
  MatmulTask of;
  DType type;
  RowFormat rows_as;
};
void multiply(simt::Stream stream, const MultiplyTask& task);

// Rows of bf16 by Hopper's wgmma whatever their number, for tests and measurements. False: this is no Hopper, or wgmma does not take
// the type (bf16 and f8_128 it does).
bool multiply_by_wgmma(simt::Stream stream, const MultiplyTask& task);
// Whether wgmma gives the bits that mma gives, on the device that is chosen: until that was seen, multiply() does without it.
// To be called when a device is opened; takes milliseconds. What it returns is why the device cannot be used: what was tried
// never ended, or broke it. Null: it can.
const char* settle_products(simt::Stream stream);

}  // namespace espalier::cuda
