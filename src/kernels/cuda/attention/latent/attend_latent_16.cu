// Attention by tensor cores over latent rows, 16 queries together.
#include "kernels/cuda/attention/latent/latent_launch.h"

namespace espalier::cuda::latent {

bool attend_latent_16(simt::Stream stream, const LatentTiles& of) {
  return launch<1>(stream, of);
}

}  // namespace espalier::cuda::latent
