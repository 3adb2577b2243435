// matmul.h: the micro-kernels and the loop over tiles. A tile is kRows rows by kPanels panels, held in registers over
// all of K.
//
// Per element the order is: K ascending; int8: exact integer sums per group, then one multiply-add per group (and one
// for the minimum); float: one multiply-add per k. The tile's shape changes only what is interleaved.
#pragma once

#include "kernels/cpu/generic/each.h"
#include "kernels/cpu/generic/formats.h"
#include "kernels/cpu/table.h"

namespace espalier::kernels::ESPALIER_ISA {

// Sixteen outputs of one row, with what is added to them, to where they belong.
inline void finish_row(const MatmulTask& t, int panel, int row, Simd::F value) {
  const std::int64_t n0 = static_cast<std::int64_t>(panel) * 16, left = t.outputs - n0;
  const int n = left < 16 ? static_cast<int>(left) : 16;
  float* out = t.out + row * t.out_stride + n0;
  if (t.bias) value = Simd::add(value, Simd::load_n(t.bias + n0, n));
  if (t.accumulate) value = Simd::add(Simd::load_n(out, n), value);
  if (n == 16)
    Simd::store(out, value);
  else
    Simd::store_n(out, value, n);
}

// A row alone waits for memory: asks for what follows in a panel (and behind it, in the next one), further ahead than
// the processor does of itself, which stops at each 4 KiB: +4 to 25 % on Zen 3. More rows wait for the multipliers, and
// float panels come faster without.
template <int kBytes>
[[gnu::always_inline]] inline void ask_ahead(const std::uint8_t* at) {
  constexpr int kAhead = 4096, kLine = 64;
#pragma GCC unroll 16
  for (int i = 0; i < kBytes; i += kLine) __builtin_prefetch(at + kAhead + i);
}

template <int kRows, int kPanels>
struct Tile {
  Simd::F acc[kRows][kPanels];
  void clear() {
    each<kRows, kPanels>([&](auto r, auto p) { acc[r][p] = Simd::zero(); });
  }
  void finish(const MatmulTask& t, int panel, int row) const {
    each<kRows, kPanels>([&](auto r, auto p) { finish_row(t, panel + p, row + r, acc[r][p]); });
  }
};

struct TaskRows {  // the rows of x as bytes
  const MatmulTask& t;
  template <class T>
  const T* at(int row) const {
    return reinterpret_cast<const T*>(static_cast<const std::uint8_t*>(t.x) +
                                      static_cast<std::size_t>(row) * t.x_stride);
  }
};

// How many bytes an activation has, one or two (kernels/activations.h), each with its own dot product.
// A product adds what Format's codes x four activations give to 32-bit sums, or, where codes are small and the
// processor has it, to 16-bit sums of pairs, which then are added to those.
struct OneByte {
  static constexpr int kPlanes = 1, kMaxRows = Simd::kInt8Rows;
  // Codes around 128 are multiplied as signed bytes where that is shorter; no byte of an activation is -128.
  template <class Format>
  static constexpr bool kCentred = Simd::kCentredDot && Format::kZeroPoint == 128;
  struct Sum {
    Simd::I acc;
  };
  struct Pairs {
    Simd::P acc;
  };
  static Sum start(std::int32_t value) { return {Simd::iset1(value)}; }
  template <class Format, int kPanels>
  [[gnu::always_inline]] static inline void dot(Sum (&sums)[kPanels], const Simd::B (&codes)[kPanels],
                                                const std::int8_t* q, std::size_t) {
    const Simd::A a = Simd::aload(q);
    each<kPanels>([&](auto p) { sums[p].acc = dot4<Format>(sums[p].acc, codes[p], a); });
  }
  template <class Format>
  [[gnu::always_inline]] static inline Simd::I dot4(Simd::I sum, Simd::B codes, Simd::A a) {
    if constexpr (kCentred<Format>)
      return Simd::dot4_centred(sum, codes, a);
    else
      return Simd::template dot4<(Format::kMostCode < 128)>(sum, codes, a);
  }
  template <int kPanels>
  [[gnu::always_inline]] static inline void dot(Pairs (&sums)[kPanels], const Simd::B (&codes)[kPanels],
                                                const std::int8_t* q, std::size_t) {
    const Simd::A a = Simd::aload(q);
    each<kPanels>([&](auto p) { sums[p].acc = Simd::dot_pairs(sums[p].acc, codes[p], a); });
  }
  static void add(Sum& sum, const Pairs& pairs) { sum.acc = Simd::add_pairs(sum.acc, pairs.acc); }
  static Simd::F value(const Sum& sum) { return Simd::to_float(sum.acc); }
};

struct TwoBytes {
  static constexpr int kPlanes = 2, kMaxRows = (Simd::kInt8Rows + 1) / 2;
  template <class Format>
  static constexpr bool kCentred = OneByte::kCentred<Format>;
  struct Sum {
    Simd::I high, low;
  };
  struct Pairs {
    Simd::P high, low;
  };
  static Sum start(std::int32_t value) { return {Simd::iset1(0), Simd::iset1(value)}; }
  template <class Format, int kPanels>
  [[gnu::always_inline]] static inline void dot(Sum (&sums)[kPanels], const Simd::B (&codes)[kPanels],
                                                const std::int8_t* q, std::size_t plane) {
    const Simd::A high = Simd::aload(q), low = Simd::aload(q + plane);
    each<kPanels>([&](auto p) {
      sums[p].high = OneByte::dot4<Format>(sums[p].high, codes[p], high);
      sums[p].low = OneByte::dot4<Format>(sums[p].low, codes[p], low);
    });
  }
  template <int kPanels>
  [[gnu::always_inline]] static inline void dot(Pairs (&sums)[kPanels], const Simd::B (&codes)[kPanels],
                                                const std::int8_t* q, std::size_t plane) {
    const Simd::A high = Simd::aload(q), low = Simd::aload(q + plane);
    each<kPanels>([&](auto p) {
      sums[p].high = Simd::dot_pairs(sums[p].high, codes[p], high);
      sums[p].low = Simd::dot_pairs(sums[p].low, codes[p], low);
    });
  }
  static void add(Sum& sum, const Pairs& pairs) {
    sum.high = Simd::add_pairs(sum.high, pairs.high);
    sum.low = Simd::add_pairs(sum.low, pairs.low);
  }
  static Simd::F value(const Sum& sum) { return Simd::to_float(Simd::shift8_add(sum.high, sum.low)); }
};

// Of so many steps, how many may be added up in sixteen bits: each adds two products of a code and a signed byte.
constexpr int pair_run(int steps, int most_code) {
  const int fit = 32767 / (2 * 128 * most_code);
  return fit < steps ? fit : steps;
}

template <class Format, class Width>
struct IntegerTile {
  static constexpr int kMaxRows = Width::kMaxRows, kMaxPanels = Simd::kInt8Panels, kStreams = kMaxPanels;

