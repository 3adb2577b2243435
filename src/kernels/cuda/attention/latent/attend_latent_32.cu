// Attention by tensor cores over latent rows, 32 queries together.
#include "kernels/cuda/attention/latent/latent_launch.h"

namespace espalier::cuda::latent {

bool attend_latent_32(simt::Stream stream, const LatentTiles& of) {
  return launch<2>(stream, of);
}

}  // namespace espalier::cuda::latent
