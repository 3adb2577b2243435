// Attention by tensor cores over latent rows, 64 queries together.
#include "kernels/cuda/attention/latent/latent_launch.h"

namespace espalier::cuda::latent {

bool attend_latent_64(simt::Stream stream, const LatentTiles& of) {
  return launch<4>(stream, of);
}

}  // namespace espalier::cuda::latent