  template <int kRows>
  struct Rows {
    const std::int8_t* at[kRows];
    std::size_t values, scales, plane;  // where the block's bytes and scale lie in each row; from high to low bytes
    const std::int8_t* q(int r, int j) const { return at[r] + values + 4 * j; }
    const ActivationScale& scale(int r) const { return *reinterpret_cast<const ActivationScale*>(at[r] + scales); }
  };

  template <int kRows, int kPanels>
  static void run(const MatmulTask& t, int panel, int row) {
    Tile<kRows, kPanels> tile;
    tile.clear();
    const ActivationLayout layout = ActivationLayout::of(t.k, Width::kPlanes);
    Rows<kRows> x{{}, 0, layout.scales, layout.plane};
    for (int r = 0; r < kRows; ++r) x.at[r] = TaskRows{t}.at<std::int8_t>(row + r);
    const std::uint8_t* w[kPanels];
    for (int p = 0; p < kPanels; ++p) w[p] = t.panels + static_cast<std::size_t>(panel + p) * t.panel_bytes;
    for (std::int64_t k = 0; k < t.k; k += Format::kBlock) {
      for (int s = 0; s < Format::kSubs; ++s) {
        constexpr int kBytes = Format::kBytes / Format::kSubs;
        if constexpr (kRows == 1 && Simd::kAskAhead)
          each<kPanels>([&](auto p) { ask_ahead<kBytes>(w[p] + s * kBytes); });
        for (int g = 0; g < Format::kGroups; ++g) group<kRows, kPanels>(tile, x, w, s, g);
        x.values += kActivationBlock;
        x.scales += sizeof(ActivationScale);
      }
      for (auto& p : w) p += Format::kBytes;
    }
    tile.finish(t, panel, row);
  }

