// row_lanes.h: the loops of row_scan.h over native registers of W lanes; row_scan.cpp compiles them once for each
// instruction set.
//
// A strip is always 4 rows of 16 lanes; W only says how many registers make 16 lanes, so W does not change a bit of the
// result. Everything is inlined into a function that carries the target attribute, and vectors are passed by
// reference only: no vector type crosses a call.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>

#include "sampling/row_scan.h"
#include "sampling/row_weights.h"

namespace espalier::sampling {
namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();
constexpr int row_lanes = 16;

// Native registers of W lanes, and what the loops need of them.
template <int W>
struct Lanes {
  static constexpr int registers = row_lanes / W;  // that make a row
  typedef float Floats __attribute__((vector_size(W * 4)));
  typedef std::uint32_t Bits __attribute__((vector_size(W * 4)));
  typedef float Half __attribute__((vector_size(W * 2)));
  typedef double Doubles __attribute__((vector_size(W * 4)));  // as many as a Half
};

// Reads W logits of a strip; those that `words` (two words, or null) does not allow become -infinity.
template <int W, bool masked>
ESPALIER_INLINE void load(typename Lanes<W>::Floats& v, const float* strip, const std::uint32_t* words, int at) {
  using Floats = typename Lanes<W>::Floats;
  using Bits = typename Lanes<W>::Bits;
  std::memcpy(&v, strip + at, sizeof v);
  if constexpr (masked) {
    static constexpr std::uint32_t powers[row_lanes] = {1u,   2u,   4u,    8u,    16u,   32u,   64u,    128u,
                                                        256u, 512u, 1024u, 2048u, 4096u, 8192u, 16384u, 32768u};
    Bits lane;
    std::memcpy(&lane, powers, sizeof lane);
    Bits word = Bits{} + (words[at / 32] >> (at % 32));
    v = (word & lane) != 0 ? v : Floats{} + minus_infinity;
  }
}

// max over 16 lanes by halves; exact in any order.
ESPALIER_INLINE float greatest(const float* x) {
  float m[8];
  for (int i = 0; i < 8; ++i) m[i] = x[i] > x[i + 8] ? x[i] : x[i + 8];
  for (int half = 4; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) m[i] = m[i] > m[i + half] ? m[i] : m[i + half];
  }
  return m[0];
}

template <int W, bool masked>
ESPALIER_INLINE float strip_maximum(const float* strip, const std::uint32_t* words, typename Lanes<W>::Bits& nan) {
  using L = Lanes<W>;
  alignas(64) float row[row_lanes];
  for (int r = 0; r < L::registers; ++r) {
    typename L::Floats most, v;
    load<W, masked>(most, strip, words, r * W);
    nan |= reinterpret_cast<typename L::Bits>(most != most);
    for (int at = row_lanes + r * W; at < strip_size; at += row_lanes) {
      load<W, masked>(v, strip, words, at);
      nan |= reinterpret_cast<typename L::Bits>(v != v);
      most = v > most ? v : most;
    }
    std::memcpy(row + r * W, &most, sizeof most);
  }
  return greatest(row);
}

// Double sums of each lane, kept in registers while a row is read.
template <int W>
struct LaneSums {
  typename Lanes<W>::Doubles low[Lanes<W>::registers] = {}, high[Lanes<W>::registers] = {};
};

template <int W>
ESPALIER_INLINE void add(typename Lanes<W>::Floats& e, typename Lanes<W>::Doubles& low,
                         typename Lanes<W>::Doubles& high) {
  typename Lanes<W>::Half half[2];
  std::memcpy(half, &e, sizeof e);
  low += __builtin_convertvector(half[0], typename Lanes<W>::Doubles);
  high += __builtin_convertvector(half[1], typename Lanes<W>::Doubles);
}

template <int W, bool masked>
ESPALIER_INLINE void add_strip(const float* strip, const std::uint32_t* words, float reference, float rate,
                               LaneSums<W>& sums) {
  using L = Lanes<W>;
  for (int r = 0; r < L::registers; ++r) {
    typename L::Floats a, b, c, d;
    load<W, masked>(a, strip, words, r * W);
    load<W, masked>(b, strip, words, r * W + row_lanes);
    load<W, masked>(c, strip, words, r * W + 2 * row_lanes);
    load<W, masked>(d, strip, words, r * W + 3 * row_lanes);
    weight<typename L::Floats, typename L::Bits>(a, reference, rate);
    weight<typename L::Floats, typename L::Bits>(b, reference, rate);
    weight<typename L::Floats, typename L::Bits>(c, reference, rate);
    weight<typename L::Floats, typename L::Bits>(d, reference, rate);
    a = (a + b) + (c + d);
    add<W>(a, sums.low[r], sums.high[r]);
  }
}

