// Weights of eight-bit floats x bf16 activations: codes become bf16 exactly, by tables, and are multiplied by the dot
// product of pairs; a scale for each 32 values. Compiled with -mavx512bf16 -mavx512vbmi.
#if defined(__x86_64__)
#define ESPALIER_ISA avx512
#include "kernels/cpu/avx512/simd.h"
#include "kernels/cpu/generic/matmul.h"

namespace espalier::kernels::avx512 {
namespace {

// The two bytes of each magnitude as bf16.
struct MagnitudeTable {
  alignas(64) std::uint8_t high[128], low[128];
  static constexpr MagnitudeTable make() {
    MagnitudeTable out{};
    for (int m = 0; m < 128; ++m) {
      const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, f8_e4m3_to_float(static_cast<std::uint8_t>(m)));
      out.high[m] = static_cast<std::uint8_t>(bits >> 24);
      out.low[m] = static_cast<std::uint8_t>(bits >> 16);
    }
    return out;
  }
};
constexpr MagnitudeTable kMagnitudes = MagnitudeTable::make();

// Sixteen columns by four values of K as bf16, in an order of their own: of the first vector's four lanes of 128 bits
// each has two columns, each of them its first pair and its second; the other two columns are in the second vector.
struct Pairs {
  __m512i first, second;
};

struct Decoder {
  __m512i high[2], low[2];
  Decoder() {
    for (int i = 0; i < 2; ++i) {
      high[i] = _mm512_load_si512(kMagnitudes.high + 64 * i);
      low[i] = _mm512_load_si512(kMagnitudes.low + 64 * i);
    }
  }
  [[gnu::always_inline]] Pairs operator()(const std::uint8_t* codes) const {
    const __m512i q = _mm512_loadu_si512(codes);
    const __m512i lows = _mm512_permutex2var_epi8(low[0], q, low[1]);
    constexpr int kFirstOrBothOthers = 0xf8;
    const __m512i highs = _mm512_ternarylogic_epi32(_mm512_permutex2var_epi8(high[0], q, high[1]), q,
                                                    _mm512_set1_epi8(static_cast<char>(0x80)), kFirstOrBothOthers);
    return {_mm512_unpacklo_epi8(lows, highs), _mm512_unpackhi_epi8(lows, highs)};
  }
};

// Panels whose codes were taken apart: 32 values of K are scale f32[16] | Pairs [8].
constexpr int kTakenApart = 64 + 8 * 128;

template <class Format, bool kApart = false>
struct Float8Tile : WithoutRest {
  static constexpr int kMaxRows = 6, kRowsTogether = 1;
  static constexpr int panels(int) { return 1; }  // a single stream (integer_tile.h)
  static constexpr int kBlock = kApart ? 32 : Format::kBlock, kBytes = kApart ? kTakenApart : Format::kBytes;
  static constexpr std::int64_t offset(std::int64_t k) { return k / kBlock * kBytes; }
  using Unpacked = std::conditional_t<kApart, void, Float8Tile<Format, true>>;

  template <int kRows, int kPanels>
  [[gnu::always_inline]] static void add(Tile<kRows, kPanels>& tile, const MatmulTask& t, int row,
                                         const PanelPart<kPanels>& part) {
    static_assert(kPanels == 1);
    const std::uint16_t* x[kRows];
    for (int r = 0; r < kRows; ++r) x[r] = TaskRows{t}.at<std::uint16_t>(row + r) + part.begin;
    const std::uint8_t* w = part.at[0];
    const Decoder decode;
    CallAhead<kPanels> ahead(part.coming, (part.end - part.begin) / 8);
    for (std::int64_t k = part.begin; k < part.end; k += kBlock, w += kBytes) {
      const __m512 scale = _mm512_loadu_ps(w);
      for (int sub = 0; sub < kBlock / 32; ++sub) {
        __m512 first[kRows], second[kRows];
        each<kRows>([&](auto r) { first[r] = second[r] = _mm512_setzero_ps(); });
#pragma GCC unroll 8
        for (int step = 0; step < 8; ++step) {
          if (step % 2 == 0) ahead.step();
          const Pairs pairs = at(w + 64, 8 * sub + step, decode);
          each<kRows>([&](auto r) {
            std::int64_t four;
            __builtin_memcpy(&four, x[r] + 4 * step, 8);
            const auto values = reinterpret_cast<__m512bh>(_mm512_set1_epi64(four));
            first[r] = _mm512_dpbf16_ps(first[r], reinterpret_cast<__m512bh>(pairs.first), values);
            second[r] = _mm512_dpbf16_ps(second[r], reinterpret_cast<__m512bh>(pairs.second), values);
          });
        }
        each<kRows>([&](auto r) {
          const __m512 evens = _mm512_shuffle_ps(first[r], second[r], _MM_SHUFFLE(2, 0, 2, 0)),
                       odds = _mm512_shuffle_ps(first[r], second[r], _MM_SHUFFLE(3, 1, 3, 1));
          tile.acc[r][0].v = _mm512_fmadd_ps(scale, _mm512_add_ps(evens, odds), tile.acc[r][0].v);
          x[r] += 32;
        });
      }
    }
  }

  static void unpack(const std::uint8_t* panel, std::int64_t begin, std::int64_t end, std::uint8_t* out) {
    const Decoder decode;
    for (std::int64_t k = begin; k < end; k += 32, out += kTakenApart) {
      const std::uint8_t* block = panel + offset(k);
      __builtin_memcpy(out, block, 64);
      for (int step = 0; step < 8; ++step) {
        const Pairs pairs = decode(block + 64 + 64 * (k % kBlock / 4 + step));
        _mm512_storeu_si512(out + 64 + 128 * step, pairs.first);
        _mm512_storeu_si512(out + 128 + 128 * step, pairs.second);
      }
    }
  }

 private:
  [[gnu::always_inline]] static Pairs at(const std::uint8_t* codes, int step, const Decoder& decode) {
    if constexpr (kApart)
      return {_mm512_loadu_si512(codes + 128 * step), _mm512_loadu_si512(codes + 64 + 128 * step)};
    else
      return decode(codes + 64 * step);
  }
};

MatmulKernel matmul_float8(DType type) {
  return type == DType::f8_32 ? matmul<Float8Tile<Float8<DType::f8_32, 32>>>
                              : matmul<Float8Tile<Float8<DType::f8_128, 128>>>;
}

}  // namespace

void fill_float8(CpuKernels& table) {
  table.matmul_float8_bf16 = matmul_float8;
}

}  // namespace espalier::kernels::avx512
#endif
