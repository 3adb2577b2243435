// parts.h: what the files of one instruction set hand to its table.
#pragma once

#include "kernels/cpu/table.h"

namespace espalier::kernels::ESPALIER_ISA {

MatmulKernel matmul_int8_for(DType type);
MatmulKernel matmul_int16_for(DType type);
MatmulKernel matmul_exact_for(DType type);
void fill_float_matmuls(CpuKernels& table);
void fill_attention(CpuKernels& table);
void fill_functions(CpuKernels& table);
void fill_recurrence(CpuKernels& table);
void fill(CpuKernels& table);

}  // namespace espalier::kernels::ESPALIER_ISA
