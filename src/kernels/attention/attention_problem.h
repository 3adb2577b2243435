// attention_problem.h: random sequences over a shuffled pool, their attention by kernels and by the plain loop; for
// tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/attention/plain_attention.h"
#include "kernels/random_floats.h"

namespace espalier::testing {

inline std::size_t elements(std::int64_t rows, std::int64_t columns, std::int64_t depth = 1) {
  return static_cast<std::size_t>(rows * columns * depth);
}

// What one layer keeps, with room for some slots. All of it is NaN at first: reading what was not stored shows.
struct Store {
  KvType type;
  KvForm form;
  HeadDims dims;
  int kv_heads, slots;
  std::vector<std::byte> keys, values;
  std::vector<float> key_scales, value_scales;

  Store(KvType of, KvForm kept, int heads, HeadDims widths, int count)
      : type(of),
        form(kept),
        dims(widths),
        kv_heads(heads),
        slots((count + kSegmentSlots - 1) / kSegmentSlots * kSegmentSlots) {
    const std::size_t bytes = segment_bytes() * static_cast<std::size_t>(slots / kSegmentSlots);
    keys.resize(bytes, std::byte{0xff});
    if (has_values()) values.resize(bytes, std::byte{0xff});
    key_scales.resize(elements(kv_heads, slots), NAN);
    value_scales = key_scales;
  }
  bool has_values() const { return form == KvForm::keys_and_values && dims.value > 0; }
  std::size_t segment_bytes() const {
    return head_bytes(type, std::max(dims.key, dims.value)) * static_cast<std::size_t>(kv_heads);
  }
  KvLayer layer() {
    return {.type = type,
            .keys = keys.data(),
            .values = has_values() ? values.data() : nullptr,
            .key_scales = key_scales.data(),
            .value_scales = value_scales.data(),
            .key_head_bytes = head_bytes(type, dims.key),
            .value_head_bytes = head_bytes(type, dims.value),
            .segment_bytes = segment_bytes(),
            .head_scales = static_cast<std::size_t>(slots),
            .form = form};
  }
};

// One sequence whose `length` positions lie in random runs of the store.
struct Sequence {
  int length;
  std::vector<float> q, keys, values;  // [length, heads or kv_heads, dim]
  std::vector<KvRun> runs;
  std::vector<std::int32_t> last;  // [length], or empty: what each position sees to
  std::vector<std::int32_t> from;  // [length], or empty: from where on each one sees, whatever the rule says
  // [length] or empty: which positions each one sees, by KV head [kv_heads, length]; and which any of them sees.
  std::vector<std::vector<bool>> selected;
  std::vector<bool> stored;  // [length] or empty: all
};

// Root of summed squares of what differs, over all that was added, as a share of what is wanted.
struct RelativeError {
  double squares = 0, size = 0;
  void add(std::span<const float> got, std::span<const float> want) {
    for (std::size_t i = 0; i < want.size(); ++i) {
      squares += std::pow(static_cast<double>(got[i]) - static_cast<double>(want[i]), 2);
      size += std::pow(static_cast<double>(want[i]), 2);
    }
  }
  double value() const { return std::sqrt(squares / size); }
};

// Half a step of a type, as a share of a normally distributed number.
inline double rounding_of(KvType type) {
  switch (type) {
    case KvType::f32:
      return 0;
    case KvType::f16:
      return 2.5e-4;
    case KvType::bf16:
      return 2e-3;
    case KvType::i8:
      return 1e-2;
    case KvType::f8_e4m3:
      return 3e-2;
    case KvType::f8_e5m2:
      return 6e-2;
  }
  return 0;
}

inline constexpr int kMostSpread = 50;  // slots for each token: the sparsest runs are one slot and a gap of 48

// Sequences of random queries, keys and values; rows of them are computed as one batch.
struct Problem {
  AttentionShape shape;
  Store store;
  std::vector<Sequence> sequences;
  RelativeError rounding;    // of keys and values, by storing them
  std::vector<float> sinks;  // [heads], or empty
  PrefixSharing sharing = PrefixSharing::on;