  template <int kRows, int kPanels>
  [[gnu::always_inline]] static inline void group(Tile<kRows, kPanels>& tile, const Rows<kRows>& x,
                                                  const std::uint8_t* const (&w)[kPanels], int s, int g) {
    constexpr int kSteps = 8 / Format::kGroups;
    constexpr int kRun = Simd::kPairSums ? pair_run(kSteps, Format::kMostCode) : 0;
    std::int32_t sum[kRows];
    typename Width::Sum acc[kRows][kPanels];
    each<kRows>([&](auto r) {
      sum[r] = Format::kGroups == 2 ? x.scale(r).sum[g] : x.scale(r).sum[0] + x.scale(r).sum[1];
      const std::int32_t start = Width::template kCentred<Format> ? 0 : -Format::kZeroPoint * sum[r];
      each<kPanels>([&](auto p) { acc[r][p] = Width::start(start); });
    });
    if constexpr (kRun > 0) {
      for (int begin = g * kSteps; begin < (g + 1) * kSteps; begin += kRun) {
        typename Width::Pairs pairs[kRows][kPanels] = {};
#pragma GCC unroll 8
        for (int j = begin; j < begin + kRun; ++j) {
          Simd::B codes[kPanels];
          each<kPanels>([&](auto p) { codes[p] = Format::codes(w[p], s, j); });
          each<kRows>([&](auto r) { Width::dot(pairs[r], codes, x.q(r, j), x.plane); });
        }
        each<kRows, kPanels>([&](auto r, auto p) { Width::add(acc[r][p], pairs[r][p]); });
      }
    } else {
#pragma GCC unroll 8
      for (int j = g * kSteps; j < (g + 1) * kSteps; ++j) {
        Simd::B codes[kPanels];
        each<kPanels>([&](auto p) { codes[p] = Format::codes(w[p], s, j); });
        each<kRows>([&](auto r) { Width::template dot<Format>(acc[r], codes, x.q(r, j), x.plane); });
      }
    }
    each<kPanels>([&](auto p) {
      Simd::F scale = Format::scale(w[p], s, g);
      each<kRows>([&](auto r) {
        Simd::F scaled = Simd::mul(scale, Simd::set1(x.scale(r).scale));
        tile.acc[r][p] = Simd::fma(scaled, Width::value(acc[r][p]), tile.acc[r][p]);
      });
      if constexpr (Format::kHasMinimum) {
        Simd::F minimum = Format::minimum(w[p], s, g);
        each<kRows>([&](auto r) {
          const ActivationScale& of = x.scale(r);
          const float weighted = Format::kGroups == 2 ? of.scale * static_cast<float>(sum[r]) : of.weighted;
          tile.acc[r][p] = Simd::fma(minimum, Simd::set1(weighted), tile.acc[r][p]);
        });
      }
    });
  }
};

template <class Format>
using Int8Tile = IntegerTile<Format, OneByte>;
template <class Format>
using Int16Tile = IntegerTile<Format, TwoBytes>;

// Quantised weights, float activations: weights are decoded in registers, value = scale * (code - zero) + minimum, with
// both products exact in f32 (see tensor/decode.h), so the weights are exactly the decoded ones.
template <class Format>
struct ExactTile {
  static constexpr int kMaxRows = Simd::kFloatRows, kMaxPanels = Simd::kFloatPanels, kStreams = Simd::kFloatStreams;

