// Attention of every instruction set and every type of stored keys and values against the plain loop, and promise 1.
#include "kernels/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "kernels/plain.h"
#include "kernels/random_floats.h"
#include "testing/data.h"

namespace espalier {
namespace {

std::size_t elements(int rows, int columns, int depth = 1) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns) * static_cast<std::size_t>(depth);
}

struct Store {  // keys and values of one layer, slots handed out in shuffled runs
  KvType type;
  int kv_heads, head_dim, slots;
  std::vector<std::byte> keys, values;
  std::vector<float> key_scales, value_scales;

  Store(KvType t, int heads, int dim, int count)
      : type(t), kv_heads(heads), head_dim(dim), slots((count + kSegmentSlots - 1) / kSegmentSlots * kSegmentSlots) {
    const std::size_t bytes = segment_bytes() * static_cast<std::size_t>(slots / kSegmentSlots);
    keys.resize(bytes, std::byte{0xff});  // NaN in every type: reading what was not stored shows
    values.resize(bytes, std::byte{0xff});
    key_scales.resize(static_cast<std::size_t>(kv_heads) * static_cast<std::size_t>(slots));
    value_scales.resize(key_scales.size());
  }
  std::size_t head_bytes() const {
    return static_cast<std::size_t>(kSegmentSlots) * padded_head(head_dim) * element_bytes(type);
  }
  std::size_t segment_bytes() const { return head_bytes() * static_cast<std::size_t>(kv_heads); }
  KvLayer layer() {
    return {type,
            keys.data(),
            values.data(),
            key_scales.data(),
            value_scales.data(),
            head_bytes(),
            segment_bytes(),
            static_cast<std::size_t>(slots)};
  }
};

// One sequence whose `length` positions lie in random runs of the store.
struct Sequence {
  int length;
  std::vector<float> q, keys, values;  // [length, heads or kv_heads, head_dim]
  std::vector<KvRun> runs;
};

struct RelativeError {  // root of summed squares, over all that was added
  double squares = 0, size = 0;
  void add(std::span<const float> got, std::span<const float> want) {
    for (std::size_t i = 0; i < want.size(); ++i) {
      squares += std::pow(static_cast<double>(got[i]) - static_cast<double>(want[i]), 2);
      size += std::pow(static_cast<double>(want[i]), 2);
    }
  }
  double value() const { return std::sqrt(squares / size); }
};

constexpr int kMostSpread = 50;  // slots for each token: the sparsest runs are one slot and a gap of 48

struct Problem {
  AttentionShape shape;
  Store store;
  std::vector<Sequence> sequences;
  RelativeError rounding;  // of keys and values, by storing them

  Problem(const CpuKernels& cpu, std::mt19937_64& rng, AttentionShape s, KvType type, const std::vector<int>& lengths)
      : shape(s), store(type, s.kv_heads, s.head_dim, total(lengths) * kMostSpread + 64) {
    Slot next = 3;
    for (int length : lengths) {
      Sequence sequence{length,
                        random_floats(rng, elements(length, s.heads, s.head_dim)),
                        random_floats(rng, elements(length, s.kv_heads, s.head_dim)),
                        random_floats(rng, elements(length, s.kv_heads, s.head_dim)),
                        {}};
      for (int at = 0; at < length;) {
        const int run = std::min<int>(length - at, 1 + static_cast<int>(rng() % 90));
        sequence.runs.push_back({next, run});
        // Straight on, a slot further, or at a place that begins in the lane where this run ends.
        const int gaps[] = {0, 1, kSlotGroup * (1 + static_cast<int>(rng() % 3))};
        next += run + gaps[rng() % 3];
        at += run;
      }
      fill(cpu, sequence);
      sequences.push_back(std::move(sequence));
    }
  }
  // Stores what the sequence holds and reads it back: the judge works on what is stored, whose rounding is judged
  // apart.
  void fill(const CpuKernels& cpu, Sequence& sequence) {
    int position = 0;
    for (const KvRun& run : sequence.runs)
      for (int i = 0; i < run.length; ++i, ++position)
        for (int h = 0; h < shape.kv_heads; ++h) {
          const std::size_t at = elements(position * shape.kv_heads + h, shape.head_dim);
          float* key = &sequence.keys[at];
          float* value = &sequence.values[at];
          cpu.store_kv(store.layer(), run.start + i, key, value, h, shape.head_dim);
          const plain::StoredHead got = plain::stored_head(store.layer(), h, run.start + i, shape.head_dim);
          rounding.add(std::span(got.key), std::span(key, got.key.size()));
          rounding.add(std::span(got.value), std::span(value, got.value.size()));
          std::ranges::copy(got.key, key);
          std::ranges::copy(got.value, value);
        }
  }
  static int total(const std::vector<int>& lengths) {
    int sum = 0;
    for (int n : lengths) sum += n;
    return sum;
  }

  std::int64_t stride() const { return shape.heads * shape.head_dim; }

