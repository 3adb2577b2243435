// places.h: where the positions of a block lie in the pool, and which of them a tile's rows see.
#pragma once

#include "kernels/cpu/table.h"

namespace espalier::kernels::ESPALIER_ISA {

struct Group {  // of 16 slots, of which the lanes [lane, lane + length) are the positions [at, at + length) of a block
  const std::byte *keys, *values;
  Slot slot;  // the first one
  int lane, length, at;
  // Where a sequence moves on to another place, that begins in the lane where the old one ends: the lanes from `split`
  // on lie in another group. Null: all lie in this one.
  const std::byte *rest, *rest_values;
  Slot rest_slot;
  int split;
  bool whole() const { return length == kSlotGroup; }
};

struct Stretch {  // positions of a block whose slots follow one another within a segment
  Slot slot;
  int at, length;
};

// Which positions of a block are seen: position p is bit p % 64 of word p / 64.
struct SeenBits {
  std::uint64_t words[kAttentionBlock / 64] = {};
  bool any() const { return (words[0] | words[1]) != 0; }
  bool at(int position) const { return (words[position / 64] >> (position % 64) & 1) != 0; }
  bool any(int position, int length) const {
    for (int i = position; i < position + length; ++i)
      if (at(i)) return true;
    return false;
  }
};

struct Located {  // the slots of a block
  std::int64_t start = -1;
  int kv_head = 0;
  int group_count = 0, stretch_count = 0, count = 0;  // count: positions of the block that are read
  SeenBits seen;                                      // by any row of the tile, where it is masked
  Group groups[kAttentionBlock];
  Stretch stretches[kAttentionBlock];
};

struct Walk {  // over the extents of a span, in ascending order of positions
  const AttentionSpan& span;
  int run = 0;
  std::int64_t start = 0;  // of the run
};

inline std::int64_t start_of(int block) {
  return static_cast<std::int64_t>(block) * kAttentionBlock;
}

inline void find_stretches(int block, Walk& w, Located& to) {
  const KvRun* const runs = w.span.runs;
  to.start = start_of(block);
  to.kv_head = w.span.kv_head;
  const std::int64_t left = w.span.position_end - to.start;
  to.count = left < kAttentionBlock ? static_cast<int>(left) : kAttentionBlock;
  to.stretch_count = to.group_count = 0;
  for (int at = 0; at < to.count;) {
    while (to.start + at >= w.start + runs[w.run].length) w.start += runs[w.run++].length;
    const std::int64_t done = to.start + at - w.start;
    const Slot slot = runs[w.run].start + static_cast<Slot>(done);
    int length = kSegmentSlots - slot % kSegmentSlots;
    if (runs[w.run].length - done < length) length = static_cast<int>(runs[w.run].length - done);
    if (to.count - at < length) length = to.count - at;
    to.stretches[to.stretch_count++] = {slot, at, length};
    at += length;
  }
}

// The rows of a tile that see only some positions of their range.
class TileMask {
 public:
  explicit TileMask(const AttentionTask& t) : t_(t), masked_(t.selection.words != nullptr || t.entry_stride > 1) {}
  bool masked() const { return masked_; }

  // What a row sees of a block.
  SeenBits of_row(int row, int block) const { return of_row(t_.rows[row], block, entries(block)); }
  SeenBits of_tile(int block) const {
    const SeenBits there = entries(block);
    SeenBits all;
    for (int row = 0; row < t_.row_count; ++row) {
      const SeenBits one = of_row(t_.rows[row], block, there);
      all.words[0] |= one.words[0];
      all.words[1] |= one.words[1];
    }
    return all;
  }
  // The first block from `block` on of which any row sees something, at most `end`.
  int next(int block, int end) const {
    while (masked_ && block < end && !of_tile(block).any()) ++block;
    return block;
  }

 private:
  // Positions of a block where entries stand.
  SeenBits entries(int block) const {
    if (t_.entry_stride <= 1) return {{~std::uint64_t{0}, ~std::uint64_t{0}}};
    SeenBits there;
    const auto stride = static_cast<std::int64_t>(t_.entry_stride);
    const std::int64_t start = start_of(block);
    for (std::int64_t p = (start / stride + 1) * stride - 1; p < start + kAttentionBlock; p += stride)
      there.words[(p - start) / 64] |= std::uint64_t{1} << ((p - start) % 64);
    return there;
  }
  SeenBits of_row(const QueryRow& row, int block, SeenBits seen) const {
    const std::uint64_t* words = t_.selection.words ? t_.selection.of(row.row, t_.span.kv_head) : nullptr;
    for (int w = 0; w < kAttentionBlock / 64; ++w) {
      const std::int64_t start = start_of(block) + 64 * w;
      seen.words[w] &= from(row.first - start) & ~from(row.last + std::int64_t{1} - start);
      if (words && seen.words[w] != 0) seen.words[w] &= words[start / 64];
    }
    return seen;
  }
  static std::uint64_t from(std::int64_t bit) {  // the bits from this one on
    return bit <= 0 ? ~std::uint64_t{0} : bit >= 64 ? 0 : ~std::uint64_t{0} << bit;
  }

  const AttentionTask& t_;
  bool masked_;
};

}  // namespace espalier::kernels::ESPALIER_ISA
