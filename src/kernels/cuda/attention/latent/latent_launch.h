// latent_launch.h: how attention by tensor cores over latent rows is launched, of so many queries together; each number has a file,
// so that they compile side by side.
//
// Threads: asynchronous on a stream. Fails: never.
#pragma once

#include <algorithm>

#include "kernels/cuda/attention/attention_launches.h"
#include "kernels/cuda/attention/latent/attend_latent.h"

namespace espalier::cuda::latent {

template <class Shape>
bool launch_shape(simt::Stream stream, const LatentTiles& of) {
  const auto bytes = static_cast<std::size_t>(LatentRoom<Shape>(of.task->dims).bytes());
  if (std::max(bytes, Shape::kLeastShared) > of.most_shared) return false;
  const AttendTask& t = *of.task;
  const int query_parts = (of.queries + Shape::kQueries - 1) / Shape::kQueries;
  simt::launch(stream,
               {.blocks_x = static_cast<unsigned>(of.count * (t.pieces > 1 ? t.pieces : 1)),
                .blocks_y = static_cast<unsigned>(t.kv_heads * of.cut.parts * query_parts),
                .threads = kThreads,
                .shared_bytes = bytes},
               attend_latent<Shape>, t, of.tiles, of.count, of.cut, query_parts);
  return true;
}
// false: shared memory has no room for it.
template <int kTiles>
bool launch(simt::Stream stream, const LatentTiles& of) {
  return launch_shape<LatentShape<kTiles, true>>(stream, of) || launch_shape<LatentShape<kTiles, false>>(stream, of);
}

}  // namespace espalier::cuda::latent
