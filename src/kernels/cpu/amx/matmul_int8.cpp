// Quantised weights x int8 activations in tiles: the same bits as AVX-512's, sums of integers being exact.
//
// A scale every 32 (or 16) values of K bounds a product's K, so what a tile sums is scaled and added to float sums
// after each product. A panel is decoded once for all rows of a task, piece by piece of K: to signed bytes in the form
// a B tile has, and float scales; a piece and the float sums it adds to stay in the first-level cache. Few rows do not
// pay for that; AVX-512's own kernels compute them.
#if defined(__x86_64__)
#define ESPALIER_ISA amx
#include "kernels/cpu/amx/simd.h"
#include "kernels/cpu/amx/tiles.h"
#include "kernels/cpu/generic/matmul.h"
#include "kernels/cpu/generic/parts.h"

namespace espalier::kernels {

namespace avx512 {
MatmulKernel matmul_int8_for(DType type);
MatmulKernel matmul_int16_for(DType type);
}  // namespace avx512

namespace amx {
namespace {

constexpr int kPieceBlocks = 16;  // of 32 values of K: 8 KiB of codes
constexpr int kPassRows = 256;    // rows whose float sums are kept at once

using Sums = float[16][16];

template <class Format>
struct DecodedPiece {
  static constexpr int kGroups = Format::kGroups;
  alignas(64) std::int8_t codes[kPieceBlocks][8][64];  // [block][k / 4][column][k % 4]
  alignas(64) float scale[kPieceBlocks * kGroups][16], minimum[kPieceBlocks * kGroups][16];

  // Blocks [first, first + count) of the panel at w.
  void decode(const std::uint8_t* w, int first, int count) {
    const __m512i zero = _mm512_set1_epi8(static_cast<char>(Format::kZeroPoint));
    for (int i = 0; i < count; ++i) {
      const std::uint8_t* block = w + static_cast<std::size_t>((first + i) / Format::kSubs) * Format::kBytes;
      const int s = (first + i) % Format::kSubs;
      each<8>([&](auto j) {
        __m512i code = Format::codes(block, s, j).v;
        if constexpr (Format::kZeroPoint != 0) code = _mm512_sub_epi8(code, zero);
        _mm512_store_si512(codes[i][j], code);
      });
      for (int g = 0; g < kGroups; ++g) {
        Simd::store(scale[i * kGroups + g], Format::scale(block, s, g));
        if constexpr (Format::kHasMinimum) Simd::store(minimum[i * kGroups + g], Format::minimum(block, s, g));
      }
    }
  }
};

// Where the rows of a tile lie, and their blocks' scales.
struct TileRows {
  const std::uint8_t* first;
  std::size_t stride, scales, plane;
  const ActivationScale& scale(int row, int block) const {
    return reinterpret_cast<const ActivationScale*>(first + static_cast<std::size_t>(row) * stride + scales)[block];
  }
};

// C tiles 0 and 1 (high bytes; 2 and 3: low bytes) in turn, A tile 4, B tile 6. Tiles of fewer rows: 5 for A.
template <int kPlanes, class Format>
struct Product {
  static constexpr int kGroups = Format::kGroups, kGroupBytes = 32 / kGroups;
  alignas(64) std::int32_t sums[2][kPlanes][16][16];

  // Of group g of a block: the two products alternate between two sets of registers and memory, so that one is scaled
  // while the next is computed.
  template <int kTurn>
  [[gnu::always_inline]] void make(const TileRows& x, const std::int8_t* codes, std::int64_t at) {
    _tile_loadd(6, codes, 64);
    _tile_loadd(4, x.first + at, x.stride);
    if constexpr (kTurn == 0) {
      _tile_zero(0);
      _tile_dpbssd(0, 4, 6);
      _tile_stored(0, sums[0][0], 64);
    } else {
      _tile_zero(1);
      _tile_dpbssd(1, 4, 6);
      _tile_stored(1, sums[1][0], 64);
    }
    if constexpr (kPlanes == 2) {
      _tile_loadd(5, x.first + x.plane + at, x.stride);
      if constexpr (kTurn == 0) {
        _tile_zero(2);
        _tile_dpbssd(2, 5, 6);
        _tile_stored(2, sums[0][1], 64);
      } else {
        _tile_zero(3);
        _tile_dpbssd(3, 5, 6);
        _tile_stored(3, sums[1][1], 64);
      }
    }
  }
  [[gnu::always_inline]] Simd::F value(int turn, int row) const {
    __m512i sum = _mm512_load_si512(sums[turn][0][row]);
    if constexpr (kPlanes == 2)
      sum = _mm512_add_epi32(_mm512_slli_epi32(sum, 8), _mm512_load_si512(sums[turn][1][row]));
    return {_mm512_cvtepi32_ps(sum)};
  }
};

// The element's order of operations is that of generic/matmul.h's IntegerTile::group.
template <class Format>
[[gnu::always_inline]] inline Simd::F add_scaled(Simd::F acc, Simd::F value, const DecodedPiece<Format>& piece, int at,
                                                 const ActivationScale& x, int group) {
  acc = Simd::fma(Simd::mul(Simd::load(piece.scale[at]), Simd::set1(x.scale)), value, acc);
  if constexpr (Format::kHasMinimum) {
    const float weighted = Format::kGroups == 2 ? x.scale * static_cast<float>(x.sum[group]) : x.weighted;
    acc = Simd::fma(Simd::load(piece.minimum[at]), Simd::set1(weighted), acc);
  }
  return acc;
}

template <class Format, int kPlanes>
struct TileMatmul {
  using Piece = DecodedPiece<Format>;
  static constexpr int kGroups = Format::kGroups, kGroupBytes = 32 / kGroups;

