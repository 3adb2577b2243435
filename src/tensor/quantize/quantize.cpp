#include "tensor/quantize/quantize.h"

#include <cstdint>
#include <cstring>

#include "tensor/encode.h"
#include "tensor/quantize/super_block.h"

// The same code in several instruction sets; contraction is off, so all give the same bits.
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define ESP_CLONES __attribute__((target_clones("default", "avx2", "arch=x86-64-v4")))
#else
#define ESP_CLONES
#endif

namespace espalier {
namespace {

using namespace quantize;

constexpr Search kCoarse{0.65f, 1.25f, 25};  // of two and three bits
constexpr Search kMiddle{0.80f, 1.14f, 24};  // of four and five bits
constexpr Search kFine{0.95f, 1.04f, 10};    // of six and more

std::uint8_t byte_of(float code) {
  return static_cast<std::uint8_t>(static_cast<int>(code));
}

// Nibbles as in Q4_0 of codes + `add`.
void pack_nibbles(const float* code, int add, std::uint8_t* q) {
  for (int j = 0; j < 16; ++j)
    q[j] = static_cast<std::uint8_t>(((static_cast<int>(code[j]) + add) & 15) |
                                     ((static_cast<int>(code[j + 16]) + add) & 15) << 4);
}
void pack_fifth(const float* code, int add, std::uint8_t (&high)[4]) {
  std::memset(high, 0, 4);
  for (int i = 0; i < 32; ++i)
    high[i / 8] = static_cast<std::uint8_t>(high[i / 8] | ((static_cast<int>(code[i]) + add) >> 4 & 1) << (i % 8));
}

template <class Codes>
ESP_INLINE float scaled_codes(const float* x, const float* w, Search search, float (&code)[32]) {
  const float d = stored_f16(fit_scale<Codes, 32>(x, w, search)), inverse = d != 0 ? 1 / d : 0;
  for (int i = 0; i < 32; ++i) code[i] = Codes::nearest(x[i] * inverse);
  return d;
}

template <int kLevels>
ESP_INLINE Line lined_codes(const float* x, const float* w, Search search, float (&code)[32]) {
  Line line = fit_line<kLevels, 32, false>(x, w, search);
  line.scale = stored_f16(line.scale);
  line.min = stored_f16(line.min);
  const float inverse = line.scale > 0 ? 1 / line.scale : 0;
  for (int i = 0; i < 32; ++i) code[i] = rounded(within((x[i] - line.min) * inverse, 0, kLevels));
  return line;
}

ESP_INLINE void make(const float* x, const float* w, BlockQ8_0& b) {
  float code[32];
  b.d = StoredF16::of(to_f16(scaled_codes<WholeNumbers<-127, 127>>(x, w, kFine, code)));
  for (int i = 0; i < 32; ++i) b.q[i] = static_cast<std::int8_t>(code[i]);
}
ESP_INLINE void make(const float* x, const float* w, BlockQ4_0& b) {
  float code[32];
  b.d = StoredF16::of(to_f16(scaled_codes<WholeNumbers<-8, 7>>(x, w, kMiddle, code)));
  pack_nibbles(code, 8, b.q);
}
ESP_INLINE void make(const float* x, const float* w, BlockQ5_0& b) {
  float code[32];
  b.d = StoredF16::of(to_f16(scaled_codes<WholeNumbers<-16, 15>>(x, w, kMiddle, code)));
  pack_nibbles(code, 16, b.q);
  pack_fifth(code, 16, b.high);
}
ESP_INLINE void make(const float* x, const float* w, BlockQ4_1& b) {
  float code[32];
  const Line line = lined_codes<15>(x, w, kMiddle, code);
  b.d = StoredF16::of(to_f16(line.scale));
  b.m = StoredF16::of(to_f16(line.min));
  pack_nibbles(code, 0, b.q);
}
ESP_INLINE void make(const float* x, const float* w, BlockQ5_1& b) {
  float code[32];
  const Line line = lined_codes<31>(x, w, kMiddle, code);
  b.d = StoredF16::of(to_f16(line.scale));
  b.m = StoredF16::of(to_f16(line.min));
  pack_nibbles(code, 0, b.q);
  pack_fifth(code, 0, b.high);
}

std::uint8_t place_of_iq4(float value) {
  std::uint8_t place = 0;
  while (place < 15 && static_cast<float>(kIq4Values[place]) < value) ++place;
  return place;
}
void pack_iq4(const float* value, std::uint8_t* q) {
  for (int j = 0; j < 16; ++j)
    q[j] = static_cast<std::uint8_t>(place_of_iq4(value[j]) | place_of_iq4(value[j + 16]) << 4);
}

ESP_INLINE void make(const float* x, const float* w, BlockIQ4_NL& b) {
  float code[32];
  b.d = StoredF16::of(to_f16(scaled_codes<Iq4Numbers>(x, w, kMiddle, code)));
  pack_iq4(code, b.q);
}

// --- blocks of 256 ---

// As two_bits() of the decoder reads them.
void pack_two_bits(const float* code, int shift, int add, std::uint8_t* q) {
  for (int i = 0; i < 256; ++i) {
    std::uint8_t& to = q[i / 128 * 32 + i % 32];
    to = static_cast<std::uint8_t>(to | ((static_cast<int>(code[i]) + add) >> shift & 3) << (i % 128 / 32 * 2));
  }
}

ESP_INLINE void make(const float* x, const float* w, BlockQ2_K& b) {
  const auto fit = LinedFit<3, 15, 16>{x, w}.run(kCoarse);
  std::memset(&b, 0, sizeof b);
  b.d = StoredF16::of(to_f16(fit.d));
  b.m = StoredF16::of(to_f16(fit.m));
  for (int s = 0; s < 16; ++s)
    b.scales[s] = static_cast<std::uint8_t>(byte_of(fit.scale[s]) | byte_of(fit.min[s]) << 4);
  pack_two_bits(fit.code, 0, 0, b.q);
}

ESP_INLINE void make(const float* x, const float* w, BlockQ3_K& b) {
  const auto fit = ScaledFit<WholeNumbers<-4, 3>, WholeNumbers<-32, 31>, 16>{x, w}.run(kCoarse);
  std::memset(&b, 0, sizeof b);
  b.d = StoredF16::of(to_f16(fit.d));
  for (int s = 0; s < 16; ++s) {
    const int scale = static_cast<int>(fit.scale[s]) + 32;
    b.scales[s % 8] = static_cast<std::uint8_t>(b.scales[s % 8] | (scale & 15) << (s < 8 ? 0 : 4));
    b.scales[8 + s % 4] = static_cast<std::uint8_t>(b.scales[8 + s % 4] | (scale >> 4) << (2 * (s / 4)));
  }
  pack_two_bits(fit.code, 0, 4, b.q);
  for (int i = 0; i < 256; ++i)
    b.high[i % 32] = static_cast<std::uint8_t>(b.high[i % 32] | ((static_cast<int>(fit.code[i]) + 4) >> 2) << (i / 32));
}

void pack_scales(const LinedBlock<8>& fit, std::uint8_t (&packed)[12]) {
  std::memset(packed, 0, 12);
  for (int s = 0; s < 8; ++s) {
    const int scale = static_cast<int>(fit.scale[s]), min = static_cast<int>(fit.min[s]);
    if (s < 4) {
      packed[s] = static_cast<std::uint8_t>(packed[s] | scale);
      packed[s + 4] = static_cast<std::uint8_t>(packed[s + 4] | min);
    } else {
      packed[s + 4] = static_cast<std::uint8_t>((scale & 15) | (min & 15) << 4);
      packed[s - 4] = static_cast<std::uint8_t>(packed[s - 4] | (scale >> 4) << 6);
      packed[s] = static_cast<std::uint8_t>(packed[s] | (min >> 4) << 6);
    }
  }
}
void pack_nibbles_k(const float* code, std::uint8_t* q) {
  std::memset(q, 0, 128);
  for (int i = 0; i < 256; ++i) {
    std::uint8_t& to = q[i / 64 * 32 + i % 32];
    to = static_cast<std::uint8_t>(to | (static_cast<int>(code[i]) & 15) << (i % 64 / 32 * 4));
  }
}

ESP_INLINE void make(const float* x, const float* w, BlockQ4_K& b) {
  const auto fit = LinedFit<15, 63, 8>{x, w}.run(kMiddle);
  b.d = StoredF16::of(to_f16(fit.d));
  b.m = StoredF16::of(to_f16(fit.m));
  pack_scales(fit, b.scales);
  pack_nibbles_k(fit.code, b.q);
}

ESP_INLINE void make(const float* x, const float* w, BlockQ5_K& b) {
  const auto fit = LinedFit<31, 63, 8>{x, w}.run(kMiddle);
  b.d = StoredF16::of(to_f16(fit.d));
  b.m = StoredF16::of(to_f16(fit.m));
  pack_scales(fit, b.scales);
  pack_nibbles_k(fit.code, b.q);
  std::memset(b.high, 0, sizeof b.high);
  for (int i = 0; i < 256; ++i)
    b.high[i % 32] = static_cast<std::uint8_t>(b.high[i % 32] | (static_cast<int>(fit.code[i]) >> 4) << (i / 32));
}

ESP_INLINE void make(const float* x, const float* w, BlockQ6_K& b) {
  const auto fit = ScaledFit<WholeNumbers<-32, 31>, WholeNumbers<-128, 127>, 16>{x, w}.run(kFine);
  std::memset(&b, 0, sizeof b);
  b.d = StoredF16::of(to_f16(fit.d));
  for (int s = 0; s < 16; ++s) b.scales[s] = static_cast<std::int8_t>(fit.scale[s]);
  for (int i = 0; i < 256; ++i) {
    std::uint8_t& to = b.low[i / 128 * 64 + i % 64];
    to = static_cast<std::uint8_t>(to | ((static_cast<int>(fit.code[i]) + 32) & 15) << (i % 128 / 64 * 4));
  }
  pack_two_bits(fit.code, 4, 32, b.high);
}

ESP_INLINE void make(const float* x, const float* w, BlockIQ4_XS& b) {
  const auto fit = ScaledFit<Iq4Numbers, WholeNumbers<-32, 31>, 8>{x, w}.run(kMiddle);
  std::memset(&b, 0, sizeof b);
  b.d = StoredF16::of(to_f16(fit.d));
  for (int s = 0; s < 8; ++s) {
    const int scale = static_cast<int>(fit.scale[s]) + 32;
    b.scales_low[s / 2] = static_cast<std::uint8_t>(b.scales_low[s / 2] | (scale & 15) << (4 * (s % 2)));
    b.scales_high[s / 4] = static_cast<std::uint8_t>(b.scales_high[s / 4] | (scale >> 4) << (2 * (s % 4)));
    pack_iq4(fit.code + 32 * s, b.q + 16 * s);
  }
}

// How much an error at each value counts. Of columns whose inputs nobody has measured, large weights stand for large
// inputs a little; where they have been measured, both count.
template <int N>
ESP_INLINE void weigh(const float* x, const float* importance, float* w) {
  float squares[N];
  for (int i = 0; i < N; ++i) squares[i] = x[i] * x[i];
  const float mean = folded(squares) / N;
  if (importance == nullptr) {
    const float root = std::sqrt(mean);
    for (int i = 0; i < N; ++i) w[i] = root + std::fabs(x[i]);
  } else {
    for (int i = 0; i < N; ++i) w[i] = importance[i] * std::sqrt(mean + x[i] * x[i]);
  }
  float largest = 0;
  for (int i = 0; i < N; ++i) largest = std::max(largest, w[i]);
  const float by = largest > 0 ? 1 / largest : 0;
  for (int i = 0; i < N; ++i) w[i] = largest > 0 ? w[i] * by + 1e-6f : 1.0f;
}

template <class Block, int N>
ESP_INLINE void blocks(const float* x, const float* importance, std::size_t count, std::byte* stored) {
  auto* block = reinterpret_cast<Block*>(stored);  // alignment 1, members are bytes
  for (std::size_t i = 0; i < count; i += N) {
    float w[N];
    weigh<N>(x + i, importance == nullptr ? nullptr : importance + i, w);
    make(x + i, w, *block++);
  }
}

#define ESP_BLOCKS_OF(name, Block, N)                                                                   \
  ESP_CLONES void name(const float* x, const float* importance, std::size_t count, std::byte* stored) { \
    blocks<Block, N>(x, importance, count, stored);                                                     \
  }
ESP_BLOCKS_OF(rows_q8_0, BlockQ8_0, 32)
ESP_BLOCKS_OF(rows_q4_0, BlockQ4_0, 32)
ESP_BLOCKS_OF(rows_q4_1, BlockQ4_1, 32)
ESP_BLOCKS_OF(rows_q5_0, BlockQ5_0, 32)
ESP_BLOCKS_OF(rows_q5_1, BlockQ5_1, 32)
ESP_BLOCKS_OF(rows_iq4_nl, BlockIQ4_NL, 32)
ESP_BLOCKS_OF(rows_q2_k, BlockQ2_K, 256)
ESP_BLOCKS_OF(rows_q3_k, BlockQ3_K, 256)
ESP_BLOCKS_OF(rows_q4_k, BlockQ4_K, 256)
ESP_BLOCKS_OF(rows_q5_k, BlockQ5_K, 256)
ESP_BLOCKS_OF(rows_q6_k, BlockQ6_K, 256)
ESP_BLOCKS_OF(rows_iq4_xs, BlockIQ4_XS, 256)
#undef ESP_BLOCKS_OF

}  // namespace

void quantize_row(DType type, std::span<const float> row, std::span<const float> importance,
                  std::span<std::byte> stored) {
  const float* const weights = importance.empty() ? nullptr : importance.data();
  const auto with = [&](auto* function) { function(row.data(), weights, row.size(), stored.data()); };
  switch (type) {
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      return encode_row(type, row, stored);
    case DType::q8_0:
      return with(rows_q8_0);
    case DType::q4_0:
      return with(rows_q4_0);
    case DType::q4_1:
      return with(rows_q4_1);
    case DType::q5_0:
      return with(rows_q5_0);
    case DType::q5_1:
      return with(rows_q5_1);
    case DType::iq4_nl:
      return with(rows_iq4_nl);
    case DType::q2_k:
      return with(rows_q2_k);
    case DType::q3_k:
      return with(rows_q3_k);
    case DType::q4_k:
      return with(rows_q4_k);
    case DType::q5_k:
      return with(rows_q5_k);
    case DType::q6_k:
      return with(rows_q6_k);
    case DType::iq4_xs:
      return with(rows_iq4_xs);
    default:
      return;
  }
}

}  // namespace espalier