  Problem(std::mt19937_64& rng, const AttentionShape& s, KvType type, const std::vector<int>& lengths,
          KvForm form = KvForm::keys_and_values)
      : shape(s), store(type, form, s.kv_heads, {s.key_dim, s.value_dim}, total(lengths) * kMostSpread + 64) {
    Slot next = 3;
    for (int length : lengths) {
      Sequence& sequence = sequences.emplace_back();
      sequence.length = length;
      sequence.q = random_floats(rng, elements(length, s.heads, s.key_dim));
      sequence.keys = random_floats(rng, elements(length, s.kv_heads, s.key_dim));
      sequence.values = random_floats(rng, elements(length, s.kv_heads, s.value_dim));
      for (int at = 0; at < length;) {
        const int run = std::min<int>(length - at, 1 + static_cast<int>(rng() % 90));
        sequence.runs.push_back({next, run});
        // Straight on, a slot further, or at a place that begins in the lane where this run ends.
        const int gaps[] = {0, 1, kSlotGroup * (1 + static_cast<int>(rng() % 3))};
        next += run + gaps[rng() % 3];
        at += run;
      }
    }
  }
  // Every other stretch of 20 positions is a picture, whose rows see all of it.
  void see_pictures() {
    for (Sequence& s : sequences)
      for (int p = 0; p < s.length; ++p) {
        const bool of_picture = p / 20 % 2 == 1;
        s.last.push_back(of_picture ? std::min(p / 20 * 20 + 19, s.length - 1) : p);
        s.from.push_back(of_picture ? p / 20 * 20 : p);
      }
  }
  // Nothing that the last `rows` of each sequence do not see through a window.
  void store_what_is_seen(const std::vector<int>& rows, int window) {
    for (std::size_t i = 0; i < rows.size(); ++i)
      for (int p = 0; p < sequences[i].length; ++p)
        sequences[i].stored.push_back(p > sequences[i].length - rows[i] - window);
  }
  // Stores what the sequences hold and reads it back: the judge works on what is stored, whose rounding is judged
  // apart.
  void fill(const CpuKernels& cpu) {
    for (Sequence& sequence : sequences) {
      int position = 0;
      for (const KvRun& run : sequence.runs)
        for (int i = 0; i < run.length; ++i, ++position)
          for (int h = 0; h < shape.kv_heads && is_stored(sequence, position); ++h)
            fill(cpu, sequence, position, run.start + i, h);
    }
  }
  bool is_stored(const Sequence& s, int position) const {
    return position % shape.entry_stride == shape.entry_stride - 1 &&
           (s.stored.empty() || s.stored[static_cast<std::size_t>(position)]);
  }
  void fill(const CpuKernels& cpu, Sequence& sequence, int position, Slot slot, int h) {
    const std::int64_t at = std::int64_t{position} * shape.kv_heads + h;
    float* key = &sequence.keys[elements(at, shape.key_dim)];
    float* value = &sequence.values[elements(at, shape.value_dim)];
    cpu.store_kv(store.layer(), slot, key, store.has_values() ? value : nullptr, h, store.dims);
    const plain::StoredHead got = plain::stored_head(store.layer(), h, slot, store.dims);
    rounding.add(got.key, std::span(key, got.key.size()));
    if (store.has_values()) rounding.add(got.value, std::span(value, got.value.size()));
    std::ranges::copy(got.key, key);
    std::ranges::copy(got.value, value);
  }
  static int total(const std::vector<int>& lengths) {
    int sum = 0;
    for (int n : lengths) sum += n;
    return sum;
  }

  std::int64_t q_stride() const { return std::int64_t{shape.heads} * shape.key_dim; }
  std::int64_t out_stride() const { return std::int64_t{shape.heads} * shape.value_dim; }

  std::vector<AttentionSequence> batch(const std::vector<int>& rows) const {
    std::vector<AttentionSequence> out;
    int row = 0;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      const Sequence& s = sequences[i];
      out.push_back({row, rows[i], s.length - rows[i], s.runs, {}});
      if (!s.last.empty()) out.back().last = std::span(s.last).last(static_cast<std::size_t>(rows[i]));
      if (!s.from.empty()) out.back().from = std::span(s.from).last(static_cast<std::size_t>(rows[i]));
      row += rows[i];
    }
    return out;
  }
  std::vector<float> queries(const std::vector<int>& rows) const {
    std::vector<float> q;
    for (std::size_t i = 0; i < sequences.size(); ++i)
      q.insert(q.end(), sequences[i].q.end() - rows[i] * q_stride(), sequences[i].q.end());
    return q;
  }

