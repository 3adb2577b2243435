// bf16 x bf16 in tiles: 2 x 2 of them at a time, sums held in tile registers over all of K.
//
// One row is computed as 512 are, since these products round otherwise than those of AVX-512 (promise 1): sums over
// the even and the odd k of a block of 32 are made apart and then added.
#if defined(__x86_64__)
#define ESPALIER_ISA amx
#include "kernels/cpu/amx/simd.h"
#include "kernels/cpu/amx/tiles.h"
#include "kernels/cpu/generic/matmul.h"

namespace espalier::kernels::amx {
namespace {

constexpr int kBlockBytes = 1024;  // of a panel: 32 values of 16 columns

struct Operands {
  const std::uint8_t *x[2], *w[2];
  std::size_t x_stride;
};

// C tiles 0..3 = [row tile][panel], A tiles 4 and 5, B tiles 6 and 7.
template <int kRowTiles, int kPanels>
void multiply(const Operands& o, std::int64_t blocks) {
  _tile_zero(0);
  if constexpr (kPanels > 1) _tile_zero(1);
  if constexpr (kRowTiles > 1) _tile_zero(2);
  if constexpr (kRowTiles > 1 && kPanels > 1) _tile_zero(3);
  for (std::int64_t b = 0; b < blocks; ++b) {
    _tile_loadd(4, o.x[0] + 64 * b, o.x_stride);
    _tile_loadd(6, o.w[0] + kBlockBytes * b, 64);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kPanels > 1) {
      _tile_loadd(7, o.w[1] + kBlockBytes * b, 64);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (kRowTiles > 1) {
      _tile_loadd(5, o.x[1] + 64 * b, o.x_stride);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (kPanels > 1) _tile_dpbf16ps(3, 5, 7);
    }
  }
}

using Sums = float[16][16];

void finish_tile(const MatmulTask& t, int panel, int row, int rows, const Sums& sums) {
  for (int r = 0; r < rows; ++r) finish_row(t, panel, row + r, Simd::load(sums[r]));
}

template <int kRowTiles, int kPanels>
void tiles(const MatmulTask& t, int panel, int row, int rows) {
  Operands o{};
  o.x_stride = t.x_stride;
  for (int i = 0; i < kRowTiles; ++i) o.x[i] = TaskRows{t}.at<std::uint8_t>(row + 16 * i);
  for (int i = 0; i < kPanels; ++i) o.w[i] = t.panels + static_cast<std::size_t>(panel + i) * t.panel_bytes;
  multiply<kRowTiles, kPanels>(o, (t.k + kBf16Block - 1) / kBf16Block);
  const int first = rows < 16 ? rows : 16;
  alignas(64) Sums sums;
  _tile_stored(0, sums, 64);
  finish_tile(t, panel, row, first, sums);
  if constexpr (kPanels > 1) {
    _tile_stored(1, sums, 64);
    finish_tile(t, panel + 1, row, first, sums);
  }
  if constexpr (kRowTiles > 1) {
    _tile_stored(2, sums, 64);
    finish_tile(t, panel, row + 16, rows - 16, sums);
    if constexpr (kPanels > 1) {
      _tile_stored(3, sums, 64);
      finish_tile(t, panel + 1, row + 16, rows - 16, sums);
    }
  }
}

// Up to 32 rows against all panels of the task, or up to so many that their activations stay in the nearest caches.
void all_panels(const MatmulTask& t, int row, int rows) {
  int panel = t.panel_begin;
  for (; panel + 2 <= t.panel_end; panel += 2)
    rows > 16 ? tiles<2, 2>(t, panel, row, rows) : tiles<1, 2>(t, panel, row, rows);
  if (panel < t.panel_end) rows > 16 ? tiles<2, 1>(t, panel, row, rows) : tiles<1, 1>(t, panel, row, rows);
}

void shape(int rows) {
  const int first = rows < 16 ? rows : 16, second = rows > 16 ? rows - 16 : 1;
  TileShapes shapes;
  for (int panel = 0; panel < 2; ++panel) {
    shapes.set(panel, first, 64);
    shapes.set(2 + panel, second, 64);
    shapes.set(6 + panel, 16, 64);
  }
  shapes.set(4, first, 64);
  shapes.set(5, second, 64);
  shapes.load();
}

void matmul_bf16(const MatmulTask& t) {
  for (int row = t.row_begin; row < t.row_end; row += 32) {
    const int rows = t.row_end - row < 32 ? t.row_end - row : 32;
    if (row == t.row_begin || rows < 32) shape(rows);
    all_panels(t, row, rows);
  }
  _tile_release();
}

double peak_bf16(std::int64_t rounds) {
  shape(32);
  for (std::int64_t round = 0; round < rounds; ++round) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
  return 2.0 * 4 * 16 * 16 * 32 * static_cast<double>(rounds);
}

}  // namespace

void fill_bf16(CpuKernels& table) {
  table.matmul_bf16_bf16 = matmul_bf16;
  table.peak_bf16 = peak_bf16;
}

}  // namespace espalier::kernels::amx
#endif