  PrefixSharing sharing = PrefixSharing::on;
  std::vector<AttentionSequence> batch(const std::vector<int>& rows) const {
    std::vector<AttentionSequence> out;
    int row = 0;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      out.push_back({row, rows[i], sequences[i].length - rows[i], sequences[i].runs});
      row += rows[i];
    }
    return out;
  }

  // Computes the last rows[i] positions of each sequence in one batch.
  std::vector<float> run(const CpuKernels& cpu, int threads, const std::vector<int>& rows) {
    std::vector<float> q;
    for (std::size_t i = 0; i < sequences.size(); ++i)
      q.insert(q.end(), sequences[i].q.end() - rows[i] * stride(), sequences[i].q.end());
    std::vector<float> out(q.size(), -7.0f);
    ComputeTeam team(threads);
    const auto parts = batch(rows);
    AttentionPlan plan(shape, parts, threads, sharing);
    const RowFormat format = threads == 1 ? RowFormat::bf16 : RowFormat::int8;
    const std::size_t count = out.size() / static_cast<std::size_t>(stride());
    std::vector<std::byte> converted(count * row_bytes(format, stride())), later(converted.size());
    std::optional<ConvertedRows> to;
    if (shape.head_dim % 32 == 0) to = ConvertedRows{format, converted.data()};
    plan.run(cpu, team, store.layer(), q.data(), stride(), out.data(), stride(), to);
    if (to) convert_rows(cpu, format, out.data(), stride(), stride(), 0, static_cast<int>(count), later.data());
    EXPECT_EQ(converted, later) << "rows are converted as they are made";
    return out;
  }

  std::vector<float> plain_row(std::size_t sequence, int position) const {
    const Sequence& s = sequences[sequence];
    std::vector<float> out;
    const std::int64_t first = shape.window > 0 ? std::max<std::int64_t>(0, position - shape.window + 1) : 0;
    for (int h = 0; h < shape.heads; ++h) {
      const int kv = h / shape.group();
      std::vector<float> k, v;
      for (int p = 0; p <= position; ++p) {
        const auto at = (p * shape.kv_heads + kv) * shape.head_dim;
        k.insert(k.end(), s.keys.begin() + at, s.keys.begin() + at + shape.head_dim);
        v.insert(v.end(), s.values.begin() + at, s.values.begin() + at + shape.head_dim);
      }
      std::span<const float> query(&s.q[elements(position * shape.heads + h, shape.head_dim)],
                                   static_cast<std::size_t>(shape.head_dim));
      auto row = plain::attention(query, k, v, first, position, shape.scale);
      out.insert(out.end(), row.begin(), row.end());
    }
    return out;
  }
};

// The first `common` positions in the slots of one sequence, the rest in those of another.
std::vector<KvRun> spliced(const std::vector<KvRun>& first, const std::vector<KvRun>& second, int common) {
  std::vector<KvRun> out;
  int at = 0;
  for (const KvRun& run : first) {
    if (at < common) out.push_back({run.start, std::min(run.length, common - at)});
    at += run.length;
  }
  at = 0;
  for (const KvRun& run : second) {
    const int skip = std::clamp(common - at, 0, run.length);
    if (skip < run.length) out.push_back({run.start + skip, run.length - skip});
    at += run.length;
  }
  return out;
}

class EachAttention : public ::testing::TestWithParam<std::tuple<const CpuKernels*, KvType>> {
 protected:
  const CpuKernels& cpu = *std::get<0>(GetParam());
  KvType type = std::get<1>(GetParam());
  std::mt19937_64 rng{testing::seed()};
  double rounding() const {  // half a step of the type, as a share of a normally distributed number
    switch (type) {
      case KvType::f32:
        return 0;
      case KvType::f16:
        return 2.5e-4;
      case KvType::bf16:
        return 2e-3;
      case KvType::i8:
        return 8e-3;
      case KvType::f8_e4m3:
        return 3e-2;
      case KvType::f8_e5m2:
        return 6e-2;
    }
    return 0;
  }
};

TEST_P(EachAttention, AgreesWithThePlainLoopOnOddShapes) {
  for (AttentionShape shape : {AttentionShape{9, 3, 64, 0, 0.125f}, AttentionShape{4, 4, 16, 0, 0.25f},
                               AttentionShape{6, 1, 80, 37, 0.11f}, AttentionShape{5, 1, 33, 0, 0.17f}}) {
    Problem problem(cpu, rng, shape, type, {1, 70, 333, 16});
    ASSERT_LE(problem.rounding.value(), rounding()) << cpu.isa << " head_dim " << shape.head_dim;
    const std::vector<int> rows = {1, 70, 1, 5};
    for (bool exact : {true, false}) {
      problem.shape.exact = exact;
      const auto got = problem.run(cpu, 2, rows);
      const double bound = exact || type != KvType::bf16 ? 2e-6 : 1e-2;  // short: queries and weights rounded to bf16
      RelativeError all;
      std::int64_t at = 0;
      for (std::size_t i = 0; i < rows.size(); ++i)
        for (int r = 0; r < rows[i]; ++r, at += problem.stride()) {
          const auto want = problem.plain_row(i, problem.sequences[i].length - rows[i] + r);
          const auto row = std::span(got).subspan(static_cast<std::size_t>(at), want.size());
          all.add(row, want);
          RelativeError error;
          error.add(row, want);
          ASSERT_LT(error.value(), exact ? bound : 5 * bound)
              << cpu.isa << " head_dim " << shape.head_dim << " sequence " << i << " row " << r << " exact " << exact;
        }
      ASSERT_LT(all.value(), bound) << cpu.isa << " head_dim " << shape.head_dim << " exact " << exact;
    }
  }
}

