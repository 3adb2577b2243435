// kv_copy.h: keys and values of whole blocks of tokens, from the pool to bytes and back, bit for bit.
//
// A block is 16 tokens of all layers; bytes: 16 x KvShape::bytes_per_token(). It is laid out as the pool lays out a
// group of 16 slots (kernels/kv_layout.h), D = head_dim rounded up to 16:
//   for each layer   keys [heads][D][16] (bf16: [heads][D / 2][16][2]), values [heads][16][D],
//                    key scales [heads][16], value scales [heads][16] when the type has them
// so a block whose tokens lie in one group moves in whole pieces, and any other lane by lane.
// Threads: the engine thread; the team copies layers side by side. Fails: never.
#pragma once

#include "base/compute_team.h"
#include "cache/disk_prefixes.h"
#include "engine/memory/kv_pool.h"

namespace espalier {

class KvCopier final : public SlotCopier {
 public:
  KvCopier(const KvShape& shape, KvView pool, ComputeTeam& team);

  std::size_t block_bytes() const { return layers_.size() * layer_bytes_; }
  void copy_out(const ExtentList& slots, std::span<std::byte> blocks, std::size_t stride) override;
  void copy_in(std::span<const std::byte> blocks, std::size_t stride, int first_token,
               const ExtentList& slots) override;
  void copy_within(const ExtentList& from, const ExtentList& to);  // as many slots, in order, none in both

 private:
  struct Piece {  // tokens that follow each other, in one block and in one group of the pool
    std::size_t block_at;
    int lane;  // of the first one in its block
    Slot slot;
    int count;
  };
  enum class Way { out, in };
  void cut(const ExtentList& slots, int first_token, std::size_t stride);
  template <Way way>
  void copy_all(std::byte* blocks);
  template <Way way>
  void copy(const KvLayer& layer, const Piece& piece, std::byte* block) const;

  KvShape shape_;
  std::span<const KvLayer> layers_;
  ComputeTeam& team_;
  std::size_t head_bytes_, layer_bytes_;  // of one head's keys (or values) in a block; of a layer
  std::vector<Piece> pieces_;             // kept to reuse memory
  std::vector<std::byte> within_;
};

}  // namespace espalier