  // The selected positions of a batch's rows as words, [rows][kv_heads]; behind a row's last position all bits are set:
  // they do not count.
  struct Words {
    std::vector<std::uint64_t> words;
    std::int64_t of_head = 0;
    Selection view(int kv_heads) const {
      if (words.empty()) return {};
      return {words.data(), of_head * kv_heads, of_head};
    }
  };
  Words selection(const std::vector<int>& rows) const {
    Words out;
    int longest = 0;
    for (const Sequence& s : sequences) longest = std::max(longest, s.length);
    if (sequences.front().selected.empty()) return out;
    out.of_head = (longest + 63) / 64;
    for (std::size_t i = 0; i < sequences.size(); ++i)
      for (int r = 0; r < rows[i]; ++r)
        for (int h = 0; h < shape.kv_heads; ++h) {
          const std::size_t at = out.words.size();
          out.words.resize(at + static_cast<std::size_t>(out.of_head), ~std::uint64_t{0});
          const Sequence& s = sequences[i];
          const auto& seen = s.selected[static_cast<std::size_t>(s.length - rows[i] + r)];
          for (int p = 0; p < s.length; ++p)
            if (!seen[elements(h, s.length) + static_cast<std::size_t>(p)])
              out.words[at + static_cast<std::size_t>(p / 64)] &= ~(std::uint64_t{1} << (p % 64));
        }
    return out;
  }

  // Computes the last rows[i] positions of each sequence in one batch.
  std::vector<float> run(const CpuKernels& cpu, int threads, const std::vector<int>& rows) {
    const std::vector<float> q = queries(rows);
    const std::size_t count = q.size() / static_cast<std::size_t>(q_stride());
    std::vector<float> out(count * static_cast<std::size_t>(out_stride()), -7.0f);
    ComputeTeam team(threads);
    const auto parts = batch(rows);
    AttentionPlan plan(shape, parts, threads, sharing);
    const RowFormat format = threads == 1 ? RowFormat::bf16 : RowFormat::int8;
    std::vector<std::byte> converted(count * row_bytes(format, out_stride())), later(converted.size());
    std::optional<ConvertedRows> to;
    if (shape.value_dim % 32 == 0) to = ConvertedRows{format, converted.data()};
    const Words words = selection(rows);
    plan.run(cpu, team, store.layer(),
             {.q = q.data(),
              .q_stride = q_stride(),
              .out = out.data(),
              .out_stride = out_stride(),
              .converted = to,
              .sinks = sinks.empty() ? nullptr : sinks.data(),
              .selection = words.view(shape.kv_heads)});
    if (to) convert_rows(cpu, format, out.data(), out_stride(), out_stride(), 0, static_cast<int>(count), later.data());
    EXPECT_EQ(converted, later) << "rows are converted as they are made";
    return out;
  }

  // Which positions a query sees.
  std::vector<bool> seen(const Sequence& s, int position, int kv_head) const {
    const std::int64_t from = s.from.empty() ? position : s.from[static_cast<std::size_t>(position)],
                       first = std::min(shape.visible.first(position), from),
                       last = s.last.empty() ? position : s.last[static_cast<std::size_t>(position)];
    std::vector<bool> out(static_cast<std::size_t>(last + 1));
    for (std::int64_t p = first; p <= last; ++p)
      out[static_cast<std::size_t>(p)] =
          p % shape.entry_stride == shape.entry_stride - 1 &&
          (s.selected.empty() ||
           s.selected[static_cast<std::size_t>(position)][elements(kv_head, s.length) + static_cast<std::size_t>(p)]);
    return out;
  }
  // One KV head's keys or values [positions, dim].
  std::vector<float> of_head(const std::vector<float>& all, int kv_head, int dim) const {
    std::vector<float> out;
    for (std::int64_t at = kv_head; at < std::ssize(all) / dim; at += shape.kv_heads)
      out.insert(out.end(), all.begin() + at * dim, all.begin() + (at + 1) * dim);
    return out;
  }
  std::vector<float> plain_row(std::size_t sequence, int position) const {
    const Sequence& s = sequences[sequence];
    std::vector<float> out;
    for (int h = 0; h < shape.heads; ++h) {
      const int kv = h / shape.group();
      plain::Scoring how{shape.scale, shape.cap, shape.slopes ? shape.slopes[h] : 0.0f, {}, {}};
      if (shape.bias.values != nullptr)
        how.bias = {shape.bias.values + h * shape.bias.width(), static_cast<std::size_t>(2 * shape.bias.reach + 1)};
      if (!sinks.empty()) how.sink = sinks[static_cast<std::size_t>(h)];
      const std::span q(&s.q[elements(std::int64_t{position} * shape.heads + h, shape.key_dim)],
                        static_cast<std::size_t>(shape.key_dim));
      const auto row =
          plain::attention(q, of_head(s.keys, kv, shape.key_dim), of_head(s.values, kv, shape.value_dim),
                           static_cast<std::size_t>(shape.value_dim), seen(s, position, kv), position, how);
      out.insert(out.end(), row.begin(), row.end());
    }
    return out;
  }

