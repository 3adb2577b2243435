#include "engine/memory/kv_copy.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace espalier {
namespace {

static_assert(kBlockTokens == kSlotGroup, "a block of the files is a group of the pool");

}  // namespace

KvCopier::KvCopier(const KvPool& pool, ComputeTeam& team, const StatePool* states)
    : type_(pool.layout().type), states_(states), team_(team) {
  const CacheLayout& layout = pool.layout();
  for (std::size_t i = 0; i < layout.fields.size(); ++i) {
    const TokenField& field = layout.fields[i];
    const auto heads = static_cast<std::size_t>(std::max(1, field.heads));  // of other ranks' fields there are none
    const std::size_t keys = CacheLayout::key_bytes(field, type_), values = CacheLayout::value_bytes(field, type_);
    fields_.push_back({block_bytes_, field.heads, keys / heads, values / heads, &pool.view().layers[i]});
    block_bytes_ += kSlotGroup * (keys + values + CacheLayout::scale_bytes(field, type_));
  }
  if (pool.device() == nullptr) return;
  std::vector<device::MovedField> fields;
  for (const Field& field : fields_)
    fields.push_back({*field.layer, field.heads, field.block_at, field.key_row, field.value_row});
  mover_ = std::make_unique<device::TokenMover>(*pool.device(), std::move(fields));
}

std::vector<device::MovedPiece> KvCopier::pieces_to_move() const {
  std::vector<device::MovedPiece> pieces;
  for (const Piece& piece : pieces_) pieces.push_back({piece.block_at, piece.lane, piece.slot, piece.count});
  return pieces;
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

// `block`: where the field begins in the piece's block.
template <KvCopier::Way way>
void KvCopier::copy(const Field& field, const Piece& piece, std::byte* block) const {
  const auto move = [](std::byte* in_block, std::byte* in_pool, std::size_t bytes) {
    if constexpr (way == Way::out)
      std::memcpy(in_block, in_pool, bytes);
    else
      std::memcpy(in_pool, in_block, bytes);
  };
  const KvLayer& layer = *field.layer;
  const auto count = static_cast<std::size_t>(piece.count), lane = static_cast<std::size_t>(piece.lane);
  const auto slot = static_cast<std::size_t>(piece.slot % kSegmentSlots);
  const std::size_t key_group = kSlotGroup * field.key_row, value_group = kSlotGroup * field.value_row;
  // Lanes of keys: bf16 keeps two elements of a token together.
  const std::size_t unit = type_ == KvType::bf16 ? 4 : static_cast<std::size_t>(element_bytes(type_));
  const auto heads = static_cast<std::size_t>(field.heads);
  for (std::size_t h = 0; h < heads; ++h) {
    const auto head = static_cast<int>(h);
    std::byte* keys = layer.keys + key_offset(layer, head, piece.slot) + slot / kSlotGroup * key_group;
    std::byte* block_keys = block + h * key_group;
    if (piece.count == kSlotGroup)
      move(block_keys, keys, key_group);
    else if (layer.form == KvForm::latent)
      move(block_keys + lane * field.key_row, keys + slot % kSlotGroup * field.key_row, count * field.key_row);
    else
      for (std::size_t at = 0; at < key_group; at += kSlotGroup * unit)
        move(block_keys + at + lane * unit, keys + at + slot % kSlotGroup * unit, count * unit);
    if (layer.values != nullptr)
      move(block + heads * key_group + h * value_group + lane * field.value_row,
           layer.values + value_offset(layer, head, piece.slot) + slot * field.value_row, count * field.value_row);
    std::byte* scales = block + heads * (key_group + value_group) + (h * kSlotGroup + lane) * sizeof(float);
    const std::size_t at = h * layer.head_scales + static_cast<std::size_t>(piece.slot);
    if (layer.key_scales != nullptr)
      move(scales, reinterpret_cast<std::byte*>(layer.key_scales + at), count * sizeof(float));
    if (layer.value_scales != nullptr)
      move(scales + heads * kSlotGroup * sizeof(float), reinterpret_cast<std::byte*>(layer.value_scales + at),
           count * sizeof(float));
  }
}

template <KvCopier::Way way>
void KvCopier::copy_all(std::span<std::byte> blocks) {
  team_.run(static_cast<int>(fields_.size()), [&](int i) {
    const Field& field = fields_[static_cast<std::size_t>(i)];
    for (const Piece& piece : pieces_) copy<way>(field, piece, blocks.data() + piece.block_at + field.block_at);
  });
}

// What pads a block is written too: it may be stale memory of the buffer, and it is checksummed.
void KvCopier::zero_padding(std::span<std::byte> blocks, std::size_t stride) const {
  for (std::size_t at = block_bytes(); at < blocks.size() && stride > block_bytes(); at += stride)
    std::memset(blocks.data() + at, 0, stride - block_bytes());
}

void KvCopier::copy_out(const ExtentList& slots, std::span<std::byte> blocks, std::size_t stride) {
  if (mover_ == nullptr) {
    zero_padding(blocks, stride);
    cut(slots, 0, stride);
    return copy_all<Way::out>(blocks);
  }
  begin_copy_out(slots, blocks, stride);
  settle();
}

void KvCopier::copy_in(std::span<const std::byte> blocks, std::size_t stride, int first_token,
                       const ExtentList& slots) {
  begin_copy_in(blocks, stride, first_token, slots);
  settle();
}

// What does not come out of the pool is as it was: it goes to the device first.
void KvCopier::begin_copy_out(const ExtentList& slots, std::span<std::byte> blocks, std::size_t stride) {
  if (mover_ == nullptr) return copy_out(slots, blocks, stride);
  const bool whole = stride == block_bytes() && slots.length() % kBlockTokens == 0;
  if (!whole) zero_padding(blocks, stride);
  cut(slots, 0, stride);
  mover_->begin_copy_out(pieces_to_move(), blocks, whole);
}

void KvCopier::begin_copy_in(std::span<const std::byte> blocks, std::size_t stride, int first_token,
                             const ExtentList& slots) {
  cut(slots, first_token, stride);
  if (mover_ != nullptr) return mover_->begin_copy_in(pieces_to_move(), blocks);
  copy_all<Way::in>({const_cast<std::byte*>(blocks.data()), blocks.size()});  // only read from
}

// By way of a buffer, since pieces may begin anywhere in a group of slots; it is small enough to stay in the cache.
void KvCopier::copy_within(const ExtentList& from, const ExtentList& to) {
  constexpr int kAtOnce = 16 * kBlockTokens;
  for (int at = 0; at < from.length(); at += kAtOnce) {
    const int count = std::min(kAtOnce, from.length() - at), blocks = (count + kBlockTokens - 1) / kBlockTokens;
    const std::size_t bytes = static_cast<std::size_t>(blocks) * block_bytes();
    if (mover_ != nullptr) {
      cut(from.slice(at, count), 0, block_bytes());
      const auto pieces = pieces_to_move();
      cut(to.slice(at, count), 0, block_bytes());
      mover_->copy_within(pieces, pieces_to_move(), bytes);
      continue;
    }
    within_.resize(bytes);
    copy_out(from.slice(at, count), within_, block_bytes());
    copy_in(within_, block_bytes(), 0, to.slice(at, count));
  }
}

}  // namespace espalier