  template <int kRows, int kPanels>
  static void run(const MatmulTask& t, int panel, int row) {
    Tile<kRows, kPanels> tile;
    tile.clear();
    const float* x[kRows];
    for (int r = 0; r < kRows; ++r) x[r] = TaskRows{t}.at<float>(row + r);
    for (std::int64_t k = 0; k < t.k; k += Format::kBlock) {
      const std::size_t offset = static_cast<std::size_t>(k / Format::kBlock) * Format::kBytes;
      for (int step = 0; step < Format::kBlock / 4; ++step) {
        const int s = step / 8, j = step % 8, g = Format::kGroups == 2 ? j / 4 : 0;
        each<kPanels>([&](auto p) {
          const std::uint8_t* w = t.panels + static_cast<std::size_t>(panel + p) * t.panel_bytes + offset;
          Simd::B codes = Format::codes(w, s, j);
          Simd::F scale = Format::scale(w, s, g), zero = Simd::set1(static_cast<float>(Format::kZeroPoint));
          for (int b = 0; b < 4; ++b) {
            Simd::F weight = Simd::mul(scale, Simd::sub(Simd::byte_to_float(codes, b), zero));
            if constexpr (Format::kHasMinimum) weight = Simd::add(weight, Format::minimum(w, s, g));
            each<kRows>([&](auto r) {
              tile.acc[r][p] = Simd::fma(weight, Simd::set1(x[r][k + 4 * step + b]), tile.acc[r][p]);
            });
          }
        });
      }
    }
    tile.finish(t, panel, row);
  }
};

template <DType kType>
struct FloatTile {
  static constexpr int kMaxRows = Simd::kFloatRows, kMaxPanels = Simd::kFloatPanels, kStreams = Simd::kFloatStreams;

  template <int kRows, int kPanels>
  static void run(const MatmulTask& t, int panel, int row) {
    Tile<kRows, kPanels> tile;
    tile.clear();
    const float* x[kRows];
    for (int r = 0; r < kRows; ++r) x[r] = TaskRows{t}.at<float>(row + r);
    const std::uint8_t* w[kPanels];
    for (int p = 0; p < kPanels; ++p) w[p] = t.panels + static_cast<std::size_t>(panel + p) * t.panel_bytes;
    constexpr int kBytes = kType == DType::f32 ? 64 : kType == DType::f16 ? 32 : 64;
    constexpr int kStep = kType == DType::bf16 ? 2 : 1;
    for (std::int64_t k = 0; k < t.k; k += kStep) {
      Simd::F weight[kStep][kPanels];
      each<kPanels>([&](auto p) {
        if constexpr (kType == DType::f32) weight[0][p] = Simd::load(reinterpret_cast<const float*>(w[p]));
        if constexpr (kType == DType::f16) weight[0][p] = Simd::load_f16(halves(w[p]));
        if constexpr (kType == DType::bf16) Simd::load_bf16_pairs(halves(w[p]), weight[0][p], weight[1][p]);
        w[p] += kBytes;
      });
      each<kStep>([&](auto i) {
        if (k + i >= t.k) return;
        each<kRows>([&](auto r) {
          Simd::F a = Simd::set1(x[r][k + i]);
          each<kPanels>([&](auto p) { tile.acc[r][p] = Simd::fma(weight[i][p], a, tile.acc[r][p]); });
        });
      });
    }
    tile.finish(t, panel, row);
  }
};

// How a pair of bf16 along K is multiplied. These two of each output are widened and added one after the other; a
// processor's own dot product is another such type, in the one file that is compiled with its instructions.
struct WidenedPairs {
  static constexpr int kMaxRows = Simd::kPairRows, kMaxPanels = Simd::kPairPanels;
  struct Weights {
    Simd::F even, odd;
  };
  using Row = Weights;  // the same two values in every lane
  static Weights load(const std::uint8_t* w) {
    Weights pair;
    Simd::load_bf16_pairs(halves(w), pair.even, pair.odd);
    return pair;
  }
  static Row spread(const std::uint16_t* x) {
    Row two;
    Simd::set1_bf16_pair(x, two.even, two.odd);
    return two;
  }
  static Simd::F add(Simd::F sum, const Weights& w, const Row& x) {
    return Simd::fma(w.odd, x.odd, Simd::fma(w.even, x.even, sum));
  }
};

// Both sides bf16, rows padded with zeros.
template <class Pairs>
struct Bf16Tile {
  static constexpr int kMaxRows = Pairs::kMaxRows, kMaxPanels = Pairs::kMaxPanels, kStreams = Simd::kFloatStreams;

