// Attention over extents, for every type of stored keys and values.
#if defined(__x86_64__)
#define ESPALIER_ISA avx512
#include "kernels/cpu/avx512/simd.h"

#include "kernels/cpu/generic/attention.h"
#include "kernels/cpu/generic/parts.h"

namespace espalier::kernels::avx512 {

void fill_attention(CpuKernels& table) {
  table.attend = attend;
  table.attend_bf16 = nullptr;  // attention_bf16.cpp, where the processor has it
  table.attend_latent_bf16 = nullptr;
  table.merge = merge;
  table.index_scores = index_scores;
  table.index_scores_bf16 = nullptr;
}

}  // namespace espalier::kernels::avx512
#endif
