// panel_block.h: the parts of a panel's block, a column at a time (layouts: kernels/matmul/packed_matrix.h).
//
// Pure; a writer has room for a whole block. Threads: any.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "kernels/matmul/packed_matrix.h"
#include "tensor/quant_blocks.h"

namespace espalier::panel_block {

// Four codes of one column that follow one another along K, the first in the lowest byte: what a panel holds of a
// column at a time, so that a block is packed by a few operations on whole words.
using Word = std::uint32_t;

inline Word load_word(const void* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  return word;
}
constexpr Word each_byte(Word bits) {
  return bits * 0x01010101;
}
// Bits 4 j to 4 j + 3 of `bits`, one in each byte.
constexpr Word spread_bits(Word bits, int j) {
  return ((bits >> (4 * j) & 15) * 0x00204081) & each_byte(1);
}

// One block of one column, spelled out: what every quantised format has in common.
struct Spelled {
  StoredF16 d{}, m{};
  std::uint8_t scales[16];  // per sub-block (signed formats: as int8)
  std::uint8_t mins[16];
  Word codes[64];  // unsigned, zero point not taken off
};

// Writes the parts of a panel block, one column at a time.
class BlockWriter {
 public:
  BlockWriter(std::uint8_t* block, int column) : at_(block), n_(column) {}

  void half(StoredF16 value) {
    std::memcpy(at_ + 2 * n_, &value, 2);
    at_ += 32;
  }
  void byte(std::uint8_t value) {
    at_[n_] = value;
    at_ += 16;
  }
  void number(float value) {
    std::memcpy(at_ + 4 * n_, &value, 4);
    at_ += 64;
  }
  void skip(int count) { at_ += count; }
  void bytes(const Word* codes) {  // [8][16][4]
    for (int j = 0; j < 8; ++j) put(codes[j]);
  }
  void nibbles(const Word* codes) {  // the low four bits of 32 codes
    for (int j = 0; j < 4; ++j) put((codes[j] & each_byte(15)) | (codes[j + 4] & each_byte(15)) << 4);
  }
  void one_bit(const Word* codes, int bit) {
    Word word = 0;
    for (int j = 0; j < 8; ++j) word |= (codes[j] >> bit & each_byte(1)) << j;
    put(word);
  }
  void two_bits(const Word* codes, int bit) {
    for (int half = 0; half < 2; ++half) {
      Word word = 0;
      for (int j = 0; j < 4; ++j) word |= (codes[4 * half + j] >> bit & each_byte(3)) << (2 * j);
      put(word);
    }
  }

 private:
  void put(Word word) {
    std::memcpy(at_ + 4 * n_, &word, 4);
    at_ += 64;
  }
  std::uint8_t* at_;
  int n_;
};

using PanelRows = std::span<const std::byte>[kPanelColumns];

}  // namespace espalier::panel_block