TEST_P(EachAttention, SameBitsWhateverTheChunkTheBatchAndTheThreads) {
  for (std::int64_t window : {0, 100}) {
    Problem problem(cpu, rng, AttentionShape{6, 2, 32, window, 0.2f}, type, {700, 130});
    const auto whole = problem.run(cpu, 1, {700, 130});
    for (int threads : {1, 4}) {
      for (int last : {1, 3, 64, 129}) {
        const auto part = problem.run(cpu, threads, {last, last});
        const auto n = static_cast<std::size_t>(last * problem.stride());
        ASSERT_EQ(std::memcmp(part.data(), whole.data() + static_cast<std::size_t>(700 * problem.stride()) - n,
                              n * sizeof(float)),
                  0);
        ASSERT_EQ(std::memcmp(part.data() + n, whole.data() + whole.size() - n, n * sizeof(float)), 0);
      }
    }
  }
}

// Sequences of one random tree: each follows an earlier one up to a random position, in the same slots, then goes
// alone.
TEST_P(EachAttention, SharedPrefixesGiveTheSameBitsAsReadingThemApart) {
  for (int round = 0; round < 4; ++round) {
    const AttentionShape shape = round % 2 ? AttentionShape{6, 2, 32, 0, 0.2f} : AttentionShape{4, 4, 48, 0, 0.2f};
    std::vector<int> lengths;
    for (int i = 0; i < 9; ++i) lengths.push_back(700 + static_cast<int>(rng() % 700));
    Problem problem(cpu, rng, shape, type, lengths);
    for (std::size_t i = 1; i < problem.sequences.size(); ++i) {
      Sequence& s = problem.sequences[i];
      const Sequence& other = problem.sequences[rng() % i];
      const int common =
          round == 3 ? 640 : static_cast<int>(rng() % static_cast<unsigned>(std::min(s.length, other.length)));
      s.runs = spliced(other.runs, s.runs, common);
    }
    std::vector<int> rows;
    for (int i = 0; i < 9; ++i) rows.push_back(i % 3 == 2 ? 1 + static_cast<int>(rng() % 9) : 1);
    problem.sharing = PrefixSharing::off;
    const auto apart = problem.run(cpu, 1, rows);
    problem.sharing = PrefixSharing::on;
    if (round == 3) {  // in the others chance may make them share little
      ASSERT_FALSE(shared_blocks(problem.batch(rows)).empty());
    }
    for (int threads : {1, 2, 4}) {
      const auto together = problem.run(cpu, threads, rows);
      ASSERT_EQ(std::memcmp(together.data(), apart.data(), apart.size() * sizeof(float)), 0)
          << cpu.isa << " round " << round;
    }
  }
}

TEST(SharedBlocks, FormATreeOfGroupsThatPayForTheirLevel) {
  const std::vector<KvRun> alone = {{8192, 4096}};
  std::vector<std::vector<KvRun>> runs;
  for (int i = 0; i < 4; ++i) runs.push_back({{0, 1024}, {2048, 512}, {4096 + 64 * i, 64}});
  for (int i = 0; i < 2; ++i) runs.push_back({{0, 1024}, {5120 + 64 * i, 64}});
  runs.push_back(alone);
  std::vector<AttentionSequence> sequences;
  for (const auto& r : runs) {
    std::int64_t length = 0;
    for (const KvRun& run : r) length += run.length;
    sequences.push_back({static_cast<int>(sequences.size()), 1, length - 1, r});
  }
  const auto groups = shared_blocks(sequences);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].sequences, (std::vector<int>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(groups[0].block_begin, 0);
  EXPECT_EQ(groups[0].block_end, 8);
  EXPECT_EQ(groups[0].level, 0);
  EXPECT_EQ(groups[1].sequences, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(groups[1].block_begin, 8);
  EXPECT_EQ(groups[1].block_end, 12);
  EXPECT_EQ(groups[1].level, 1);
}

INSTANTIATE_TEST_SUITE_P(Isa, EachAttention,
                         ::testing::Combine(::testing::ValuesIn(runnable_cpu_kernels()),
                                            ::testing::Values(KvType::f32, KvType::bf16, KvType::f16, KvType::i8,
                                                              KvType::f8_e4m3, KvType::f8_e5m2)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param)->isa) + "_" +
                                  std::to_string(static_cast<int>(std::get<1>(test.param)));
                         });

}  // namespace
}  // namespace espalier
