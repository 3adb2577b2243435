// latent_choice.h: where a row sees a choice of positions (Selection), those that it sees, in order, stand for its positions: the first
// 128 of them are its first block, and so on. A tile has one row then, whose facts are told by these ranks.
//
// Threads: all of a block together. Fails: never.
#pragma once

#include "kernels/cuda/attention/attention_tiles.h"
#include "kernels/cuda/attention/latent/latent_room.h"
#include "kernels/cuda/block_scan.h"

namespace espalier::cuda::latent {

// In shared memory.
struct ChoiceFacts {
  QueryRow row;    // as the task has it
  int word_end;    // of its selection
  int word, rank;  // the words before `word` have `rank` positions that it sees
  int of_warps[kWarps];
  int positions[kAttentionBlock];  // of a block, -1 where there are no more
};

static_assert(sizeof(ChoiceFacts) <= kChoiceBytes);

// The positions of a tile's row.
class Choice {
 public:
  ESPALIER_ON_DEVICE Choice(const AttendTask& task, int at) : t_(task), at_(at) {}
  ESPALIER_ON_DEVICE bool is_there() const { return t_.selection.words != nullptr; }

  // Tells the tile's facts by ranks. Order: behind Tile::find(), whose piece it is.
  ESPALIER_ON_DEVICE void begin(int piece) const {
    ChoiceFacts& c = facts();
    if (simt::thread() == 0) {
      c.row = Tile::facts().rows[0];
      c.word = (c.row.first < 0 ? 0 : c.row.first) / 64;
      c.word_end = c.row.last < 0 ? 0 : c.row.last / 64 + 1;
      c.rank = 0;
    }
    simt::meet();
    int mine = 0;
    for (int word = c.word + simt::thread(); word < c.word_end; word += simt::threads())
      mine += simt::count_bits(bits(word));
    const BlockScan scan(mine, c.of_warps);
    if (simt::thread() == 0) tell(scan.all, piece);
    simt::meet();
  }
  // The positions of a block; they hold until it is called again. Blocks in ascending order.
  ESPALIER_ON_DEVICE const int* list(int block) const {
    ChoiceFacts& c = facts();
    const int begin = block * kAttentionBlock, end = begin + kAttentionBlock;
    for (int i = simt::thread(); i < kAttentionBlock; i += simt::threads()) c.positions[i] = -1;
    ESPALIER_UNROLL(1)
    for (bool more = true; more;) {
      const int first = c.word, word = first + simt::thread(), last = first + simt::threads();
      const std::uint64_t mine = word < c.word_end ? bits(word) : 0;
      const int count = simt::count_bits(mine);
      const int so_far = c.rank;
      const BlockScan scan(count, c.of_warps);
      const int rank = so_far + scan.before, upto = so_far + scan.all;
      put(mine, word, rank, begin, end);
      more = upto < end && last < c.word_end;
      // Where the next block begins is one thread's, or behind all of these words.
      if (upto <= end) {
        if (simt::thread() == 0) {
          c.word = last;
          c.rank = upto;
        }
      } else if (rank <= end && end < rank + count) {
        c.word = word;
        c.rank = rank;
      }
      simt::meet();
    }
    return c.positions;
  }

 private:
  ESPALIER_ON_DEVICE ChoiceFacts& facts() const {
    return *reinterpret_cast<ChoiceFacts*>(simt::shared<std::uint8_t>() + at_);
  }
  ESPALIER_ON_DEVICE std::uint64_t bits(int word) const {
    return attention::seen_from(t_, facts().row, Tile::facts().kv_head, std::int64_t{word} * 64);
  }
  // By one thread.
  ESPALIER_ON_DEVICE void tell(int count, int piece) const {
    TileFacts& f = Tile::facts();
    f.rows[0].first = f.all_from = f.any_from = 0;
    f.rows[0].last = f.all_to = f.any_to = count - 1;
    const int blocks = (count + kAttentionBlock - 1) / kAttentionBlock, each = t_.pieces > 1 ? t_.blocks_each : blocks,
              end = (piece + 1) * each;
    f.block_begin = piece * each;
    f.block_end = end < blocks ? end : blocks;
  }
  // Those of a word whose ranks are begin .. end, the first one having `rank`.
  ESPALIER_ON_DEVICE void put(std::uint64_t bits, int word, int rank, int begin, int end) const {
    ESPALIER_UNROLL(1)
    for (; bits != 0 && rank < end; bits &= bits - 1, ++rank)
      if (rank >= begin) facts().positions[rank - begin] = 64 * word + simt::lowest_bit(bits);
  }

  const AttendTask& t_;
  const int at_;
};

}  // namespace espalier::cuda::latent
