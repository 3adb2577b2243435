// token_task.h: what is kept of tokens, between the pool and blocks of bytes, or into rows.
//
// Threads: asynchronous on a stream. Fails: never.
#pragma once

#include "kernels/attention/kv_layout.h"
#include "kernels/cuda/simt/simt.h"

namespace espalier::cuda {

// A field of the pool, and where it lies in a block of 16 tokens (engine/memory/kv_copy.h).
struct MovedField {
  KvLayer layer;
  int heads;
  std::size_t block_at, key_row, value_row;  // bytes; of one token and head
};
// Tokens that follow each other, in one block and in one group of the pool.
struct MovedPiece {
  std::size_t block_at;
  std::int32_t lane;
  Slot slot;
  std::int32_t count;
};
// Tokens of all fields, one way.
struct MoveTokensTask {
  const MovedField* fields;  // of the device's memory, as all of these
  int field_count;
  const MovedPiece* pieces;
  int piece_count;
  std::byte* blocks;
  bool out;  // of the pool; false: into it
};
void move_tokens(simt::Stream stream, const MoveTokensTask& task);

// out[row] = the key of slots[row], all heads; zeros where that is -1.
struct LoadTokensTask {
  KvLayer layer;
  int heads, key_dim, rows;
  const Slot* slots;
  float* out;
  std::int64_t out_stride;
};
void load_tokens(simt::Stream stream, const LoadTokensTask& task);

}  // namespace espalier::cuda
