// bf16 weights x bf16 activations in tiles, up to 32 rows by 2 panels at a time: a panel's blocks are B tiles as they
// lie.
//
// An element's sum over K goes in blocks of 32, in ascending order: within a block those over the even and over the odd
// k are made apart and then added to it, as the instruction does. One row is computed as 512 are (promise 1).
//
// K is cut into pieces whose weights stay in the first-level cache while all rows pass; between pieces the sums of
// several tiles wait in memory, those of one stay in registers. Pieces are short, because rows and sums pass through the
// same cache (Sapphire Rapids, 48 KiB, products alone: 8 blocks at 3.2 TFLOP/s, 16 at 2.4).
#if defined(__x86_64__)
#define ESPALIER_ISA amx
#include "kernels/cpu/amx/simd.h"

#include "kernels/cpu/amx/tiles.h"
#include "kernels/cpu/generic/tile.h"

namespace espalier::kernels::amx {
namespace {

constexpr int kPieceBlocks = 9;  // of 32 values of K, at most: 9 KiB of a panel
constexpr int kTileRows = 32;    // computed together: two tiles
constexpr int kPassRows = 256;   // whose sums wait in memory at most

using Block = std::uint16_t[16][32];   // of a panel, and a B tile: [k / 2][column][k % 2]
using TileSums = float[2][2][16][16];  // [16 rows][panel][row][column]

// C tiles 0..3 = [16 rows][panel], A tiles 4 and 5, B tiles 6 and 7.
void shape_tiles(int rows) {
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

// kPanels panels against up to kPassRows rows.
template <int kPanels>
class PanelProducts {
 public:
  PanelProducts(const MatmulTask& task, int panel, int row, int rows)
      : t(task), panel_(panel), row_(row), rows_(rows), tiles_((rows + kTileRows - 1) / kTileRows) {}

  void run() {
    const int blocks = static_cast<int>((t.k + kBf16Block - 1) / kBf16Block),
              pieces = (blocks + kPieceBlocks - 1) / kPieceBlocks;
    for (int i = 0; i < pieces; ++i) {
      const int first = blocks * i / pieces;
      piece_ = {first, blocks * (i + 1) / pieces - first, i + 1 == pieces};
      for (int tile = 0; tile < tiles_; ++tile) rows_ > 16 ? add<2>(tile) : add<1>(tile);
    }
    for (int row = 0; row < rows_; ++row) {
      const int tile = row / kTileRows, r = row - tile_begin(tile);
      for (int p = 0; p < kPanels; ++p)
        finish_row(t, panel_ + p, row_ + row, Simd::load(sums_[tile][r / 16][p][r % 16]));
    }
  }

 private:
  struct Piece {
    int first, count;  // blocks
    bool last;
  };

  const Block* block(int panel, int index) const {
    return reinterpret_cast<const Block*>(t.panels + static_cast<std::size_t>(panel) * t.panel_bytes) + index;
  }
  // The last tile of several is whole too: it begins among the rows of the one before.
  int tile_begin(int tile) const {
    return tile > 0 && (tile + 1) * kTileRows > rows_ ? rows_ - kTileRows : tile * kTileRows;
  }

  template <int kRowTiles>
  void add(int tile) {
    TileSums& sums = sums_[tile];
    if (piece_.first == 0)
      each<kRowTiles, kPanels>([](auto r, auto p) { clear_tile<2 * r + p>(); });
    else if (tiles_ > 1)
      each<kRowTiles, kPanels>([&](auto r, auto p) { load_tile<2 * r + p>(sums[r][p], 64); });
    multiply<kRowTiles>(TaskRows{t}.at<std::uint8_t>(row_ + tile_begin(tile)) + 64 * piece_.first);
    if (tiles_ > 1 || piece_.last)
      each<kRowTiles, kPanels>([&](auto r, auto p) { store_tile<2 * r + p>(sums[r][p], 64); });
    if (tiles_ > 1) call_in(tile);
  }

  template <int kRowTiles>
  void multiply(const std::uint8_t* x) {
    const std::size_t stride = t.x_stride;
    const std::uint8_t* second = x + 16 * stride;
    const Block* w[2] = {block(panel_, piece_.first), block(panel_ + kPanels - 1, piece_.first)};
    for (int b = 0; b < piece_.count; ++b) {
      load_tile<4>(x + 64 * b, stride);
      load_tile<6>(w[0] + b, 64);
      multiply_bf16<0, 4, 6>();
      if constexpr (kPanels > 1) {
        load_tile<7>(w[1] + b, 64);
        multiply_bf16<1, 4, 7>();
      }
      if constexpr (kRowTiles > 1) {
        load_tile<5>(second + 64 * b, stride);
        multiply_bf16<2, 5, 6>();
        if constexpr (kPanels > 1) multiply_bf16<3, 5, 7>();
      }
    }
  }

  // Asks memory for this tile's share of the weights of the next piece: they are read once, in bursts too short for the
  // processor to foresee.
  void call_in(int tile) const {
    for (int p = 0; p < kPanels; ++p) {
      const Block* next = piece_.last ? block(panel_ + kPanels + p, 0) : block(panel_ + p, piece_.first + piece_.count);
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(next);
      constexpr int kLines = kPieceBlocks * static_cast<int>(sizeof(Block)) / 64;
      for (int line = kLines * tile / tiles_; line < kLines * (tile + 1) / tiles_; ++line)
        __builtin_prefetch(bytes + 64 * line, 0, 2);
    }
  }

  const MatmulTask& t;
  int panel_, row_, rows_, tiles_;
  Piece piece_{};
  alignas(64) TileSums sums_[kPassRows / kTileRows];
};

void matmul_bf16(const MatmulTask& t) {
  for (int row = t.row_begin; row < t.row_end; row += kPassRows) {
    const int rows = t.row_end - row < kPassRows ? t.row_end - row : kPassRows;
    shape_tiles(rows < kTileRows ? rows : kTileRows);
    int panel = t.panel_begin;
    for (; panel + 2 <= t.panel_end; panel += 2) PanelProducts<2>(t, panel, row, rows).run();
    if (panel < t.panel_end) PanelProducts<1>(t, panel, row, rows).run();
  }
  release_tiles();
}

double peak_bf16(std::int64_t rounds) {
  shape_tiles(kTileRows);
  for (std::int64_t round = 0; round < rounds; ++round) {
    multiply_bf16<0, 4, 6>();
    multiply_bf16<1, 4, 7>();
    multiply_bf16<2, 5, 6>();
    multiply_bf16<3, 5, 7>();
  }
  release_tiles();
  return 2.0 * 4 * 16 * 16 * 32 * static_cast<double>(rounds);
}

}  // namespace

void fill_bf16(CpuKernels& table) {
  table.matmul_bf16_bf16 = matmul_bf16;
  table.peak_bf16 = peak_bf16;
}

}  // namespace espalier::kernels::amx
#endif
