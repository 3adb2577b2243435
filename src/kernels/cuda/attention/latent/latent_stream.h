// latent_stream.h: latent rows on their way to shared memory, part by part, while others are computed with.
//
// A block of positions is first multiplied with queries, part by part, then weighed, part by part: keys(0), keys(1) .. note() of the
// next block, values(0), values(1) .. by all threads, in this order; what they return holds until the next of them is called. What
// no row sees is zero.
// Threads: all of a block together. Fails: never.
#pragma once

#include "kernels/cuda/attention/latent/latent_choice.h"
#include "kernels/cuda/simt/async_copy.h"

namespace espalier::cuda::latent {

// What both ways have in common.
template <class Shape>
class LatentCopies {
 public:
  ESPALIER_ON_DEVICE LatentCopies(const Tile& tile, const LatentRoom<Shape>& room, int begin, int end)
      : tile_(tile), room_(room), begin_(begin), end_(end) {}

  // Where the positions of a block lie; a barrier is between it and whoever asks for them. Blocks in ascending order.
  ESPALIER_ON_DEVICE void note(int block) {
    if (block >= end_) return;
    if constexpr (Shape::kMayChoose) {
      const Choice choice(tile_.task(), room_.choice_at());
      if (choice.is_there()) return note_chosen(choice.list(block), block);
    }
    for (int p = simt::thread(); p < kAttentionBlock; p += simt::threads())
      table_of(block)[p] = offset_of(tile_.seen_slot(finder_, block * kAttentionBlock + p));
  }

 protected:
  ESPALIER_ON_DEVICE std::uint8_t* at(int offset) const { return simt::shared<std::uint8_t>() + offset; }
  // Bytes from the keys to each position, or -1; of two blocks in turns.
  ESPALIER_ON_DEVICE std::int64_t* table_of(int block) const {
    return reinterpret_cast<std::int64_t*>(at(room_.tables_at() + ((block - begin_) & 1) * room_.kTableBytes));
  }
  ESPALIER_ON_DEVICE std::int64_t offset_of(Slot slot) const {
    if (slot < 0) return -1;
    return static_cast<std::int64_t>(key_offset(tile_.task().kv, Tile::facts().kv_head, slot)) +
           std::int64_t{slot % kSegmentSlots} * (room_.parts.key_sixteens * 32);
  }
  ESPALIER_ON_DEVICE void note_chosen(const int* positions, int block) {
    const TileFacts& f = Tile::facts();
    for (int p = simt::thread(); p < kAttentionBlock; p += simt::threads())
      table_of(block)[p] =
          positions[p] < 0 ? -1 : offset_of(finder_.slot_of(tile_.task().runs, f.run_begin, f.run_end, positions[p]));
  }
  // Pieces of sixteen bytes, `count` from `first` on, of a part of a block, by so many threads. count <= kPieces.
  template <int kPieces>
  ESPALIER_ON_DEVICE void copy(std::uint8_t* to, int block, int part, int first, int count, int self, int others) {
    const std::int64_t* const table = table_of(block);
    const auto* const keys = reinterpret_cast<const std::uint8_t*>(tile_.task().kv.keys) + part * kPartBytes;
    const int stride = room_.parts.stride(part), piece = first + self % kPieces;
    if (self % kPieces >= count) return;
    ESPALIER_UNROLL(4)
    for (int position = self / kPieces; position < kAttentionBlock; position += others / kPieces) {
      const std::int64_t from = table[position];
      copies_.copy16(to + position * stride + place_of(piece, position), keys + (from < 0 ? 0 : from) + piece * 16,
                     from >= 0);
    }
  }
  // A whole part, by all threads.
  ESPALIER_ON_DEVICE void copy_part(std::uint8_t* to, int block, int part) {
    copy<2 * kPartSixteens>(to, block, part, 0, 2 * room_.parts.sixteens(part), simt::thread(), simt::threads());
  }

  const Tile& tile_;
  const LatentRoom<Shape>& room_;
  const int begin_, end_;
  simt::AsyncCopies copies_;

