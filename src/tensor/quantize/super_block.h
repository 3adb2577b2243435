// super_block.h: blocks of 256 values whose sub-blocks have scales (and minima) of a few bits.
//
// The sub-blocks' scales are fitted one by one, the block's own scale is what covers them; then each sub-block takes the
// best of the neighbouring whole numbers, and the block's scale is put right by least squares over all codes, in turns
// while it helps.
// Threads: pure functions. Fails: never. Internal to tensor/quantize.
#pragma once

#include "tensor/quantize/fit.h"

namespace espalier::quantize {

inline float stored_f16(float value) {
  return to_float(to_f16(within(value, -65504.0f, 65504.0f)));
}

// A block of kSubs sub-blocks whose values are d * scale[s] * code.
template <int kSubs>
struct ScaledBlock {
  float d = 0;
  float scale[kSubs] = {};  // whole numbers
  float code[256] = {};
};

// Finds a ScaledBlock for 256 values and their weights.
template <class Codes, class Scales, int kSubs>
struct ScaledFit {
  static constexpr int N = 256 / kSubs;
  const float *x, *w;

  // Whole scales and codes for a block scale; gives the error.
  ESP_INLINE float choose(const float (&wanted)[kSubs], ScaledBlock<kSubs>& b) const {
    float error = 0;
    for (int s = 0; s < kSubs; ++s) {
      const float middle = b.d != 0 ? Scales::nearest(wanted[s] / b.d) : 0;
      float best = 0, least = error_of_scale<Codes, N>(x + s * N, w + s * N, 0);
      for (int k = -2; k <= 2; ++k) {
        const float scale = Scales::nearest(middle + static_cast<float>(k));
        const float e = error_of_scale<Codes, N>(x + s * N, w + s * N, b.d * scale);
        if (e < least) least = e, best = scale;
      }
      b.scale[s] = best;
      error += least;
      const float inverse = best != 0 ? 1 / (b.d * best) : 0;
      for (int i = 0; i < N; ++i) b.code[s * N + i] = Codes::nearest(x[s * N + i] * inverse);
    }
    return error;
  }

  ESP_INLINE float least_squares(const ScaledBlock<kSubs>& b) const {
    float with = 0, of = 0;
    for (int s = 0; s < kSubs; ++s) {
      const float* codes = b.code + s * N;
      with += b.scale[s] * weighted_product<N>(w + s * N, x + s * N, codes);
      of += b.scale[s] * b.scale[s] * weighted_product<N>(w + s * N, codes, codes);
    }
    return of > 0 ? with / of : 0;
  }

  ESP_INLINE ScaledBlock<kSubs> run(Search search) const {
    float wanted[kSubs];
    float extreme = 0;
    for (int s = 0; s < kSubs; ++s) {
      wanted[s] = fit_scale<Codes, N>(x + s * N, w + s * N, search);
      if (std::fabs(wanted[s]) > std::fabs(extreme)) extreme = wanted[s];
    }
    ScaledBlock<kSubs> best;
    if (extreme == 0) return best;
    float least = -1;
    for (const float part : {1.0f, 0.96f, 1.04f}) {
      ScaledBlock<kSubs> b;
      b.d = stored_f16(extreme / Scales::low * part);
      if (b.d == 0) continue;
      float error = choose(wanted, b);
      if (least < 0 || error < least) least = error, best = b;
      for (int turn = 0; turn < 3; ++turn) {
        ScaledBlock<kSubs> next;
        next.d = stored_f16(least_squares(b));
        if (next.d == 0 || next.d == b.d) break;
        const float e = choose(wanted, next);
        if (!(e < error)) break;
        error = e, b = next;
        if (error < least) least = error, best = b;
      }
    }
    return best;
  }
};

// A block of kSubs sub-blocks whose values are d * scale[s] * code - m * min[s].
template <int kSubs>
struct LinedBlock {
  float d = 0, m = 0;
  float scale[kSubs] = {}, min[kSubs] = {};  // whole numbers
  float code[256] = {};
};

// Finds a LinedBlock for 256 values and their weights.
template <int kLevels, int kMost, int kSubs>
struct LinedFit {
  static constexpr int N = 256 / kSubs;
  const float *x, *w;

