// Attention over bf16 in tiles, 32 queries at a time; compiled with -mavx512bf16.
#if defined(__x86_64__)
#define ESPALIER_ISA amx
#include "kernels/cpu/amx/head_tiles.h"
#include "kernels/cpu/amx/latent_tiles.h"

namespace espalier::kernels::amx {
namespace {

void attend_bf16(const AttentionTask& t) {
  attend_with<HeadBlocks>(t);
  release_tiles();
}
void attend_latent_bf16(const AttentionTask& t) {
  attend_with<LatentBlocks<KvType::bf16, LatentTiles>>(t);
  release_tiles();
}

}  // namespace

void fill_attention(CpuKernels& table) {
  table.attend_bf16 = attend_bf16;
  table.attend_latent_bf16 = attend_latent_bf16;
}

}  // namespace espalier::kernels::amx
#endif
