// attention_launches.h: attention with the CPU's bits, by the type of keys and values, and by tensor cores, by the most elements of
// keys and values, or over latent rows; each has a file, so that they compile side by side.
//
// Threads: asynchronous on a stream. Fails: never.
#pragma once

#include "kernels/cuda/attention/attention_task.h"

namespace espalier::cuda::attention {

void attend_f32(simt::Stream stream, const AttendTask& task);
void attend_bf16(simt::Stream stream, const AttendTask& task);
void attend_f16(simt::Stream stream, const AttendTask& task);
void attend_i8(simt::Stream stream, const AttendTask& task);
void attend_f8_e4m3(simt::Stream stream, const AttendTask& task);
void attend_f8_e5m2(simt::Stream stream, const AttendTask& task);

void attend_tensor_64(simt::Stream stream, const AttendTensorTask& task, const TensorCut& cut);
void attend_tensor_96(simt::Stream stream, const AttendTensorTask& task, const TensorCut& cut);
void attend_tensor_128(simt::Stream stream, const AttendTensorTask& task, const TensorCut& cut);
void attend_tensor_256(simt::Stream stream, const AttendTensorTask& task, const TensorCut& cut);

}  // namespace espalier::cuda::attention

// Over latent rows (latent/): by how many queries a block of threads takes.
namespace espalier::cuda::latent {

// Some tiles of a task.
struct LatentTiles {
  const AttendTask* task;
  TensorCut cut;
  const AttendedTile* tiles;
  int count, queries;  // queries: the most of a tile
  std::size_t most_shared;
};
// false: that many do not fit into `most_shared` bytes of shared memory, and nothing was launched.
bool attend_latent_16(simt::Stream stream, const LatentTiles& of);
bool attend_latent_32(simt::Stream stream, const LatentTiles& of);
bool attend_latent_64(simt::Stream stream, const LatentTiles& of);

}  // namespace espalier::cuda::latent
