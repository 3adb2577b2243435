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
#include "kernels/cpu/generic/choose_format.h"
#include "kernels/cpu/generic/integer_tile.h"
#include "kernels/cpu/generic/parts.h"
#include "kernels/cpu/generic/tile.h"

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

// Where the rows of a tile lie: bytes, and scales of their blocks.
struct TileRows {
  const std::uint8_t* first;
  std::size_t stride, scales;
  const ActivationScale& scale(int row, int block) const {
    return reinterpret_cast<const ActivationScale*>(first + scales + static_cast<std::size_t>(row) * stride)[block];
  }
};

// Products of a tile's rows with the groups of a piece, one after the other. kDepth of them are under way at a time,
// each with a C tile and a place in memory of its own: a tile is stored long before its sums are read.
// Tiles: C 0 to 3, A 4, B 6.
struct Products {
  static constexpr int kDepth = 4;
  alignas(64) std::int32_t sums[kDepth][16][16];

  template <int kTurn>
  [[gnu::always_inline]] void make(const std::int8_t* codes, const std::uint8_t* x, std::size_t stride) {
    load_tile<6>(codes, 64);
    load_tile<4>(x, stride);
    clear_tile<kTurn>();
    multiply_bytes<kTurn, 4, 6>();
    store_tile<kTurn>(sums[kTurn], 64);
  }
  [[gnu::always_inline]] Simd::F value(int turn, int row) const {
    return {_mm512_cvtepi32_ps(_mm512_load_si512(sums[turn][row]))};
  }
};

// kWide: rows of two bytes, whose low ones come last.
template <class Format, bool kWide>
struct TileMatmul {
  using Piece = DecodedPiece<Format>;
  static constexpr int kGroups = Format::kGroups, kDepth = Products::kDepth;

  // acc + what a product says of one row. The order of operations is that of generic/integer_tile.h's
  // IntegerTile::group.
  template <int kGroup>
  [[gnu::always_inline]] static Simd::F add_scaled(Simd::F acc, Simd::F value, Simd::F scale, const float* minimum,
                                                   const ActivationScale& x) {
    acc = Simd::fma(Simd::mul(scale, Simd::set1(x.scale)), value, acc);
    if constexpr (Format::kHasMinimum) {
      const float weighted = kGroups == 2 ? x.scale * static_cast<float>(x.sum[kGroup]) : x.weighted;
      acc = Simd::fma(Simd::load(minimum), Simd::set1(weighted), acc);
    }
    return acc;
  }

  // sums += the piece's part. 16 rows' sums are held in registers, those of fewer rows in memory.
  template <bool kWhole>
  static void add_piece(const TileRows& x, int rows, const Piece& piece, int first, int count, Sums& sums) {
    Products products;
    const int groups = count * kGroups;
    const std::size_t stride = x.stride;
    const std::int8_t* codes = piece.codes[0][0];
    const std::uint8_t* bytes = x.first + first * 32;
    auto make = [&](int group, auto turn) __attribute__((always_inline)) {
      if (group < groups)
        products.template make<turn>(codes + group * (512 / kGroups), bytes + group * (32 / kGroups), stride);
    };
    Simd::F acc[16];
    if constexpr (kWhole) each<16>([&](auto r) __attribute__((always_inline)) { acc[r] = Simd::load(sums[r]); });
    each<kDepth - 1>([&](auto turn) __attribute__((always_inline)) { make(turn, turn); });
    for (int begin = 0; begin < groups; begin += kDepth)
      each<kDepth>([&](auto turn) __attribute__((always_inline)) {
        const int group = begin + turn;
        if (group >= groups) return;
        make(group + kDepth - 1, std::integral_constant<int, (turn + kDepth - 1) % kDepth>());
        const Simd::F scale = Simd::load(piece.scale[group]);
        const float* minimum = piece.minimum[group];
        const std::uint8_t* at = &reinterpret_cast<const std::uint8_t&>(x.scale(0, first + group / kGroups));
        auto next = [&](Simd::F sum, int r) __attribute__((always_inline)) {
          const auto& of = *reinterpret_cast<const ActivationScale*>(at + static_cast<std::size_t>(r) * stride);
          return add_scaled<turn % kGroups>(sum, products.value(turn, r), scale, minimum, of);
        };
        if constexpr (kWhole)
          each<16>([&](auto r) __attribute__((always_inline)) { acc[r] = next(acc[r], r); });
        else
          for (int r = 0; r < rows; ++r) Simd::store(sums[r], next(Simd::load(sums[r]), r));
      });
    if constexpr (kWhole) each<16>([&](auto r) __attribute__((always_inline)) { Simd::store(sums[r], acc[r]); });
  }

