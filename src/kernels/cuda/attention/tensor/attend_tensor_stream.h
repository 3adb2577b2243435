// attend_tensor_stream.h: keys and values on their way to shared memory, a piece of a block of positions at a time, some pieces
// ahead; for attention by tensor cores.
//
// Of a block come first its keys, Shape::kPositions of them at a time, then its values: kColumns elements of all positions where a
// tile's warps share what comes (Shape::kShared), or all elements of kPositions positions where each warp has a stream of its own.
// In shared memory:
//   keys    [16 positions][pair of elements][16 positions] words; of each other two pairs, the halves of 32 bytes are exchanged, so
//           that neighbours that read pairs t and positions 2 g, 2 g + 1 together (t < 4, g < 8) meet different banks
//   values  [16 positions, the even ones first][elements], each row 16 bytes longer than it need be, for the same reason
// What no row sees is zero. Order: next() gives the pieces in order, which hold until it is called again.
// Threads: those of a stream together. Fails: never.
#pragma once

#include "kernels/cuda/attention/tensor/attend_tensor_tile.h"
#include "kernels/cuda/simt/async_copy.h"

namespace espalier::cuda::tensor_attention {

// Values up to kWidthOf elements, and keys.
template <int kWidthOf>
struct ManyShape {
  static constexpr bool kShared = true;
  static constexpr int kWidth = kWidthOf, kPositions = kWidth > 128 ? 32 : 64,
                       kColumns = kWidth > 128 ? 32 : kWidth / 2;
  static constexpr int kAhead = 2;
  static constexpr int kHeld = kWidth > 128 ? 128 : kWidth;  // elements of folded values for which there are registers
};
// The same where each warp has what it needs for itself.
template <int kWidthOf>
struct FewShape {
  static constexpr bool kShared = false;
  static constexpr int kWidth = kWidthOf, kPositions = 16, kColumns = kWidth;
  static constexpr int kAhead = kWidth > 128 ? 2 : 3;
};

// Bytes and counts that follow from a layer's widths.
template <class Shape>
struct StreamRoom {
  static constexpr int kSlots = Shape::kAhead + 1, kKeyPieces = kAttentionBlock / Shape::kPositions;
  int key_pairs, value_sixteens;  // of a position: pairs of elements; 16 bytes
  ESPALIER_EITHER explicit StreamRoom(const HeadDims& dims)
      : key_pairs(padded_head(dims.key) / 2), value_sixteens(padded_head(dims.value) / 8) {}
  ESPALIER_EITHER int value_pieces() const {
    return Shape::kShared ? (8 * value_sixteens + Shape::kColumns - 1) / Shape::kColumns : kKeyPieces;
  }
  ESPALIER_EITHER int value_stride() const {
    return 16 * ((Shape::kShared ? Shape::kColumns / 8 : value_sixteens) + 1);
  }
  ESPALIER_EITHER int slot_bytes() const {
    const int keys = Shape::kPositions * key_pairs * 4,
              values = (Shape::kShared ? kAttentionBlock : Shape::kPositions) * value_stride();
    return keys > values ? keys : values;
  }
  ESPALIER_EITHER int bytes() const { return kSlots * slot_bytes(); }
};

// What one thread has to do with a stream.
template <class Shape>
class Stream {
 public:
  static constexpr int kTableBytes = 2 * kAttentionBlock * static_cast<int>(sizeof(Slot));

  // Blocks begin, begin + step, ... up to `end`. Where in shared memory: table, of kTableBytes, and ring.
  ESPALIER_ON_DEVICE Stream(const Tile& tile, int table, int ring, int begin, int end, int step)
      : tile_(tile), room_(tile.task().dims), table_(table), ring_(ring), asked_block_(begin), end_(end), step_(step) {}

  // Order: first, once.
  ESPALIER_ON_DEVICE void begin() {
    if (asked_block_ < end_) note(asked_block_);
    meet();
    ESPALIER_UNROLL(1)
    for (int i = 0; i < Shape::kAhead; ++i) ask();
  }
  // The next piece; first_of: the block whose first one it is, or -1.
  ESPALIER_ON_DEVICE const std::uint8_t* next(int first_of) {
    copies_.template wait<Shape::kAhead - 1>();
    meet();
    if (first_of >= 0 && first_of + step_ < end_) note(first_of + step_);
    ask();
    const std::uint8_t* const at = slot(slot_);
    slot_ = slot_ + 1 == kSlots ? 0 : slot_ + 1;
    return at;
  }
  ESPALIER_ON_DEVICE const StreamRoom<Shape>& room() const { return room_; }

 private:
  static constexpr int kSlots = StreamRoom<Shape>::kSlots, kKeyPieces = StreamRoom<Shape>::kKeyPieces,
                       kPositions = Shape::kPositions;

  ESPALIER_ON_DEVICE static int self() { return Shape::kShared ? simt::thread() : simt::thread() % 32; }
  ESPALIER_ON_DEVICE static int others() { return Shape::kShared ? simt::threads() : 32; }
  ESPALIER_ON_DEVICE static void meet() {
    if constexpr (Shape::kShared)
      simt::meet();
    else
      simt::meet_neighbours<32>();
  }
  // Of two blocks in turns: pieces of the next one are asked for while this one's may be.
  ESPALIER_ON_DEVICE Slot* slots_of(int turn) const {
    return reinterpret_cast<Slot*>(simt::shared<std::uint8_t>() + table_) + turn * kAttentionBlock;
  }
  ESPALIER_ON_DEVICE std::uint8_t* slot(int number) const {
    return simt::shared<std::uint8_t>() + ring_ + number * room_.slot_bytes();
  }
  ESPALIER_ON_DEVICE void note(int block) {
    for (int p = self(); p < kAttentionBlock; p += others())
      slots_of(noted_turn_)[p] = tile_.seen_slot(finder_, block * kAttentionBlock + p);
    noted_turn_ ^= 1;
  }

