// tokens.cu: what is kept of tokens, moved between the pool and blocks of bytes, or read as floats; see token_task.h.
//
// A block of threads moves what a field has of a piece of tokens, in units as wide as the bytes' places allow.
#include "kernels/cuda/token_task.h"
//
#include "kernels/cuda/simt/simd.h"
//
#include "kernels/cuda/stored_elements.h"

namespace espalier::cuda {
namespace {

constexpr int kMoveThreads = 128, kLoadThreads = 128;

// `parts` stretches of so many bytes, at the same distance from one another in the block as in the pool.
struct Stretches {
  std::byte *in_block, *in_pool;
  std::size_t bytes, distance;
  int parts;
};

template <class Unit>
ESPALIER_ON_DEVICE void move_units(const Stretches& s, bool out) {
  const auto in_part = static_cast<int>(s.bytes / sizeof(Unit)), all = in_part * s.parts;
  for (int i = simt::thread(); i < all; i += simt::threads()) {
    const std::size_t at =
        static_cast<std::size_t>(i / in_part) * s.distance + static_cast<std::size_t>(i % in_part) * sizeof(Unit);
    auto* const in_block = reinterpret_cast<Unit*>(s.in_block + at);
    auto* const in_pool = reinterpret_cast<Unit*>(s.in_pool + at);
    if (out)
      *in_block = *in_pool;
    else
      *in_pool = *in_block;
  }
}
ESPALIER_ON_DEVICE void move(const Stretches& s, bool out) {
  const std::size_t places = reinterpret_cast<std::size_t>(s.in_block) | reinterpret_cast<std::size_t>(s.in_pool) |
                             s.bytes | (s.parts > 1 ? s.distance : 0);
  if (places % sizeof(FourWords) == 0)
    move_units<FourWords>(s, out);
  else if (places % sizeof(std::uint32_t) == 0)
    move_units<std::uint32_t>(s, out);
  else if (places % sizeof(std::uint16_t) == 0)
    move_units<std::uint16_t>(s, out);
  else
    move_units<std::uint8_t>(s, out);
}

// What a field has of a piece, head by head (engine/memory/kv_copy.h).
class PieceMover {
 public:
  ESPALIER_ON_DEVICE PieceMover(const MoveTokensTask& task, const MovedField& field, const MovedPiece& piece)
      : field_(field),
        layer_(field.layer),
        piece_(piece),
        block_(task.blocks + piece.block_at + field.block_at),
        count_(static_cast<std::size_t>(piece.count)),
        lane_(static_cast<std::size_t>(piece.lane)),
        in_segment_(static_cast<std::size_t>(piece.slot % kSegmentSlots)),
        out_(task.out) {}

  ESPALIER_ON_DEVICE void move_all() const {
    for (int head = 0; head < field_.heads; ++head) {
      move_keys(head);
      if (layer_.values != nullptr) move_values(head);
    }
    if (layer_.key_scales != nullptr) move_scales(layer_.key_scales, 0);
    if (layer_.value_scales != nullptr) move_scales(layer_.value_scales, 1);
  }

 private:
  ESPALIER_ON_DEVICE std::size_t key_group() const { return kSlotGroup * field_.key_row; }
  ESPALIER_ON_DEVICE std::size_t value_group() const { return kSlotGroup * field_.value_row; }
  ESPALIER_ON_DEVICE std::size_t heads() const { return static_cast<std::size_t>(field_.heads); }

