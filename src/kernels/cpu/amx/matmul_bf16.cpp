// bf16 weights x bf16 activations in tiles, up to 32 rows by 2 panels at a time: a panel's blocks are B tiles as they
// lie.
//
// An element's sum over K goes in blocks of 32, in ascending order: within a block those over the even and over the odd
// k are made apart and then added to it, as the instruction does. One row is computed as 512 are (promise 1).
// K is cut into pieces whose weights stay in the first-level cache while all rows pass; between pieces the sums of
// several tiles wait in memory, those of one stay in registers.
#if defined(__x86_64__)
#define ESPALIER_ISA amx
#include "kernels/cpu/amx/simd.h"

#include "kernels/cpu/amx/tiles.h"
#include "kernels/cpu/generic/tile.h"

namespace espalier::kernels::amx {
namespace {

constexpr int kPieceBlocks = 16;  // of 32 values of K: 16 KiB of a panel
constexpr int kTileRows = 32;     // computed together: two tiles
constexpr int kPassRows = 256;    // whose sums wait in memory at most

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
    const int blocks = static_cast<int>((t.k + kBf16Block - 1) / kBf16Block);
    int shaped = 0;
    for (int first = 0; first < blocks; first += kPieceBlocks) {
      const int left = blocks - first;
      const Piece piece{first, left < kPieceBlocks ? left : kPieceBlocks, left <= kPieceBlocks};
      for (int tile = 0; tile < tiles_; ++tile) {
        const int left_rows = rows_ - tile * kTileRows, rows = left_rows < kTileRows ? left_rows : kTileRows;
        if (rows != shaped) shape_tiles(rows);  // this clears all tiles: the sums of several wait in memory
        shaped = rows;
        rows > 16 ? add<2>(tile, piece) : add<1>(tile, piece);
        if (tiles_ > 1) call_in(piece, tile);
      }
    }
    for (int r = 0; r < rows_; ++r)
      for (int p = 0; p < kPanels; ++p)
        finish_row(t, panel_ + p, row_ + r, Simd::load(sums_[r / kTileRows][r / 16 % 2][p][r % 16]));
  }

 private:
  struct Piece {
    int first, count;  // blocks
    bool last;
  };

  const Block* block(int panel, int index) const {
    return reinterpret_cast<const Block*>(t.panels + static_cast<std::size_t>(panel) * t.panel_bytes) + index;
  }

  template <int kRowTiles>
  void add(int tile, const Piece& piece) {
    TileSums& sums = sums_[tile];
    if (piece.first == 0)
      each<kRowTiles, kPanels>([](auto r, auto p) { clear_tile<2 * r + p>(); });
    else if (tiles_ > 1)
      each<kRowTiles, kPanels>([&](auto r, auto p) { load_tile<2 * r + p>(sums[r][p], 64); });
    multiply<kRowTiles>(TaskRows{t}.at<std::uint8_t>(row_ + tile * kTileRows) + 64 * piece.first, piece);
    if (tiles_ > 1 || piece.last)
      each<kRowTiles, kPanels>([&](auto r, auto p) { store_tile<2 * r + p>(sums[r][p], 64); });
  }

  template <int kRowTiles>
  void multiply(const std::uint8_t* x, const Piece& piece) {
    const std::size_t stride = t.x_stride;
    const std::uint8_t* second = x + 16 * stride;
    const Block* w[2] = {block(panel_, piece.first), block(panel_ + kPanels - 1, piece.first)};
    for (int b = 0; b < piece.count; ++b) {
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
  void call_in(const Piece& piece, int tile) const {
    for (int p = 0; p < kPanels; ++p) {
      const Block* next = piece.last ? block(panel_ + kPanels + p, 0) : block(panel_ + p, piece.first + kPieceBlocks);
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(next);
      constexpr int kLines = kPieceBlocks * static_cast<int>(sizeof(Block)) / 64;
      for (int line = kLines * tile / tiles_; line < kLines * (tile + 1) / tiles_; ++line)
        __builtin_prefetch(bytes + 64 * line, 0, 2);
    }
  }

  const MatmulTask& t;
  int panel_, row_, rows_, tiles_;
  alignas(64) TileSums sums_[kPassRows / kTileRows];
};

void matmul_bf16(const MatmulTask& t) {
  for (int row = t.row_begin; row < t.row_end; row += kPassRows) {
    const int rows = t.row_end - row < kPassRows ? t.row_end - row : kPassRows;
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
