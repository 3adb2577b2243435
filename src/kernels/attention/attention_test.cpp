// Attention of every instruction set and every type of stored keys and values against the plain loop, and promise 1.
#include "kernels/attention/attention.h"

#include "kernels/attention/attention_problem.h"
#include "testing/data.h"

namespace espalier {
namespace {

using testing::Problem;
using testing::Sequence;

AttentionShape square(int heads, int kv_heads, int head_dim, float scale, Visibility visible = {}) {
  return {.heads = heads,
          .kv_heads = kv_heads,
          .key_dim = head_dim,
          .value_dim = head_dim,
          .visible = visible,
          .scale = scale};
}

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
};

TEST_P(EachAttention, AgreesWithThePlainLoopOnOddShapes) {
  for (AttentionShape shape : {square(9, 3, 64, 0.125f), square(4, 4, 16, 0.25f),
                               square(6, 1, 80, 0.11f, Visibility::window(37)), square(5, 1, 33, 0.17f)}) {
    for (bool exact : {true, false}) {
      shape.exact = exact;
      Problem problem(rng, shape, type, {1, 70, 333, 16});
      problem.fill(cpu);
      ASSERT_LE(problem.rounding.value(), testing::rounding_of(type)) << cpu.isa << " head_dim " << shape.key_dim;
      problem.expect_plain(cpu, 2, {1, 70, 1, 5}, testing::bound_of(shape, type));
    }
  }
}

TEST_P(EachAttention, KeysMayBeWiderOrNarrowerThanValues) {
  for (auto [key, value] : {std::pair{192, 128}, {24, 16}, {40, 72}, {576, 512}, {7, 90}}) {
    AttentionShape shape{.heads = 6, .kv_heads = 2, .key_dim = key, .value_dim = value, .scale = 0.07f};
    for (bool exact : {true, false}) {
      shape.exact = exact;
      Problem problem(rng, shape, type, {1, 150, 290});
      problem.fill(cpu);
      problem.expect_plain(cpu, 2, {1, 20, 3}, testing::bound_of(shape, type));
      problem.expect_same_bits(cpu, {1, 7});
    }
  }
}

TEST_P(EachAttention, SameBitsWhateverTheChunkTheBatchAndTheThreads) {
  for (Visibility visible : {Visibility{}, Visibility::window(100), Visibility::chunk(150)}) {
    Problem problem(rng, square(6, 2, 32, 0.2f, visible), type, {700, 130});
    problem.fill(cpu);
    problem.expect_same_bits(cpu, {1, 3, 64, 129});
  }
}

TEST_P(EachAttention, ChunksOfPositionsSeeNothingBeforeThem) {
  AttentionShape shape = square(4, 2, 32, 0.2f, Visibility::chunk(100));
  Problem problem(rng, shape, type, {100, 101, 450, 200});
  problem.fill(cpu);
  problem.expect_plain(cpu, 2, {3, 2, 120, 1}, testing::bound_of(shape, type));
}

// As the rows of an image, which see one another whatever their order.
TEST_P(EachAttention, RowsMaySeeBeyondTheirOwnPosition) {
  for (Visibility visible : {Visibility{}, Visibility::window(90)}) {
    AttentionShape shape = square(4, 2, 32, 0.2f, visible);
    Problem problem(rng, shape, type, {300, 180, 260});
    for (Sequence& s : problem.sequences)
      for (int p = 0; p < s.length; ++p) s.last.push_back(p >= 110 && p < 170 ? 169 : p >= 250 && p < 257 ? 256 : p);
    problem.fill(cpu);
    problem.expect_plain(cpu, 2, {200, 100, 30}, testing::bound_of(shape, type));
    problem.expect_same_bits(cpu, {131, 75});
  }
}

// As the rows of an image that is wider than a window: they see its first ones, others still see only the window.
TEST_P(EachAttention, RowsMaySeeFromBeforeTheirWindow) {
  for (Visibility visible : {Visibility::window(37), Visibility::window(129), Visibility::chunk(100)})
    for (const auto& [heads, kv_heads, dim] : {std::tuple{6, 2, 32}, {5, 1, 33}}) {
      AttentionShape shape = square(heads, kv_heads, dim, 0.2f, visible);
      Problem problem(rng, shape, type, {303, 181, 260, 17});
      for (Sequence& s : problem.sequences)
        for (int p = 0; p < s.length;) {  // spans of random odd lengths, text between them
          const int text = std::min(s.length - p, static_cast<int>(rng() % 40)),
                    span = std::min(s.length - p - text, 1 + 2 * static_cast<int>(rng() % 80));
          for (int i = 0; i < text; ++i, ++p) s.from.push_back(p), s.last.push_back(p);
          s.from.insert(s.from.end(), static_cast<std::size_t>(span), p);
          s.last.insert(s.last.end(), static_cast<std::size_t>(span), p + span - 1);
          p += span;
        }
      problem.fill(cpu);
      problem.expect_plain(cpu, 2, {303, 100, 31, 5}, testing::bound_of(shape, type));
      problem.expect_same_bits(cpu, {131, 75, 1});
    }
}

// What is behind a window may be given back: other sequences write there, or nobody ever did.
TEST_P(EachAttention, NothingBehindAWindowIsRead) {
  for (KvForm form : {KvForm::keys_and_values, KvForm::latent})
    for (bool exact : {true, false}) {
      AttentionShape shape = square(6, 1, 48, 0.2f, Visibility::window(70));
      shape.exact = exact;
      Problem problem(rng, shape, type, {300, 200, 90}, form);
      const std::vector<int> rows = {1, 3, 9};
      problem.store_what_is_seen(rows, 70);
      problem.fill(cpu);
      problem.expect_plain(cpu, 2, rows, testing::bound_of(shape, type));
    }
}

TEST_P(EachAttention, SinksJoinTheDenominatorOnce) {
  AttentionShape shape = square(6, 2, 32, 0.2f, Visibility::window(150));
  Problem problem(rng, shape, type, {500, 40, 1});
  problem.sinks = {0.0f, -3.0f, 9.0f, 250.0f, -1000.0f, 2.5f};
  problem.fill(cpu);
  problem.expect_plain(cpu, 5, {3, 40, 1}, testing::bound_of(shape, type));
  problem.expect_same_bits(cpu, {1, 40});
  shape.visible = {};
  Problem shared(rng, shape, type, {1300, 1250, 1200});
  for (std::size_t i = 1; i < 3; ++i)
    shared.sequences[i].runs = spliced(shared.sequences[0].runs, shared.sequences[i].runs, 1024);
  shared.sinks = problem.sinks;
  shared.fill(cpu);
  ASSERT_FALSE(shared_blocks(shared.batch({1, 1, 1})).empty());
  const auto together = shared.run(cpu, 2, {1, 1, 1});
  shared.sharing = PrefixSharing::off;
  EXPECT_EQ(together, shared.run(cpu, 1, {1, 1, 1}));
}

TEST_P(EachAttention, ScoresAreCappedAndPayForDistance) {
  const std::vector<float> slopes = {0.5f, 0.25f, 0.0625f, 0.0f};
  for (float cap : {0.0f, 3.0f, 50.0f})
    for (const float* slope : {slopes.data(), static_cast<const float*>(nullptr)}) {
      AttentionShape shape = square(4, 2, 48, 0.4f);
      shape.cap = cap;
      shape.slopes = slope;
      Problem problem(rng, shape, type, {300, 140, 1});
      problem.fill(cpu);
      problem.expect_plain(cpu, 2, {3, 10, 1}, testing::bound_of(shape, type, 4e-6));
      problem.expect_same_bits(cpu, {1, 30});
    }
}

TEST_P(EachAttention, ABiasByDistanceIsAddedAndGoesOnBeyondItsReach) {
  constexpr int kReach = 48, kWidth = 2 * kReach + 16;
  std::vector<float> table;
  for (int h = 0; h < 4; ++h)
    for (int d = -kReach; d < kReach + 16; ++d)
      table.push_back(std::sin(0.3f * static_cast<float>(std::clamp(d, 16 - kReach, kReach) * (h + 1))));
  AttentionShape shape = square(4, 2, 48, 0.4f);
  shape.bias = {table.data(), kReach};
  ASSERT_EQ(shape.bias.width(), kWidth);
  Problem problem(rng, shape, type, {300, 140, 1});
  problem.fill(cpu);
  problem.expect_plain(cpu, 2, {3, 10, 1}, testing::bound_of(shape, type, 4e-6));
  problem.expect_same_bits(cpu, {1, 30});
}

TEST_P(EachAttention, ManyQueryHeadsOverOneKeyTakeTurnsWithTheSameBits) {
  AttentionShape shape = square(71, 1, 160, 0.08f);
  Problem problem(rng, shape, type, {1500, 40});
  problem.fill(cpu);
  problem.expect_plain(cpu, 2, {2, 3}, testing::bound_of(shape, type));
  const auto one = problem.run(cpu, 1, {2, 3});
  for (int threads : {2, 3, 7}) ASSERT_EQ(one, problem.run(cpu, threads, {2, 3})) << threads;
}

// Sequences of one random tree: each follows an earlier one up to a random position, in the same slots, then goes
// alone.
TEST_P(EachAttention, SharedPrefixesGiveTheSameBitsAsReadingThemApart) {
  for (int round = 0; round < 4; ++round) {
    const AttentionShape shape = round % 2 ? square(6, 2, 32, 0.2f) : square(4, 4, 48, 0.2f);
    std::vector<int> lengths;
    for (int i = 0; i < 9; ++i) lengths.push_back(700 + static_cast<int>(rng() % 700));
    Problem problem(rng, shape, type, lengths);
    problem.fill(cpu);
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
    sequences.push_back({static_cast<int>(sequences.size()), 1, length - 1, r, {}});
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
                         ::testing::Combine(::testing::ValuesIn(testing::attention_kernels()),
                                            ::testing::ValuesIn(testing::kv_types())),
                         [](const auto& test) { return testing::kernels_and_type(test); });

}  // namespace
}  // namespace espalier