  ESPALIER_ON_DEVICE void move_keys(int head) const {
    std::byte* const keys =
        layer_.keys + key_offset(layer_, head, piece_.slot) + in_segment_ / kSlotGroup * key_group();
    std::byte* const block = block_ + static_cast<std::size_t>(head) * key_group();
    const std::size_t slot = in_segment_ % kSlotGroup;
    if (piece_.count == kSlotGroup) return move({block, keys, key_group(), 0, 1}, out_);
    if (layer_.form == KvForm::latent)
      return move({block + lane_ * field_.key_row, keys + slot * field_.key_row, count_ * field_.key_row, 0, 1}, out_);
    // Lanes of keys: bf16 keeps two elements of a token together.
    const std::size_t unit = layer_.type == KvType::bf16 ? 4 : static_cast<std::size_t>(element_bytes(layer_.type));
    move({block + lane_ * unit, keys + slot * unit, count_ * unit, kSlotGroup * unit,
          static_cast<int>(field_.key_row / unit)},
         out_);
  }
  ESPALIER_ON_DEVICE void move_values(int head) const {
    move({block_ + heads() * key_group() + static_cast<std::size_t>(head) * value_group() + lane_ * field_.value_row,
          layer_.values + value_offset(layer_, head, piece_.slot) + in_segment_ * field_.value_row,
          count_ * field_.value_row, 0, 1},
         out_);
  }
  // kind 0: of keys, 1: of values behind them. All heads at once.
  ESPALIER_ON_DEVICE void move_scales(float* scales, std::size_t kind) const {
    auto* const block =
        reinterpret_cast<float*>(block_ + heads() * (key_group() + value_group())) + kind * heads() * kSlotGroup;
    for (int i = simt::thread(); i < field_.heads * piece_.count; i += simt::threads()) {
      const auto head = static_cast<std::size_t>(i / piece_.count), token = static_cast<std::size_t>(i % piece_.count);
      float& in_block = block[head * kSlotGroup + lane_ + token];
      float& in_pool = scales[head * layer_.head_scales + static_cast<std::size_t>(piece_.slot) + token];
      if (out_)
        in_block = in_pool;
      else
        in_pool = in_block;
    }
  }

  const MovedField& field_;
  const KvLayer& layer_;
  MovedPiece piece_;
  std::byte* block_;  // where the field begins in the piece's block
  std::size_t count_, lane_, in_segment_;
  bool out_;
};

// Grid: pieces x fields.
ESPALIER_GLOBAL void move_pieces(MoveTokensTask task) {
  const PieceMover mover(task, task.fields[simt::block_y()], task.pieces[simt::block_x()]);
  mover.move_all();
}

// Grid: rows.
template <KvType kType>
ESPALIER_GLOBAL void load_rows(LoadTokensTask task) {
  const int row = simt::block_x(), width = task.heads * task.key_dim;
  const Slot slot = task.slots[row];
  const std::int64_t bytes = std::int64_t{padded_head(task.key_dim)} * element_bytes(kType);
  float* const out = task.out + row * task.out_stride;
  for (int i = simt::thread(); i < width; i += simt::threads()) {
    float value = 0.0f;
    if (slot >= 0) {
      const int head = i / task.key_dim, d = i % task.key_dim;
      value = element_at<kType>(task.layer.keys + key_offset(task.layer, head, slot) + slot % kSegmentSlots * bytes +
                                d * element_bytes(kType));
      if constexpr (has_scales(kType))
        value = value * task.layer.key_scales[static_cast<std::size_t>(head) * task.layer.head_scales +
                                              static_cast<std::size_t>(slot)];
    }
    out[i] = value;
  }
}
template <KvType kType>
void load(simt::Stream stream, const LoadTokensTask& task) {
  simt::launch(stream, {.blocks_x = static_cast<unsigned>(task.rows), .threads = kLoadThreads}, load_rows<kType>, task);
}

}  // namespace

void move_tokens(simt::Stream stream, const MoveTokensTask& task) {
  simt::launch(stream,
               {.blocks_x = static_cast<unsigned>(task.piece_count),
                .blocks_y = static_cast<unsigned>(task.field_count),
                .threads = kMoveThreads},
               move_pieces, task);
}

void load_tokens(simt::Stream stream, const LoadTokensTask& task) {
  switch (task.layer.type) {
    case KvType::f32:
      return load<KvType::f32>(stream, task);
    case KvType::bf16:
      return load<KvType::bf16>(stream, task);
    case KvType::f16:
      return load<KvType::f16>(stream, task);
    case KvType::i8:
      return load<KvType::i8>(stream, task);
    case KvType::f8_e4m3:
      return load<KvType::f8_e4m3>(stream, task);
    case KvType::f8_e5m2:
      return load<KvType::f8_e5m2>(stream, task);
  }
}

}  // namespace espalier::cuda