  ESP_INLINE float choose(const Line (&wanted)[kSubs], LinedBlock<kSubs>& b) const {
    float error = 0;
    for (int s = 0; s < kSubs; ++s) {
      const float *xs = x + s * N, *ws = w + s * N;
      const float scale = b.d > 0 ? rounded(within(wanted[s].scale / b.d, 0, kMost)) : 0;
      const float min = b.m > 0 ? rounded(within(-wanted[s].min / b.m, 0, kMost)) : 0;
      float least = -1;
      for (int i = -1; i <= 1; ++i)
        for (int j = -1; j <= 1; ++j) {
          const float a = within(scale + static_cast<float>(i), 0, kMost),
                      c = within(min + static_cast<float>(j), 0, kMost);
          const float e = error_of_line<kLevels, N>(xs, ws, b.d * a, -b.m * c);
          if (least < 0 || e < least) least = e, b.scale[s] = a, b.min[s] = c;
        }
      error += least;
      const float step = b.d * b.scale[s], from = b.m * b.min[s], inverse = step > 0 ? 1 / step : 0;
      for (int i = 0; i < N; ++i) b.code[s * N + i] = rounded(within((xs[i] + from) * inverse, 0, kLevels));
    }
    return error;
  }

  // d and m for the codes, scales and minima that are there.
  ESP_INLINE void least_squares(const LinedBlock<kSubs>& b, LinedBlock<kSubs>& to) const {
    float aa = 0, ab = 0, bb = 0, xa = 0, xb = 0;
    for (int s = 0; s < kSubs; ++s) {
      const float *xs = x + s * N, *ws = w + s * N, *codes = b.code + s * N;
      float sw[N], sc[N], sx[N];
      for (int i = 0; i < N; ++i) sw[i] = ws[i], sc[i] = ws[i] * codes[i], sx[i] = ws[i] * xs[i];
      const float scale = b.scale[s], min = b.min[s];
      aa += scale * scale * weighted_product<N>(ws, codes, codes);
      xa += scale * weighted_product<N>(ws, xs, codes);
      ab += scale * min * folded(sc);
      bb += min * min * folded(sw);
      xb += min * folded(sx);
    }
    const float determinant = aa * bb - ab * ab;
    to.d = b.d, to.m = b.m;
    if (determinant > 1e-6f * aa * bb) {
      to.d = (xa * bb - ab * xb) / determinant;
      to.m = (ab * xa - aa * xb) / determinant;
    } else if (aa > 0) {
      to.d = (xa + b.m * ab) / aa;
    }
    to.d = stored_f16(std::max(0.0f, to.d));
    to.m = stored_f16(std::max(0.0f, to.m));
  }

  ESP_INLINE LinedBlock<kSubs> run(Search search) const {
    Line wanted[kSubs];
    float scale = 0, min = 0;
    for (int s = 0; s < kSubs; ++s) {
      wanted[s] = fit_line<kLevels, N, true>(x + s * N, w + s * N, search);
      scale = std::max(scale, wanted[s].scale);
      min = std::max(min, -wanted[s].min);
    }
    LinedBlock<kSubs> best;
    best.d = stored_f16(scale / kMost);
    best.m = stored_f16(min / kMost);
    float error = choose(wanted, best);
    for (int turn = 0; turn < 4; ++turn) {
      LinedBlock<kSubs> next;
      least_squares(best, next);
      if (next.d == best.d && next.m == best.m) break;
      const float e = choose(wanted, next);
      if (!(e < error)) break;
      error = e, best = next;
    }
    return best;
  }
};

}  // namespace espalier::quantize