template <int W>
ESPALIER_INLINE double sum_of(const LaneSums<W>& sums) {
  double lane[row_lanes];
  for (int r = 0; r < Lanes<W>::registers; ++r) {
    std::memcpy(lane + r * W, &sums.low[r], sizeof sums.low[r]);
    std::memcpy(lane + r * W + W / 2, &sums.high[r], sizeof sums.high[r]);
  }
  for (int half = row_lanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
  }
  return lane[0];
}

// A strip as it lies in the row, or a padded copy of the row's last one.
struct StripView {
  const float* logits;
  const std::uint32_t* words;
  alignas(64) float padded[strip_size];
  std::uint32_t padded_words[2];
};

ESPALIER_INLINE void view_strip(StripView& view, const float* x, int count, const std::uint32_t* mask, int strip) {
  int begin = strip * strip_size;
  int left = count - begin;
  view.logits = x + begin;
  view.words = mask == nullptr ? nullptr : mask + begin / 32;
  if (left >= strip_size) return;
  for (int i = 0; i < strip_size; ++i) view.padded[i] = i < left ? view.logits[i] : minus_infinity;
  view.logits = view.padded;
  if (mask == nullptr) return;
  view.padded_words[0] = view.words[0];
  view.padded_words[1] = left > 32 ? view.words[1] : 0;
  view.words = view.padded_words;
}

ESPALIER_INLINE bool all_allowed(const std::uint32_t* words) {
  return words == nullptr || (words[0] & words[1]) == ~0u;
}

template <int W>
ESPALIER_INLINE bool scan_block(const float* x, int count, const std::uint32_t* mask, float rate, float* strip_max,
                                float* max, double* sum) {
  typename Lanes<W>::Bits nan = {};
  StripView view;
  int strips = (count + strip_size - 1) / strip_size;
  float most = minus_infinity;
  for (int s = 0; s < strips; ++s) {
    view_strip(view, x, count, mask, s);
    if (all_allowed(view.words))
      strip_max[s] = strip_maximum<W, false>(view.logits, nullptr, nan);
    else if ((view.words[0] | view.words[1]) == 0)
      strip_max[s] = minus_infinity;
    else
      strip_max[s] = strip_maximum<W, true>(view.logits, view.words, nan);
    most = strip_max[s] > most ? strip_max[s] : most;
  }
  *max = most;
  std::uint32_t nans[W];
  std::memcpy(nans, &nan, sizeof nan);
  if (sum != nullptr) {
    LaneSums<W> sums;
    for (int s = 0; s < strips; ++s) {
      if (strip_max[s] == minus_infinity) continue;  // nothing allowed: adds exactly 0
      view_strip(view, x, count, mask, s);
      if (all_allowed(view.words))
        add_strip<W, false>(view.logits, nullptr, most, rate, sums);
      else
        add_strip<W, true>(view.logits, view.words, most, rate, sums);
    }
    *sum = sum_of<W>(sums);
  }
  return std::all_of(nans, nans + W, [](std::uint32_t n) { return n == 0; });
}

template <int W>
ESPALIER_INLINE void weigh_all(const float* x, int count, float reference, float rate, float* weights) {
  using Floats = typename Lanes<W>::Floats;
  using Bits = typename Lanes<W>::Bits;
  Floats v;
  int i = 0;
  for (; i + W <= count; i += W) {
    std::memcpy(&v, x + i, sizeof v);
    weight<Floats, Bits>(v, reference, rate);
    std::memcpy(weights + i, &v, sizeof v);
  }
  if (i == count) return;
  float tail[W] = {};
  std::memcpy(tail, x + i, sizeof(float) * static_cast<std::size_t>(count - i));
  std::memcpy(&v, tail, sizeof v);
  weight<Floats, Bits>(v, reference, rate);
  std::memcpy(tail, &v, sizeof v);
  std::memcpy(weights + i, tail, sizeof(float) * static_cast<std::size_t>(count - i));
}

}  // namespace
}  // namespace espalier::sampling