  static void shape(int rows) {
    TileShapes shapes;
    for (int c = 0; c < 4; ++c) shapes.set(c, rows, 64);
    shapes.set(4, rows, 32 / kGroups);
    shapes.set(6, 8 / kGroups, 64);
    shapes.load();
  }

  static void run(const MatmulTask& t) {
    for (int row = t.row_begin; row < t.row_end; row += kPassRows) {
      const int rows = t.row_end - row < kPassRows ? t.row_end - row : kPassRows;
      for (int panel = t.panel_begin; panel < t.panel_end; ++panel) one_panel(t, panel, row, rows);
    }
    release_tiles();
  }

  static void one_panel(const MatmulTask& t, int panel, int row, int rows) {
    const ActivationLayout layout = ActivationLayout::of(t.k);
    const std::uint8_t* w = t.panels + static_cast<std::size_t>(panel) * t.panel_bytes;
    const int blocks = static_cast<int>((t.k + 31) / 32), whole = rows / 16, rest = rows % 16;
    auto rows_from = [&](int r) { return TileRows{TaskRows{t}.at<std::uint8_t>(row + r), t.x_stride, layout.scales}; };
    alignas(64) Piece piece;
    alignas(64) Sums sums[kPassRows / 16];
    for (int r = 0; r < rows; ++r) Simd::store(sums[r / 16][r % 16], Simd::zero());
    for (int first = 0; first < blocks; first += kPieceBlocks) {
      const int count = blocks - first < kPieceBlocks ? blocks - first : kPieceBlocks;
      piece.decode(w, first, count);
      if (whole > 0) shape(16);
      for (int i = 0; i < whole; ++i) add_piece<true>(rows_from(16 * i), 16, piece, first, count, sums[i]);
      if (rest == 0) continue;
      shape(rest);
      add_piece<false>(rows_from(16 * whole), rest, piece, first, count, sums[whole]);
    }
    for (int r = 0; r < rows; ++r) {
      Tile<1, 1> sum{{{Simd::load(sums[r / 16][r % 16])}}};
      if constexpr (kWide) add_low_bytes<Format>(sum, t, panel, row + r);
      finish_row(t, panel, row + r, sum.acc[0][0]);
    }
  }
};

// Tasks of fewer rows are quicker without tiles (measured on Sapphire Rapids).
constexpr int kLeastRows = 32, kLeastWideRows = 16;

template <class Format>
void matmul_int8(const MatmulTask& t) {
  if (t.row_end - t.row_begin < kLeastRows) return avx512::matmul_int8_for(Format::kType)(t);
  TileMatmul<Format, false>::run(t);
}
template <class Format>
void matmul_int16(const MatmulTask& t) {
  if (t.row_end - t.row_begin < kLeastWideRows) return avx512::matmul_int16_for(Format::kType)(t);
  TileMatmul<Format, true>::run(t);
}

double peak_int8(std::int64_t rounds) {
  TileShapes shapes;
  for (int i = 0; i < 8; ++i) shapes.set(i, 16, 64);
  shapes.load();
  for (std::int64_t round = 0; round < rounds; ++round) {
    multiply_bytes<0, 4, 6>();
    multiply_bytes<1, 4, 7>();
    multiply_bytes<2, 5, 6>();
    multiply_bytes<3, 5, 7>();
  }
  release_tiles();
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
