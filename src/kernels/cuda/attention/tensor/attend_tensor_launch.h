// attend_tensor_launch.h: how attention by tensor cores is launched, of keys and values up to a width.
//
// Threads: asynchronous on a stream. Fails: never.
#pragma once

#include "kernels/cuda/attention/tensor/attend_tensor_few.h"
#include "kernels/cuda/attention/tensor/attend_tensor_many.h"

namespace espalier::cuda::tensor_attention {

inline int pieces_of(const AttendTask& t) {
  return t.pieces > 1 ? t.pieces : 1;
}
inline simt::Shape shape_of(const AttendTask& t, const TensorCut& cut, int tiles, int warps, int bytes) {
  return {.blocks_x = static_cast<unsigned>(tiles * pieces_of(t)),
          .blocks_y = static_cast<unsigned>(t.kv_heads * cut.parts),
          .threads = static_cast<unsigned>(32 * warps),
          .shared_bytes = static_cast<std::size_t>(bytes)};
}

inline bool fits(int bytes) {
  return static_cast<std::size_t>(bytes) <= simt::most_shared_bytes();
}

// As many warps as shared memory has room for.
template <int kWidth>
void launch_few(simt::Stream stream, const AttendTensorTask& task, const TensorCut& cut) {
  using Shape = FewShape<kWidth>;
  int warps = kFewWarps;
  const auto room = [&] { return FewRoom<Shape>(task.of, warps, task.few_queries); };
  while (warps > 1 && !fits(room().bytes())) warps /= 2;
  simt::launch(stream, shape_of(task.of, cut, task.few_count, warps, room().bytes()), attend_few<Shape>, task, cut,
               room());
}
template <int kWidth>
void launch_many(simt::Stream stream, const AttendTensorTask& task, const TensorCut& cut) {
  using Shape = ManyShape<kWidth>;
  const int wanted = (task.many_queries + kWarpQueries - 1) / kWarpQueries;
  int warps = wanted;
  const auto bytes = [&] { return ManyRoom<Shape>(task.of.dims, warps).bytes(); };
  while (warps > 1 && !fits(bytes())) warps = (warps + 1) / 2;
  const int query_parts = (wanted + warps - 1) / warps;
  simt::Shape shape = shape_of(task.of, cut, task.many_count, warps, bytes());
  shape.blocks_y *= static_cast<unsigned>(query_parts);
  simt::launch(stream, shape, attend_many<Shape>, task, cut, query_parts);
}
template <int kWidth>
void launch(simt::Stream stream, const AttendTensorTask& task, const TensorCut& cut) {
  if (task.many_count > 0) launch_many<kWidth>(stream, task, cut);
  if (task.few_count > 0) launch_few<kWidth>(stream, task, cut);
}

}  // namespace espalier::cuda::tensor_attention