  ESPALIER_ON_DEVICE void ask() {
    if (asked_block_ < end_) {
      std::uint8_t* const to = slot(asked_slot_);
      const Slot* const slots = slots_of(asked_turn_);
      if (asked_piece_ < kKeyPieces)
        copy_keys(to, slots + asked_piece_ * kPositions);
      else
        copy_values(to, slots, asked_piece_ - kKeyPieces);
      asked_slot_ = asked_slot_ + 1 == kSlots ? 0 : asked_slot_ + 1;
      if (++asked_piece_ == kKeyPieces + room_.value_pieces()) {
        asked_piece_ = 0;
        asked_turn_ ^= 1;
        asked_block_ += step_;
      }
    }
    copies_.commit();
  }

  ESPALIER_ON_DEVICE const std::uint8_t* key_of(Slot slot) const {
    return reinterpret_cast<const std::uint8_t*>(key_at<KvType::bf16, KvForm::keys_and_values>(
        tile_.task().kv, Tile::facts().kv_head, slot < 0 ? 0 : slot, 2 * room_.key_pairs));
  }
  // A thread has four positions, and some of the pairs of elements.
  ESPALIER_ON_DEVICE void copy_keys(std::uint8_t* to, const Slot* slots) {
    constexpr int kFours = kPositions / 4;
    const int four = self() % kFours, step = others() / kFours;
    const auto [a, b, c, d] = *reinterpret_cast<const FourSlots*>(slots + 4 * four);
    const bool none = (a & b & c & d) == kUnseen;
    const bool together = a >= 0 && a % 4 == 0 && b == a + 1 && c == a + 2 && d == a + 3;
    if (!none && !together) return copy_keys_apart(to, slots + 4 * four);
    const std::uint8_t* const from = key_of(a);
    for (int pair = self() / kFours; pair < room_.key_pairs; pair += step)
      copies_.copy16(to + place_of(four, pair), from + pair * 64, together);
  }
  ESPALIER_ON_DEVICE void copy_keys_apart(std::uint8_t* to, const Slot* slots) {
    constexpr int kFours = kPositions / 4;
    ESPALIER_UNROLL(1)
    for (int i = 0; i < 4; ++i) {
      const std::uint8_t* const from = key_of(slots[i]);
      ESPALIER_UNROLL(1)
      for (int pair = self() / kFours; pair < room_.key_pairs; pair += others() / kFours)
        copies_.copy4(to + place_of(self() % kFours, pair) + 4 * i, from + pair * 64, slots[i] >= 0);
    }
  }
  ESPALIER_ON_DEVICE int place_of(int four, int pair) const {
    return ((four / 4 * room_.key_pairs + pair) * 4 + ((four & 3) ^ (pair & 2))) * 16;
  }

  ESPALIER_ON_DEVICE void copy_values(std::uint8_t* to, const Slot* slots, int piece) {
    if constexpr (Shape::kShared) {
      constexpr int kPieceSixteens = Shape::kColumns / 8;
      const int first = piece * kPieceSixteens;
      ESPALIER_UNROLL(1)
      for (int i = self(); i < kAttentionBlock * kPieceSixteens; i += others())
        copy_value(to, slots[i / kPieceSixteens], i / kPieceSixteens, first, i % kPieceSixteens);
    } else {
      static_assert(kPositions == 16);
      const int position = self() / 2;
      const Slot slot = slots[piece * kPositions + position];
      for (int sixteen = self() % 2; sixteen < room_.value_sixteens; sixteen += 2)
        copy_value(to, slot, position, 0, sixteen);
    }
  }
  // Sixteen bytes of a position.
  ESPALIER_ON_DEVICE void copy_value(std::uint8_t* to, Slot slot, int position, int first, int sixteen) {
    const KvLayer& kv = tile_.task().kv;
    const bool there = slot >= 0 && first + sixteen < room_.value_sixteens;
    const std::int64_t in_segment = (there ? slot : 0) % kSegmentSlots;
    const auto* const from = reinterpret_cast<const std::uint8_t*>(kv.values) +
                             value_offset(kv, Tile::facts().kv_head, there ? slot : 0) +
                             (in_segment * room_.value_sixteens + (there ? first + sixteen : 0)) * 16;
    const int row = position / 16 * 16 + (position & 1) * 8 + (position >> 1 & 7);
    copies_.copy16(to + row * room_.value_stride() + sixteen * 16, from, there);
  }

  // Slots of four positions.
  struct alignas(16) FourSlots {
    Slot a, b, c, d;
  };

  const Tile& tile_;
  const StreamRoom<Shape> room_;
  simt::AsyncCopies copies_;
  SlotFinder finder_;
  const int table_, ring_;
  int asked_block_;
  const int end_, step_;
  int asked_piece_ = 0, asked_slot_ = 0, slot_ = 0, asked_turn_ = 0, noted_turn_ = 0;
};

}  // namespace espalier::cuda::tensor_attention
