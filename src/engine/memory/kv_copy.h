// kv_copy.h: what is kept of whole blocks of tokens, from the pool to bytes and back, bit for bit.
//
// A block is 16 tokens of all fields; bytes: 16 x CacheLayout::bytes_per_token(). It is laid out as the pool lays out a
// group of 16 slots (kernels/attention/kv_layout.h), K and V = widths of keys and values rounded up to 16:
//   for each field   keys [heads][K][16] (bf16: [heads][K / 2][16][2]; latent rows: [heads][16][K]),
//                    values [heads][16][V] where there are any, key scales [heads][16], value scales [heads][16] when
//                    the type has them
// so a block whose tokens lie in one group moves in whole pieces, and any other lane by lane.
// A pool on a device is gathered and scattered there; blocks go to and from the host in one piece, while steps go on where
// copies are begun and settled.
// Threads: the engine thread; the team copies fields side by side. Fails: never; a device that does throws DeviceFailure.
#pragma once

#include <memory>

#include "base/threads/compute_team.h"
#include "cache/disk/disk_prefixes.h"
#include "device/step/token_mover.h"
#include "engine/memory/kv_pool.h"
#include "engine/memory/state_pool.h"

namespace espalier {

// Moves tokens between the pool and blocks of bytes.
class KvCopier final : public SlotCopier {
 public:
  KvCopier(const KvPool& pool, ComputeTeam& team, const StatePool* states = nullptr);

  std::size_t block_bytes() const { return block_bytes_; }
  void copy_out(const ExtentList& slots, std::span<std::byte> blocks, std::size_t stride) override;
  void copy_in(std::span<const std::byte> blocks, std::size_t stride, int first_token,
               const ExtentList& slots) override;
  void begin_copy_out(const ExtentList& slots, std::span<std::byte> blocks, std::size_t stride) override;
  void begin_copy_in(std::span<const std::byte> blocks, std::size_t stride, int first_token,
                     const ExtentList& slots) override;
  bool settled() const override { return mover_ == nullptr || mover_->settled(); }
  void settle() override {
    if (mover_ != nullptr) mover_->settle();
  }
  std::size_t state_bytes() const override { return states_ != nullptr ? states_->cell_bytes() : 0; }
  void copy_state_out(int cell, std::size_t from, std::span<std::byte> to) override { states_->read(cell, from, to); }
  void copy_state_in(int cell, std::size_t from, std::span<const std::byte> bytes) override {
    states_->write(cell, from, bytes);
  }
  void copy_within(const ExtentList& from, const ExtentList& to);  // as many slots, in order, none in both

 private:
  struct Field {
    std::size_t block_at;  // of its part of a block
    int heads;
    std::size_t key_row, value_row;  // bytes of one token and head
    const KvLayer* layer;
  };
  struct Piece {  // tokens that follow each other, in one block and in one group of the pool
    std::size_t block_at;
    int lane;  // of the first one in its block
    Slot slot;
    int count;
  };
  enum class Way { out, in };
  void cut(const ExtentList& slots, int first_token, std::size_t stride);
  template <Way way>
  void copy_all(std::span<std::byte> blocks);
  void zero_padding(std::span<std::byte> blocks, std::size_t stride) const;
  std::vector<device::MovedPiece> pieces_to_move() const;
  template <Way way>
  void copy(const Field& field, const Piece& piece, std::byte* block) const;

  KvType type_;
  const StatePool* states_;
  std::vector<Field> fields_;
  ComputeTeam& team_;
  std::size_t block_bytes_ = 0;
  std::vector<Piece> pieces_;  // kept to reuse memory
  std::vector<std::byte> within_;
  std::unique_ptr<device::TokenMover> mover_;  // of a pool on a device
};

// Moves what window slots hold.
class WindowKvCopier final : public WindowCopier {
 public:
  WindowKvCopier(const KvPool& windows, ComputeTeam& team) : copier_(windows, team) {}
  std::size_t window_block_bytes() const override { return copier_.block_bytes(); }
  void copy_window_out(const ExtentList& window_slots, std::span<std::byte> blocks) override {
    copier_.copy_out(window_slots, blocks, copier_.block_bytes());
  }
  void copy_window_in(std::span<const std::byte> blocks, int first_token, const ExtentList& window_slots) override {
    copier_.copy_in(blocks, copier_.block_bytes(), first_token, window_slots);
  }

 private:
  KvCopier copier_;
};

}  // namespace espalier