  // sums += the piece's part, for 16 rows, whose sums stay in registers.
  static void whole_tile(const TileRows& x, const Piece& piece, int first, int count, Sums& sums) {
    Product<kPlanes, Format> product;
    Simd::F acc[16];
    each<16>([&](auto r) { acc[r] = Simd::load(sums[r]); });
    auto step = [&](int i, auto g, auto turn) {
      product.template make<turn>(x, piece.codes[i][8 / kGroups * g], (first + i) * 32 + g * kGroupBytes);
      each<16>([&](auto r) {
        acc[r] = add_scaled(acc[r], product.value(turn, r), piece, i * kGroups + g, x.scale(r, first + i), g);
      });
    };
    for (int i = 0; i < count; ++i) each<kGroups>([&](auto g) { step(i, g, g); });
    each<16>([&](auto r) { Simd::store(sums[r], acc[r]); });
  }

  // The same for fewer rows, whose sums stay in memory.
  static void part_tile(const TileRows& x, int rows, const Piece& piece, int first, int count, Sums& sums) {
    Product<kPlanes, Format> product;
    for (int i = 0; i < count; ++i)
      each<kGroups>([&](auto g) {
        product.template make<0>(x, piece.codes[i][8 / kGroups * g], (first + i) * 32 + g * kGroupBytes);
        for (int r = 0; r < rows; ++r)
          Simd::store(sums[r], add_scaled(Simd::load(sums[r]), product.value(0, r), piece, i * kGroups + g,
                                          x.scale(r, first + i), g));
      });
  }

  static void shape(int rows) {
    TileShapes shapes;
    for (int c = 0; c < 4; ++c) shapes.set(c, rows, 64);
    for (int a = 4; a < 6; ++a) shapes.set(a, rows, kGroupBytes);
    shapes.set(6, kGroupBytes / 4, 64);
    shapes.load();
  }

  static void run(const MatmulTask& t) {
    for (int row = t.row_begin; row < t.row_end; row += kPassRows) {
      const int rows = t.row_end - row < kPassRows ? t.row_end - row : kPassRows;
      for (int panel = t.panel_begin; panel < t.panel_end; ++panel) one_panel(t, panel, row, rows);
    }
    _tile_release();
  }

  static void one_panel(const MatmulTask& t, int panel, int row, int rows) {
    const ActivationLayout layout = ActivationLayout::of(t.k, kPlanes);
    const std::uint8_t* w = t.panels + static_cast<std::size_t>(panel) * t.panel_bytes;
    const int blocks = static_cast<int>((t.k + 31) / 32), whole = rows / 16, rest = rows % 16;
    auto rows_from = [&](int r) {
      return TileRows{TaskRows{t}.at<std::uint8_t>(row + r), t.x_stride, layout.scales, layout.plane};
    };
    alignas(64) Piece piece;
    alignas(64) Sums sums[kPassRows / 16];
    for (int r = 0; r < rows; ++r) Simd::store(sums[r / 16][r % 16], Simd::zero());
    for (int first = 0; first < blocks; first += kPieceBlocks) {
      const int count = blocks - first < kPieceBlocks ? blocks - first : kPieceBlocks;
      piece.decode(w, first, count);
      if (whole > 0) shape(16);
      for (int i = 0; i < whole; ++i) whole_tile(rows_from(16 * i), piece, first, count, sums[i]);
      if (rest == 0) continue;
      shape(rest);
      part_tile(rows_from(16 * whole), rest, piece, first, count, sums[whole]);
    }
    for (int r = 0; r < rows; ++r) finish_row(t, panel, row + r, Simd::load(sums[r / 16][r % 16]));
  }
};

constexpr int kLeastRows = 4;

template <class Format>
void matmul_int8(const MatmulTask& t) {
  if (t.row_end - t.row_begin < kLeastRows) return avx512::matmul_int8_for(Format::kType)(t);
  TileMatmul<Format, 1>::run(t);
}
template <class Format>
void matmul_int16(const MatmulTask& t) {
  if (t.row_end - t.row_begin < kLeastRows) return avx512::matmul_int16_for(Format::kType)(t);
  TileMatmul<Format, 2>::run(t);
}

double peak_int8(std::int64_t rounds) {
  TileShapes shapes;
  for (int i = 0; i < 8; ++i) shapes.set(i, 16, 64);
  shapes.load();
  for (std::int64_t round = 0; round < rounds; ++round) {
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 4, 7);
    _tile_dpbssd(2, 5, 6);
    _tile_dpbssd(3, 5, 7);
  }
  _tile_release();
  return 2.0 * 4 * 16 * 16 * 64 * static_cast<double>(rounds);
}

}  // namespace

void fill_int8(CpuKernels& table) {
  table.matmul_int8 = [](DType type) {
    return choose_format(type, []<class Format>() -> MatmulKernel { return matmul_int8<Format>; });
  };
  table.matmul_int16 = [](DType type) {
    return choose_format(type, []<class Format>() -> MatmulKernel { return matmul_int16<Format>; });
  };
  table.peak_int8 = peak_int8;
}

}  // namespace amx
}  // namespace espalier::kernels
#endif