  template <int kRows, int kPanels>
  static void run(const MatmulTask& t, int panel, int row) {
    Tile<kRows, kPanels> tile;
    tile.clear();
    const std::uint16_t* x[kRows];
    for (int r = 0; r < kRows; ++r) x[r] = TaskRows{t}.at<std::uint16_t>(row + r);
    const std::uint8_t* w[kPanels];
    for (int p = 0; p < kPanels; ++p) w[p] = t.panels + static_cast<std::size_t>(panel + p) * t.panel_bytes;
    for (std::int64_t k = 0; k < t.k; k += 2) {
      typename Pairs::Weights weights[kPanels];
      each<kPanels>([&](auto p) { weights[p] = Pairs::load(w[p]); });
      each<kRows>([&](auto r) {
        const typename Pairs::Row two = Pairs::spread(x[r] + k);
        each<kPanels>([&](auto p) { tile.acc[r][p] = Pairs::add(tile.acc[r][p], weights[p], two); });
      });
      for (auto& p : w) p += 64;
    }
    tile.finish(t, panel, row);
  }
};

// Panels outside, rows inside: a group of panels stays in the nearest cache while all rows pass over it.
template <class Micro, int kPanels>
void row_tiles(const MatmulTask& t, int panel) {
  int row = t.row_begin;
  for (; t.row_end - row >= Micro::kMaxRows; row += Micro::kMaxRows)
    Micro::template run<Micro::kMaxRows, kPanels>(t, panel, row);
  if constexpr (Micro::kMaxRows > 4)
    if (t.row_end - row >= 4) {
      Micro::template run<4, kPanels>(t, panel, row);
      row += 4;
    }
  if constexpr (Micro::kMaxRows > 2)
    if (t.row_end - row >= 2) {
      Micro::template run<2, kPanels>(t, panel, row);
      row += 2;
    }
  for (; row < t.row_end; ++row) Micro::template run<1, kPanels>(t, panel, row);
}

// A row alone passes over more panels side by side where memory gives more in several streams than in one.
template <class Micro>
void matmul(const MatmulTask& t) {
  int panel = t.panel_begin;
  if (t.row_end - t.row_begin == 1)
    for (; t.panel_end - panel >= Micro::kStreams; panel += Micro::kStreams)
      Micro::template run<1, Micro::kStreams>(t, panel, t.row_begin);
  for (; t.panel_end - panel >= Micro::kMaxPanels; panel += Micro::kMaxPanels)
    row_tiles<Micro, Micro::kMaxPanels>(t, panel);
  for (; panel < t.panel_end; ++panel) row_tiles<Micro, 1>(t, panel);
}

template <template <class> class Micro>
MatmulKernel matmul_for(DType type) {
  return choose_format(type, []<class Format>() -> MatmulKernel { return matmul<Micro<Format>>; });
}

}  // namespace espalier::kernels::ESPALIER_ISA
