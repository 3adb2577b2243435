// fit.h: the best scale, or scale and minimum, of a few values whose codes are whole numbers or places in a table.
//
// Loops run over arrays whose length is known, lane by lane, and sums fold by halves, so that compilers make vectors of
// them and every instruction set gives the same bits.
// Threads: pure functions. Fails: never. Internal to tensor/quantize.
#pragma once

#include <algorithm>
#include <cmath>

#include "tensor/quant_blocks.h"

#if defined(__GNUC__)
#define ESP_INLINE inline __attribute__((always_inline))
#else
#define ESP_INLINE inline
#endif

namespace espalier::quantize {

// The whole number next to t; exact for |t| < 2^22.
ESP_INLINE float rounded(float t) {
  constexpr float kShift = 12582912.0f;  // 1.5 * 2^23
  return (t + kShift) - kShift;
}

ESP_INLINE float within(float t, float low, float high) {
  t = t < low ? low : t;
  return t > high ? high : t;
}

// Codes kLow .. kHigh that stand for themselves.
template <int kLow, int kHigh>
struct WholeNumbers {
  static constexpr float low = kLow, high = kHigh;
  static ESP_INLINE float nearest(float t) { return rounded(within(t, low, high)); }
};

// The sixteen values of the IQ4 types.
struct Iq4Numbers {
  static constexpr float low = -127, high = 113;
  static ESP_INLINE float nearest(float t) {
    float value = kIq4Values[0];
    for (std::size_t i = 1; i < kIq4Values.size(); ++i) {
      const float middle = 0.5f * static_cast<float>(kIq4Values[i - 1] + kIq4Values[i]);
      value = t > middle ? static_cast<float>(kIq4Values[i]) : value;
    }
    return value;
  }
};

// Folds by halves; `a` is used up.
template <int N>
ESP_INLINE float folded(float (&a)[N]) {
  for (int half = N / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) a[i] += a[i + half];
  return a[0];
}

template <int N>
ESP_INLINE float weighted_product(const float* w, const float* a, const float* b) {
  float products[N];
  for (int i = 0; i < N; ++i) products[i] = w[i] * a[i] * b[i];
  return folded(products);
}

// sum of w (x - scale * code)^2 for the codes that scale leads to.
template <class Codes, int N>
ESP_INLINE float error_of_scale(const float* x, const float* w, float scale) {
  if (scale == 0) return weighted_product<N>(w, x, x);
  const float inverse = 1 / scale;
  float errors[N];
  for (int i = 0; i < N; ++i) {
    const float e = x[i] - scale * Codes::nearest(x[i] * inverse);
    errors[i] = w[i] * e * e;
  }
  return folded(errors);
}

// What the codes of x / scale make of scale: sum w x code, sum w code^2.
struct Moments {
  float with_code, of_code;
  float gain() const { return of_code > 0 ? with_code * with_code / of_code : 0; }
  float scale() const { return of_code > 0 ? with_code / of_code : 0; }
};

template <class Codes, int N>
ESP_INLINE Moments moments(const float* x, const float* w, float inverse) {
  float with_code[N], of_code[N];
  for (int i = 0; i < N; ++i) {
    const float code = Codes::nearest(x[i] * inverse), weighted = w[i] * code;
    with_code[i] = weighted * x[i];
    of_code[i] = weighted * code;
  }
  return {folded(with_code), folded(of_code)};
}

template <int N>
ESP_INLINE float extreme_of(const float* x) {
  float extreme = 0;
  for (int i = 0; i < N; ++i)
    if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
  return extreme;
}

// How far from the plain rule scales are looked for.
struct Search {
  float least, most;  // what the extreme value becomes, as a part of the outermost code
  int steps;
};

// The scale, of either sign, whose codes leave the least weighted error.
template <class Codes, int N>
ESP_INLINE float fit_scale(const float* x, const float* w, Search search) {
  const float extreme = extreme_of<N>(x);
  if (std::fabs(extreme) < 1e-30f) return 0;
  float best_gain = -1, best = 0;
  for (int side = 0; side < 2; ++side) {
    const float outermost = side == 0 ? Codes::low : Codes::high;
    for (int k = 0; k < search.steps; ++k) {
      const float part =
          search.least + (search.most - search.least) * static_cast<float>(k) / static_cast<float>(search.steps - 1);
      const Moments m = moments<Codes, N>(x, w, outermost * part / extreme);
      if (m.gain() > best_gain) best_gain = m.gain(), best = m.scale();
    }
  }
  for (int k = 0; k < 3 && best != 0; ++k) {
    const Moments m = moments<Codes, N>(x, w, 1 / best);
    if (!(m.gain() > best_gain)) break;
    best_gain = m.gain(), best = m.scale();
  }
  return best;
}

// x is about scale * code + min, codes 0 .. kLevels.
struct Line {
  float scale = 0, min = 0, error = 0;
};

// Least squares for the codes that a line leads to. kBelow: min <= 0 <= scale.
template <int kLevels, int N, bool kBelow>
ESP_INLINE Line line_through(const float* x, const float* w, float inverse, float from) {
  float code[N], c1[N], c2[N], xc[N], xs[N], ws[N];
  for (int i = 0; i < N; ++i) {
    code[i] = rounded(within((x[i] - from) * inverse, 0, kLevels));
    const float wc = w[i] * code[i], wx = w[i] * x[i];
    ws[i] = w[i], c1[i] = wc, c2[i] = wc * code[i], xc[i] = wc * x[i], xs[i] = wx;
  }
  const float sw = folded(ws), sc = folded(c1), scc = folded(c2), sxc = folded(xc), sx = folded(xs);
  Line line;
  const float determinant = sw * scc - sc * sc;
  if (determinant > 1e-12f * sw * scc) {
    line.scale = (sw * sxc - sx * sc) / determinant;
    line.min = (scc * sx - sc * sxc) / determinant;
  } else {
    line.min = sw > 0 ? sx / sw : 0;
  }
  if (kBelow && (line.min > 0 || line.scale < 0)) {
    line.min = 0;
    line.scale = scc > 0 ? std::max(0.0f, sxc / scc) : 0;
  }
  float errors[N];
  for (int i = 0; i < N; ++i) {
    const float e = x[i] - (line.scale * code[i] + line.min);
    errors[i] = w[i] * e * e;
  }
  line.error = folded(errors);
  return line;
}

template <int kLevels, int N, bool kBelow>
ESP_INLINE Line fit_line(const float* x, const float* w, Search search) {
  float low = x[0], high = x[0];
  for (int i = 1; i < N; ++i) low = std::min(low, x[i]), high = std::max(high, x[i]);
  if (kBelow) low = std::min(low, 0.0f);
  if (!(high - low > 1e-30f)) return {0, kBelow ? std::min(low, 0.0f) : low, 0};
  Line best{0, 0, -1};
  for (int k = 0; k < search.steps; ++k) {
    const float part =
        search.least + (search.most - search.least) * static_cast<float>(k) / static_cast<float>(search.steps - 1);
    const float inverse = kLevels * part / (high - low);
    // Where the steps are wider than needed, the range may begin at either end or in the middle.
    for (int at = 0; at < 2; ++at) {
      const float slack = at == 0 ? 0 : (high - low) - kLevels / inverse;
      if (at == 1 && (kBelow && low == 0)) break;
      const Line line = line_through<kLevels, N, kBelow>(x, w, inverse, low + 0.5f * slack);
      if (best.error < 0 || line.error < best.error) best = line;
    }
  }
  for (int k = 0; k < 3 && best.scale > 0; ++k) {
    const Line line = line_through<kLevels, N, kBelow>(x, w, 1 / best.scale, best.min);
    if (!(line.error < best.error)) break;
    best = line;
  }
  return best;
}

// sum of w (x - scale * code - min)^2
template <int kLevels, int N>
ESP_INLINE float error_of_line(const float* x, const float* w, float scale, float min) {
  const float inverse = scale > 0 ? 1 / scale : 0;
  float errors[N];
  for (int i = 0; i < N; ++i) {
    const float code = rounded(within((x[i] - min) * inverse, 0, kLevels));
    const float e = x[i] - (scale * code + min);
    errors[i] = w[i] * e * e;
  }
  return folded(errors);
}

}  // namespace espalier::quantize