 private:
  SlotFinder finder_;
};

// All parts have their places: each is read from memory once. Warp w weighs the sixteen elements w of each part, and asks for the next
// block's when it has; of the last part, whose place the weights have meanwhile, all threads ask at the next block's begin.
template <class Shape>
class KeptParts : public LatentCopies<Shape> {
 public:
  using LatentCopies<Shape>::LatentCopies;
  ESPALIER_ON_DEVICE void begin() {
    this->note(this->begin_);
    simt::meet();
    ESPALIER_UNROLL(1)
    for (int pass = 0; pass < Shape::kPasses; ++pass) ask(pass, this->begin_);
  }
  ESPALIER_ON_DEVICE const std::uint8_t* keys(int part, int block) {
    if (this->room_.is_overlaid() && part == this->room_.parts.count() - 1) {
      this->copies_.template wait<0>();
      simt::meet();
    } else if (part % Shape::kTogether == 0) {
      this->copies_.template wait<1>();
      simt::meet();
      if (part == 0) ask_last(block);
    }
    return place(part);
  }
  ESPALIER_ON_DEVICE const std::uint8_t* values(int part) { return place(part); }
  // The warp has weighed what it has to of these parts.
  ESPALIER_ON_DEVICE void release(int pass, int block) {
    simt::meet_neighbours<32>();
    ask(pass, block + 1);
  }

 private:
  static_assert(Shape::kPasses == 2, "keys() waits for one of two passes");
  ESPALIER_ON_DEVICE std::uint8_t* place(int part) const { return this->at(this->room_.part_at(part)); }
  ESPALIER_ON_DEVICE void ask(int pass, int block) {
    const int warp = simt::thread() / 32;
    ESPALIER_UNROLL(1)
    for (int part = pass * Shape::kTogether; part < (pass + 1) * Shape::kTogether; ++part)
      if (block < this->end_ && part < this->room_.own_parts() && warp < this->room_.parts.sixteens(part))
        this->template copy<2>(place(part), block, part, 2 * warp, 2, lane(), 32);
    this->copies_.commit();
  }
  ESPALIER_ON_DEVICE void ask_last(int block) {
    const int last = this->room_.parts.count() - 1;
    if (this->room_.is_overlaid()) this->copy_part(place(last), block, last);
    this->copies_.commit();
  }
};

// Two places: while a part is computed with, the next one comes. What is weighed comes once more.
template <class Shape>
class PartsInTurns : public LatentCopies<Shape> {
 public:
  ESPALIER_ON_DEVICE PartsInTurns(const Tile& tile, const LatentRoom<Shape>& room, int begin, int end)
      : LatentCopies<Shape>(tile, room, begin, end), asked_block_(begin) {}
  ESPALIER_ON_DEVICE void begin() {
    this->note(this->begin_);
    simt::meet();
    ask();
  }
  ESPALIER_ON_DEVICE const std::uint8_t* keys(int, int) { return next(); }
  ESPALIER_ON_DEVICE const std::uint8_t* values(int) { return next(); }
  ESPALIER_ON_DEVICE void release(int, int) {}

 private:
  ESPALIER_ON_DEVICE std::uint8_t* place() const { return this->at(this->room_.part_at(turn_)); }
  ESPALIER_ON_DEVICE const std::uint8_t* next() {
    const std::uint8_t* const out = place();
    turn_ ^= 1;
    this->copies_.template wait<0>();
    simt::meet();
    ask();
    return out;
  }
  // The part behind the last one that was asked for.
  ESPALIER_ON_DEVICE void ask() {
    const LatentParts& parts = this->room_.parts;
    if (asked_block_ < this->end_) {
      this->copy_part(place(), asked_block_, asked_ < parts.count() ? asked_ : asked_ - parts.count());
      if (++asked_ == parts.count() + parts.value_count()) {
        asked_ = 0;
        ++asked_block_;
      }
    }
    this->copies_.commit();
  }
  int asked_block_, asked_ = 0, turn_ = 0;
};

}  // namespace espalier::cuda::latent
