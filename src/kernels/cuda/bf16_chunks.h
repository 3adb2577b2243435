// bf16_chunks.h: how products of bf16 by tensor cores read panels and rows: 32 values of K at a time.
//
// In shared memory a chunk of a panel is [16 pairs of k][16 columns] words, a chunk of a row 64 bytes. Of these, neighbour 4 g + t
// of 32 takes k 8 t to 8 t + 7: of row g with one load, of columns 2 g and 2 g + 1 with four, for which pairs are stored in
// another order: those that are loaded together lie together. Which products meet in which step of a tensor core is so
// the same for every shape of a kernel.
// Threads: all of a warp multiply together. Fails: never.
#pragma once

#include "kernels/cuda/multiply_work.h"
#include "kernels/cuda/simt/async_copy.h"

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

// Where piece `piece` (16 bytes, of 64) of a panel's chunk goes.
ESPALIER_ON_DEVICE inline int place_of(int piece) {
  const int pair = piece >> 2, quarter = piece & 3;
  return ((pair & 3) * 4 + (pair >> 2)) * 64 + quarter * 16;
}

// A chunk of a panel, and of eight rows, as two steps of a tensor core take them.
struct PanelChunk {
  unsigned word[2][4];
  ESPALIER_ON_DEVICE explicit PanelChunk(const std::uint8_t* chunk) {
    const int t = simt::thread() & 3;
    ESPALIER_UNROLL(2)
    for (int step = 0; step < 2; ++step) {
      const auto low = kernels::fragments::Simd::bload(chunk + (8 * step + t) * 64);
      const auto high = kernels::fragments::Simd::bload(chunk + (8 * step + 4 + t) * 64);
      word[step][0] = low.a;
      word[step][1] = low.b;
      word[step][2] = high.a;
      word[step][3] = high.b;
    }
  }
};
// The same of rows.
struct alignas(16) RowChunk {
  unsigned word[2][2];
  ESPALIER_ON_DEVICE static RowChunk of(const std::uint8_t* rows) {
    return *reinterpret_cast<const RowChunk*>(rows + (simt::thread() >> 2 & 7) * kRowBytes + (simt::thread() & 3) * 16);
  }
};
// sums: columns 2 g, 2 g + 1 in turns of two with rows 2 t, 2 t + 1.
ESPALIER_ON_DEVICE inline void add(float (&sums)[4], const PanelChunk& panel, const RowChunk& rows) {
  ESPALIER_UNROLL(2)
  for (int step = 0; step < 2; ++step) simt::mma_bf16(sums, panel.word[step], rows.word[step]);
}

// Stores the sums of 16 columns and eight rows as [row][pitch].
ESPALIER_ON_DEVICE inline void store(float* to, int pitch, const float (&sums)[4]) {
  using Two = kernels::fragments::Simd::F;
  float* const at = to + 2 * (simt::thread() & 3) * pitch + kernels::fragments::Simd::column();
  *reinterpret_cast<Two*>(at) = {sums[0], sums[2]};
  *reinterpret_cast<Two*>(at + pitch) = {sums[1], sums[3]};
}

}  // namespace espalier::cuda::bf16_chunks
