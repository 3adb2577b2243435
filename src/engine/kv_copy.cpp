#include "engine/kv_copy.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace espalier {
namespace {

static_assert(kBlockTokens == kSlotGroup, "a block of the files is a group of the pool");

}  // namespace

KvCopier::KvCopier(const KvShape& shape, KvView pool, ComputeTeam& team)
    : shape_(shape), layers_(pool.layers), team_(team) {
  head_bytes_ = static_cast<std::size_t>(padded_head(shape.head_dim)) *
                static_cast<std::size_t>(element_bytes(shape.type)) * kSlotGroup;
  const std::size_t scales = has_scales(shape.type) ? kSlotGroup * sizeof(float) : 0;
  layer_bytes_ = 2 * static_cast<std::size_t>(shape.kv_heads) * (head_bytes_ + scales);
}

void KvCopier::cut(const ExtentList& slots, int first_token, std::size_t stride) {
  pieces_.clear();
  int token = first_token;
  for (const Extent& extent : slots.extents()) {
    for (Slot slot = extent.start; slot < extent.end();) {
      const int lane = token % kSlotGroup;
      const int count = std::min({extent.end() - slot, kSlotGroup - lane, kSlotGroup - slot % kSlotGroup});
      pieces_.push_back({static_cast<std::size_t>(token / kSlotGroup) * stride, lane, slot, count});
      slot += count;
      token += count;
    }
  }
}

// `block`: where the layer begins in the piece's block.
template <KvCopier::Way way>
void KvCopier::copy(const KvLayer& layer, const Piece& piece, std::byte* block) const {
  const auto move = [](std::byte* in_block, std::byte* in_pool, std::size_t bytes) {
    if constexpr (way == Way::out)
      std::memcpy(in_block, in_pool, bytes);
    else
      std::memcpy(in_pool, in_block, bytes);
  };
  const auto heads = static_cast<std::size_t>(shape_.kv_heads);
  const auto count = static_cast<std::size_t>(piece.count), lane = static_cast<std::size_t>(piece.lane);
  const auto slot = static_cast<std::size_t>(piece.slot % kSegmentSlots);
  const std::size_t row = head_bytes_ / kSlotGroup;  // of one token's values
  // Lanes of keys: bf16 keeps two elements of a token together.
  const std::size_t unit = shape_.type == KvType::bf16 ? 4 : static_cast<std::size_t>(element_bytes(shape_.type));
  for (std::size_t h = 0; h < heads; ++h) {
    const auto head = static_cast<int>(h);
    std::byte* keys = layer.keys + key_offset(layer, head, piece.slot) + slot / kSlotGroup * head_bytes_;
    std::byte* block_keys = block + h * head_bytes_;
    if (piece.count == kSlotGroup) {
      move(block_keys, keys, head_bytes_);
    } else {
      for (std::size_t at = 0; at < head_bytes_; at += kSlotGroup * unit)
        move(block_keys + at + lane * unit, keys + at + slot % kSlotGroup * unit, count * unit);
    }
    std::byte* values = layer.values + value_offset(layer, head, piece.slot) + slot * row;
    move(block + (heads + h) * head_bytes_ + lane * row, values, count * row);
    if (layer.key_scales == nullptr) continue;
    std::byte* scales = block + 2 * heads * head_bytes_ + (h * kSlotGroup + lane) * sizeof(float);
    const std::size_t at = h * layer.head_scales + static_cast<std::size_t>(piece.slot);
    move(scales, reinterpret_cast<std::byte*>(layer.key_scales + at), count * sizeof(float));
    move(scales + heads * kSlotGroup * sizeof(float), reinterpret_cast<std::byte*>(layer.value_scales + at),
         count * sizeof(float));
  }
}

template <KvCopier::Way way>
void KvCopier::copy_all(std::byte* blocks) {
  team_.run(static_cast<int>(layers_.size()), [&](int l) {
    const auto layer = static_cast<std::size_t>(l);
    for (const Piece& piece : pieces_) copy<way>(layers_[layer], piece, blocks + piece.block_at + layer * layer_bytes_);
  });
}

void KvCopier::copy_out(const ExtentList& slots, std::span<std::byte> blocks, std::size_t stride) {
  // What pads a block is written too: it may be stale memory of the buffer, and it is checksummed.
  for (std::size_t at = block_bytes(); at < blocks.size() && stride > block_bytes(); at += stride)
    std::memset(blocks.data() + at, 0, stride - block_bytes());
  cut(slots, 0, stride);
  copy_all<Way::out>(blocks.data());
}

void KvCopier::copy_in(std::span<const std::byte> blocks, std::size_t stride, int first_token,
                       const ExtentList& slots) {
  cut(slots, first_token, stride);
  copy_all<Way::in>(const_cast<std::byte*>(blocks.data()));  // only read from
}

// By way of a buffer, since pieces may begin anywhere in a group of slots; it is small enough to stay in the cache.
void KvCopier::copy_within(const ExtentList& from, const ExtentList& to) {
  constexpr int kAtOnce = 16 * kBlockTokens;
  for (int at = 0; at < from.length(); at += kAtOnce) {
    const int count = std::min(kAtOnce, from.length() - at), blocks = (count + kBlockTokens - 1) / kBlockTokens;
    within_.resize(static_cast<std::size_t>(blocks) * block_bytes());
    copy_out(from.slice(at, count), within_, block_bytes());
    copy_in(within_, block_bytes(), 0, to.slice(at, count));
  }
}

}  // namespace espalier
