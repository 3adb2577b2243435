// Attention over extents, for every type of stored keys and values.
#if defined(__aarch64__)
#define ESPALIER_ISA neon
#include "kernels/cpu/neon/simd.h"

#include "kernels/cpu/generic/attention.h"
#include "kernels/cpu/generic/parts.h"

namespace espalier::kernels::neon {

void fill_attention(CpuKernels& table) {
  table.attend = attend;
  table.attend_bf16 = nullptr;
  table.attend_latent_bf16 = nullptr;
  table.merge = merge;
  table.index_scores = index_scores;
  table.index_scores_bf16 = nullptr;
}

}  // namespace espalier::kernels::neon
#endif