  // Compares a batch with the plain loop, row by row and as a whole.
  void expect_plain(const CpuKernels& cpu, int threads, const std::vector<int>& rows, double bound) {
    const auto got = run(cpu, threads, rows);
    RelativeError all;
    std::int64_t at = 0;
    for (std::size_t i = 0; i < rows.size(); ++i)
      for (int r = 0; r < rows[i]; ++r, at += out_stride()) {
        const auto want = plain_row(i, sequences[i].length - rows[i] + r);
        const auto row = std::span(got).subspan(static_cast<std::size_t>(at), want.size());
        all.add(row, want);
        RelativeError error;
        error.add(row, want);
        if (error.size == 0)
          ASSERT_EQ(error.squares, 0) << cpu.isa << " sequence " << i << " row " << r;
        else
          ASSERT_LT(error.value(), 5 * bound) << cpu.isa << " sequence " << i << " row " << r;
      }
    ASSERT_LT(all.value(), bound) << cpu.isa;
  }

  // The same bits whatever the chunk, the company and the threads: the last rows of all sequences in one batch against
  // more of them, which are computed by one thread.
  void expect_same_bits(const CpuKernels& cpu, const std::vector<int>& chunks) {
    std::vector<int> all;
    for (const Sequence& s : sequences) all.push_back(std::min(s.length, *std::ranges::max_element(chunks) + 30));
    const auto whole = run(cpu, 1, all);
    for (int threads : {1, 2, 5})
      for (int chunk : chunks) {
        std::vector<int> rows;
        for (int most : all) rows.push_back(std::min(most, chunk));
        const auto part = run(cpu, threads, rows);
        auto at = part.begin();
        auto end = whole.begin();
        for (std::size_t i = 0; i < rows.size(); ++i) {
          end += all[i] * out_stride();
          const auto n = static_cast<std::size_t>(rows[i] * out_stride());
          ASSERT_EQ(std::memcmp(&*at, &*(end - static_cast<std::ptrdiff_t>(n)), n * sizeof(float)), 0)
              << cpu.isa << " sequence " << i << " threads " << threads << " chunk " << chunk;
          at += static_cast<std::ptrdiff_t>(n);
        }
      }
  }
};

// How far short arithmetic may be from the plain loop: queries and weights are rounded to bf16 then.
inline double bound_of(const AttentionShape& shape, KvType type, double exact = 2e-6) {
  return shape.exact || type != KvType::bf16 ? exact : 1e-2;
}

// Of sets that share their attention kernels, one.
inline std::vector<const CpuKernels*> attention_kernels() {
  std::vector<const CpuKernels*> out;
  for (const CpuKernels* cpu : runnable_cpu_kernels())
    if (std::ranges::none_of(out, [&](const CpuKernels* other) {
          return other->attend == cpu->attend && other->attend_bf16 == cpu->attend_bf16 &&
                 other->attend_latent_bf16 == cpu->attend_latent_bf16;
        }))
      out.push_back(cpu);
  return out;
}

inline const std::vector<KvType>& kv_types() {
  static const std::vector<KvType> all = {KvType::f32, KvType::bf16,    KvType::f16,
                                          KvType::i8,  KvType::f8_e4m3, KvType::f8_e5m2};
  return all;
}

template <class Param>
std::string kernels_and_type(const ::testing::TestParamInfo<Param>& test) {
  return std::string(std::get<0>(test.param)->isa) + "_" + std::to_string(static_cast<int>(std::get<1>(test.param)));
}

}  // namespace espalier::testing
