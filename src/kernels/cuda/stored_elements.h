// stored_elements.h: keys and values as a layer stores them (kernels/attention/kv_layout.h), as floats, and sums of
// products with them; for kernels.
//
// Order: every sum is one thread's chain, as the CPU has it (kernels/cpu/generic/attention/widening.h). Memory: rows
// and groups of slots begin at multiples of 16 bytes. Include kernels/cuda/simt/simd.h first. Threads: any. Fails:
// never.
#pragma once

#include "kernels/cpu/generic/each.h"
#include "kernels/cuda/attention/attention_task.h"
#include "kernels/cuda/four_words.h"

namespace espalier::cuda {

using kernels::simt::each;

// What a thread reads at once.
struct alignas(16) FourFloats {
  float x[4];
};

// The lowest bits, as many as an element has.
template <KvType kType>
ESPALIER_ON_DEVICE float as_float(std::uint32_t bits) {
  if constexpr (kType == KvType::f32) return kernels::simt::float_of_bits(bits);
  if constexpr (kType == KvType::bf16) return kernels::simt::float_of_bits(bits << 16);
  if constexpr (kType == KvType::f16) return kernels::simt::half_to_float(bits & 0xffffu);
  if constexpr (kType == KvType::i8) return static_cast<float>(static_cast<std::int8_t>(bits & 0xffu));
  if constexpr (kType == KvType::f8_e4m3) return kernels::simt::e4m3_to_float(bits & 0xffu);
  if constexpr (kType == KvType::f8_e5m2) return kernels::simt::half_to_float((bits & 0xffu) << 8);
}

template <KvType kType>
ESPALIER_ON_DEVICE float element_at(const std::byte* p) {
  if constexpr (element_bytes(kType) == 4) return as_float<kType>(*reinterpret_cast<const std::uint32_t*>(p));
  if constexpr (element_bytes(kType) == 2) return as_float<kType>(*reinterpret_cast<const std::uint16_t*>(p));
  if constexpr (element_bytes(kType) == 1) return as_float<kType>(*reinterpret_cast<const std::uint8_t*>(p));
}

// Two elements that lie together.
template <KvType kType>
ESPALIER_ON_DEVICE void two_elements(const std::byte* p, float (&out)[2]) {
  if constexpr (element_bytes(kType) == 4) {
    struct alignas(8) Two {
      std::uint32_t x[2];
    };
    const Two both = *reinterpret_cast<const Two*>(p);
    each<2>([&](auto i) { out[i] = as_float<kType>(both.x[i]); });
  } else {
    constexpr int kBits = 8 * element_bytes(kType);
    std::uint32_t both;
    if constexpr (kBits == 16)
      both = *reinterpret_cast<const std::uint32_t*>(p);
    else
      both = *reinterpret_cast<const std::uint16_t*>(p);
    out[0] = as_float<kType>(both);
    out[1] = as_float<kType>(both >> kBits);
  }
}

// Elements of a key that a thread reads together: enough to keep memory busy, few enough for registers.
template <KvType kType, KvForm kForm, int kQueries>
inline constexpr int kKeyStep =
    kForm == KvForm::latent && element_bytes(kType) == 1                                            ? 16
    : kQueries < 16 && (kType == KvType::bf16 || (kForm == KvForm::latent && kType != KvType::f32)) ? 16
                                                                                                    : 8;

// Bytes from one of a key's elements to the next (bf16 lane by lane: half of those from pair to pair).
template <KvType kType, KvForm kForm>
inline constexpr int kElementStep = element_bytes(kType) * (kForm == KvForm::latent ? 1 : kSlotGroup);

// A key begins where its lane's first element lies, or its row.
template <KvType kType, KvForm kForm>
ESPALIER_ON_DEVICE const std::byte* key_at(const KvLayer& kv, int head, Slot slot, int width) {
  const auto in_segment = static_cast<std::int64_t>(slot % kSegmentSlots);
  const std::int64_t row = std::int64_t{width} * element_bytes(kType);
  const std::byte* const segment = kv.keys + key_offset(kv, head, slot);
  if constexpr (kForm == KvForm::latent) return segment + in_segment * row;
  constexpr int kLane = kType == KvType::bf16 ? 4 : element_bytes(kType);
  return segment + in_segment / kSlotGroup * (kSlotGroup * row) + in_segment % kSlotGroup * kLane;
}

template <KvType kType, KvForm kForm, int kCount>
ESPALIER_ON_DEVICE void key_elements(const std::byte* p, float (&out)[kCount]) {
  if constexpr (kForm == KvForm::latent) {
    constexpr int kBits = 8 * element_bytes(kType), kInWord = 32 / kBits;
    FourWords read[kCount / (4 * kInWord)];
    each<kCount / (4 * kInWord)>([&](auto i) { read[i] = reinterpret_cast<const FourWords*>(p)[i]; });
    each<kCount>([&](auto e) {
      constexpr int kWord = e / kInWord, kShift = e % kInWord * kBits;
      out[e] = as_float<kType>(read[kWord / 4].x[kWord % 4] >> kShift);
    });
  } else if constexpr (kType == KvType::bf16) {
    each<kCount / 2>([&](auto pair) {
      const std::uint32_t both = *reinterpret_cast<const std::uint32_t*>(p + pair * 64);
      out[2 * pair] = as_float<kType>(both);
      out[2 * pair + 1] = as_float<kType>(both >> 16);
    });
  } else {
    each<kCount>([&](auto e) { out[e] = element_at<kType>(p + e * kElementStep<kType, kForm>); });
  }
}

// kCount floats that lie together, in shared memory; kCount is 2 or a multiple of 4.
template <int kCount>
ESPALIER_ON_DEVICE void shared_floats(const float* p, float (&out)[kCount]) {
  if constexpr (kCount == 2) {
    each<2>([&](auto i) { out[i] = p[i]; });
  } else {
    each<kCount / 4>([&](auto j) {
      const FourFloats four = reinterpret_cast<const FourFloats*>(p)[j];
      each<4>([&](auto i) { out[4 * j + i] = four.x[i]; });
    });
  }
}

// sums[query][i] += queries[element][query] * keys[i][element], a chain over `width` elements.
template <KvType kType, KvForm kForm, int kQueries>
ESPALIER_ON_DEVICE void add_products(const std::byte* const (&keys)[2], const float* queries, int stride, int width,
                                     float (&sums)[kQueries][2]) {
  constexpr int kStep = kKeyStep<kType, kForm, kQueries>;
  const std::byte *first = keys[0], *second = keys[1];
  for (int d = 0; d < width; d += kStep) {
    float k[2][kStep];
    key_elements<kType, kForm>(first, k[0]);
    key_elements<kType, kForm>(second, k[1]);
    first += kStep * kElementStep<kType, kForm>;
    second += kStep * kElementStep<kType, kForm>;
    each<kStep>([&](auto e) {
      float q[kQueries];
      shared_floats(queries, q);
      queries += stride;
      each<kQueries, 2>([&](auto j, auto i) { sums[j][i] = fmaf(k[i][e], q[j], sums[j][i]); });
    });
  }
}

// sums[query][i] += weights[row][query] * (element i of two, at `values` + at[row]), a chain over kRows rows.
template <KvType kType, int kQueries, int kRows>
ESPALIER_ON_DEVICE void add_some_values(const std::byte* values, const std::int64_t* at, const float* weights,
                                        int stride, float (&sums)[kQueries][2]) {
  float v[kRows][2];
  each<kRows>([&](auto row) { two_elements<kType>(values + at[row], v[row]); });
  each<kRows>([&](auto row) {
    float w[kQueries];
    shared_floats(weights + row * stride, w);
    each<kQueries, 2>([&](auto j, auto i) { sums[j][i] = fmaf(v[row][i], w[j], sums[j][i]); });
  });
}
// The same over `count` rows.
template <KvType kType, int kQueries>
ESPALIER_ON_DEVICE void add_values(const std::byte* values, const std::int64_t* at, const float* weights, int stride,
                                   int count, float (&sums)[kQueries][2]) {
  constexpr int kRows = 8;
  int row = 0;
  for (; row + kRows <= count; row += kRows)
    add_some_values<kType, kQueries, kRows>(values, at + row, weights + row * stride, stride, sums);
  ESPALIER_UNROLL(1)
  for (; row < count; ++row)
    add_some_values<kType, kQueries, 1>(values, at + row, weights + row * stride, stride, sums);
}

// Finds the slots of positions of a sequence, whose runs are [begin, end), that are asked for in ascending order.
class SlotFinder {
 public:
  ESPALIER_ON_DEVICE Slot slot_of(const PlacedRun* runs, int begin, int end, std::int32_t position) {
    if (at_ < 0) at_ = search(runs, begin, end, position);
    while (at_ + 1 < end && runs[at_ + 1].position <= position) ++at_;
    return runs[at_].slot + (position - runs[at_].position);
  }

 private:
  ESPALIER_ON_DEVICE static int search(const PlacedRun* runs, int begin, int end, std::int32_t position) {
    while (end - begin > 1) {
      const int middle = begin + (end - begin) / 2;
      if (runs[middle].position <= position)
        begin = middle;
      else
        end = middle;
    }
    return begin;
  }

  int at_ = -1;  // the run of the last position
};

}  // namespace espalier::cuda
