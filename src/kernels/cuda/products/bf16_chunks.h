// bf16_chunks.h: how products of bf16 by tensor cores read panels and rows: 32 values of K at a time.
//
// In shared memory a chunk of a panel is [16 pairs of k][16 columns] words, a chunk of a row 64 bytes; pieces of 16 bytes change
// places within their 64, so that what a warp loads together lies in different banks. A step of a tensor core takes 16 values
// of K that follow one another, whatever the shape of a kernel.
// Threads: all of a warp multiply together. Fails: never.
#pragma once

#include "kernels/cuda/products/multiply_work.h"
#include "kernels/cuda/simt/async_copy.h"
#include "kernels/cuda/simt/matrices.h"

namespace espalier::cuda::bf16_chunks {

inline constexpr int kValues = 32, kPairs = 16, kPanelBytes = kPairs * 64, kRowBytes = kValues * 2;
inline constexpr int kGroup = 1024;  // values of K that are summed up from zero

// What there is of K.
struct Length {
  int chunks, pairs;  // pairs: of a panel
  ESPALIER_ON_DEVICE explicit Length(const MatmulTask& t)
      : chunks(static_cast<int>((t.k + kValues - 1) / kValues)), pairs(static_cast<int>((t.k + 1) / 2)) {}
  ESPALIER_ON_DEVICE int groups() const { return (chunks + kGroup / kValues - 1) / (kGroup / kValues); }
};

// Where piece `piece` (16 bytes, of 64) of a panel's chunk goes: those of every other two pairs are half a pair further.
ESPALIER_ON_DEVICE inline int place_of(int piece) {
  return (piece ^ (piece >> 2 & 2)) * 16;
}
// Where piece `piece` (of 4) of row `row` of some goes.
ESPALIER_ON_DEVICE inline int row_place_of(int row, int piece) {
  return row * kRowBytes + (piece ^ (row >> 1 & 3)) * 16;
}

// A chunk of a panel, and of eight rows, as two steps of a tensor core take them.
struct PanelChunk {
  unsigned word[2][4];
  ESPALIER_ON_DEVICE explicit PanelChunk(const std::uint8_t* chunk) {
    const int g = simt::thread() >> 2 & 7, t = simt::thread() & 3;
    const std::uint8_t* const at = chunk + t * 64 + (8 * g ^ (t & 2) << 4);
    ESPALIER_UNROLL(2)
    for (int step = 0; step < 2; ++step) {
      const Two low = *reinterpret_cast<const Two*>(at + 8 * step * 64),
                high = *reinterpret_cast<const Two*>(at + (8 * step + 4) * 64);
      word[step][0] = low.a;
      word[step][1] = low.b;
      word[step][2] = high.a;
      word[step][3] = high.b;
    }
  }

 private:
  using Two = kernels::fragments::Simd::B;
};
// The same of rows: words t and t + 4 of each step.
struct RowChunk {
  unsigned word[4];
  ESPALIER_ON_DEVICE static RowChunk of(const std::uint8_t* rows) {
    const int lane = simt::thread() & 31;
    RowChunk out;
    simt::load_matrices(out.word, rows + row_place_of(lane & 7, lane >> 3));
    return out;
  }
};
// sums: columns 2 g, 2 g + 1 in turns of two with rows 2 t, 2 t + 1.
ESPALIER_ON_DEVICE inline void add(float (&sums)[4], const PanelChunk& panel, const RowChunk& rows) {
  ESPALIER_UNROLL(2)
  for (int step = 0; step < 2; ++step) {
    const unsigned of_rows[2] = {rows.word[2 * step], rows.word[2 * step + 1]};
    simt::mma_bf16(sums, panel.word[step], of_rows);
  }
}

}  // namespace espalier::cuda::bf16_chunks
