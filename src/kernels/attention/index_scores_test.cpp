// Index scores and the positions that are chosen by them, against plain loops; promise 1.
#include "kernels/attention/index_scores.h"

#include <numeric>

#include "kernels/attention/attention_problem.h"
#include "testing/data.h"

namespace espalier {
namespace {

using testing::Problem;

std::vector<bool> bits_of(const SelectedPositions& selected, int row, int selection, int count) {
  std::vector<bool> out;
  const Selection view = selected.view();
  for (int p = 0; p < count; ++p) out.push_back((view.of(row, selection)[p / 64] >> (p % 64) & 1) != 0);
  return out;
}

// By sorting: higher scores first, then lower places.
std::vector<bool> plain_top(const std::vector<float>& scores, int top) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  std::vector<bool> out(scores.size());
  for (std::size_t i = 0; i < order.size() && std::cmp_less(i, top); ++i) out[order[i]] = true;
  return out;
}

TEST(ChooseTop, TakesTheHighestAndOfEqualOnesTheFirst) {
  std::mt19937_64 rng(testing::seed());
  for (int round = 0; round < 300; ++round) {
    std::vector<float> scores = random_floats(rng, 1 + rng() % 400);
    if (round % 3 == 1)
      for (float& s : scores) s = static_cast<float>(static_cast<int>(s * 2.0f)) * (round % 2 ? 1.0f : -0.5f);
    if (round % 3 == 2)
      for (float& s : scores) s = rng() % 3 ? s : rng() % 2 ? 0.0f : -0.0f;
    if (round % 5 == 0) scores[rng() % scores.size()] = INFINITY;
    if (round % 7 == 0) scores[rng() % scores.size()] = -INFINITY;
    const int top = static_cast<int>(rng() % (scores.size() + 3));
    std::vector<std::uint64_t> bits((scores.size() + 63) / 64);
    choose_top(scores, top, bits);
    std::vector<bool> got;
    for (std::size_t i = 0; i < scores.size(); ++i) got.push_back((bits[i / 64] >> (i % 64) & 1) != 0);
    ASSERT_EQ(got, plain_top(scores, top)) << "round " << round << " top " << top;
  }
}

TEST(ChooseTop, TakesNumbersBeforeNaN) {
  const std::vector<float> scores = {NAN, -INFINITY, NAN, 3.0f};
  std::vector<std::uint64_t> bits(1);
  choose_top(scores, 3, bits);
  EXPECT_EQ(bits[0], 0b1011u);
}

class EachIndex : public ::testing::TestWithParam<std::tuple<const CpuKernels*, KvType>> {
 protected:
  const CpuKernels& cpu = *std::get<0>(GetParam());
  KvType type = std::get<1>(GetParam());
  std::mt19937_64 rng{testing::seed()};

  // Index keys of sequences, filled; the queries of a problem are those of the indexer.
  Problem indexed(const IndexShape& shape, const std::vector<int>& lengths) {
    Problem problem(
        rng,
        {.heads = shape.heads, .kv_heads = 1, .key_dim = shape.dim, .value_dim = 0, .entry_stride = shape.entry_stride},
        type, lengths);
    problem.fill(cpu);
    return problem;
  }
  static std::vector<float> weights_of(const Problem& problem, const std::vector<float>& all,
                                       const std::vector<int>& rows) {
    std::vector<float> out;
    auto end = all.begin();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      end += problem.sequences[i].length * problem.shape.heads;
      out.insert(out.end(), end - rows[i] * problem.shape.heads, end);
    }
    return out;
  }
  SelectedPositions choose(Problem& problem, const IndexShape& shape, const std::vector<float>& all_weights,
                           const std::vector<int>& rows, int threads) {
    const std::vector<float> q = problem.queries(rows), weights = weights_of(problem, all_weights, rows);
    ComputeTeam team(threads);
    const auto batch = problem.batch(rows);
    IndexPlan plan(shape, batch, threads);
    SelectedPositions out;
    plan.run(cpu, team, problem.store.layer(),
             {.q = q.data(), .q_stride = problem.q_stride(), .weights = weights.data(), .weight_stride = shape.heads},
             out);
    return out;
  }
  // Scores of a position against those it sees, by the plain loop.
  static std::vector<double> plain_scores(const Problem& problem, std::size_t sequence, int position,
                                          std::span<const float> weights, float scale) {
    const auto& s = problem.sequences[sequence];
    const std::size_t dim = static_cast<std::size_t>(problem.shape.key_dim),
                      width = static_cast<std::size_t>(problem.q_stride());
    return plain::index_scores(std::span(s.q).subspan(static_cast<std::size_t>(position) * width, width), weights,
                               std::span(s.keys).first((static_cast<std::size_t>(position) + 1) * dim), dim, scale);
  }
};

// Rounding may swap scores that are nearly equal: what is chosen is never clearly worse than what is left.
void expect_best(const std::vector<double>& scores, const std::vector<bool>& chosen, int top, double slack) {
  double least = INFINITY, most = -INFINITY, size = 0;
  int count = 0;
  for (std::size_t p = 0; p < scores.size(); ++p) {
    size = std::max(size, std::abs(scores[p]));
    if (chosen[p])
      ++count, least = std::min(least, scores[p]);
    else
      most = std::max(most, scores[p]);
  }
  ASSERT_EQ(count, std::min(top, static_cast<int>(scores.size())));
  ASSERT_GE(least, most - slack * size);
}

TEST_P(EachIndex, WeightedScoresChooseTheBestPositions) {
  for (IndexShape shape : {IndexShape{.heads = 4, .dim = 32, .scale = 0.2f, .top = 16},
                           IndexShape{.heads = 64, .dim = 128, .scale = 0.09f, .top = 60},
                           IndexShape{.heads = 33, .dim = 20, .scale = 0.2f, .exact = true, .top = 7}}) {
    Problem problem = indexed(shape, {1, 300, 140});
    const std::vector<float> weights = random_floats(rng, testing::elements(441, shape.heads));
    const std::vector<int> rows = {1, 20, 140};
    const SelectedPositions got = choose(problem, shape, weights, rows, 2);
    const std::vector<float> some = weights_of(problem, weights, rows);
    int row = 0;
    for (std::size_t i = 0; i < rows.size(); ++i)
      for (int p = problem.sequences[i].length - rows[i]; p < problem.sequences[i].length; ++p, ++row) {
        const auto of_row =
            std::span(some).subspan(testing::elements(row, shape.heads), static_cast<std::size_t>(shape.heads));
        expect_best(plain_scores(problem, i, p, of_row, shape.scale), bits_of(got, row, 0, p + 1), shape.top,
                    shape.exact || type != KvType::bf16 ? 1e-5 : 2e-2);
      }
  }
}

TEST_P(EachIndex, EachHeadChoosesRunsOfPositionsAndItsOwnAlways) {
  const IndexShape shape{
      .heads = 3, .dim = 32, .scale = 1.0f, .each_head = true, .exact = true, .top = 4, .run = 16, .local_runs = 2};
  Problem problem = indexed(shape, {400, 17, 90});
  const std::vector<int> rows = {50, 17, 3};
  const SelectedPositions got = choose(problem, shape, std::vector<float>(3 * 507), rows, 2);
  const float one[] = {1.0f};
  int row = 0;
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (int p = problem.sequences[i].length - rows[i]; p < problem.sequences[i].length; ++p, ++row)
      for (int h = 0; h < 3; ++h) {
        const auto& s = problem.sequences[i];
        const std::span q(&s.q[testing::elements(3L * p + h, 32)], 32);
        std::vector<double> of_runs((static_cast<std::size_t>(p) + 16) / 16, -INFINITY);
        for (int at = 0; at <= p; ++at)
          of_runs[static_cast<std::size_t>(at / 16)] =
              std::max(of_runs[static_cast<std::size_t>(at / 16)],
                       plain::dot(q, std::span(s.keys).subspan(testing::elements(at, 32), 32)) * one[0]);
        const std::vector<bool> bits = bits_of(got, row, h, p + 1);
        std::vector<bool> runs;
        for (int at = 0; at <= p; at += 16) {
          runs.push_back(bits[static_cast<std::size_t>(at)]);
          for (int j = at; j < std::min(at + 16, p + 1); ++j) ASSERT_EQ(bits[static_cast<std::size_t>(j)], runs.back());
        }
        for (std::size_t j = 0; j < 2 && j < runs.size(); ++j) {
          ASSERT_TRUE(runs[runs.size() - 1 - j]);
          of_runs[runs.size() - 1 - j] = 1000.0;
        }
        expect_best(of_runs, runs, 4, 1e-6);
      }
}

TEST_P(EachIndex, EntriesAtEveryFewPositionsCompete) {
  const IndexShape shape{.heads = 4, .dim = 32, .scale = 0.2f, .exact = true, .top = 9, .entry_stride = 4};
  Problem problem = indexed(shape, {310, 3});
  const std::vector<float> weights = random_floats(rng, 4 * 313);
  const std::vector<int> rows = {100, 3};
  const SelectedPositions got = choose(problem, shape, weights, rows, 2);
  const std::vector<float> some = weights_of(problem, weights, rows);
  int row = 0;
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (int p = problem.sequences[i].length - rows[i]; p < problem.sequences[i].length; ++p, ++row) {
      const auto scores = plain_scores(problem, i, p, std::span(some).subspan(testing::elements(row, 4), 4), 0.2f);
      const auto bits = bits_of(got, row, 0, p + 1);
      std::vector<double> entries;
      std::vector<bool> chosen;
      for (int at = 0; at <= p; ++at) {
        if (at % 4 == 3) {
          entries.push_back(scores[static_cast<std::size_t>(at)]);
          chosen.push_back(bits[static_cast<std::size_t>(at)]);
        } else {
          ASSERT_FALSE(bits[static_cast<std::size_t>(at)]);
        }
      }
      if (entries.empty()) continue;
      expect_best(entries, chosen, 9, 1e-5);
    }
}

TEST_P(EachIndex, EntriesStandForTheirPositionsAndTheRestIsKept) {
  const IndexShape apart{.heads = 4, .dim = 32, .scale = 0.2f, .exact = true, .top = 9, .entry_stride = 4};
  IndexShape together = apart;
  together.run = 4;
  Problem problem = indexed(apart, {310, 3, 8});
  const std::vector<float> weights = random_floats(rng, 4 * 321);
  const std::vector<int> rows = {100, 3, 8};
  const SelectedPositions entries = choose(problem, apart, weights, rows, 2),
                          got = choose(problem, together, weights, rows, 2);
  int row = 0;
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (int p = problem.sequences[i].length - rows[i]; p < problem.sequences[i].length; ++p, ++row) {
      const auto wanted = bits_of(entries, row, 0, p + 1), bits = bits_of(got, row, 0, p + 1);
      for (int at = 0; at <= p; ++at) {
        const int last = at / 4 * 4 + 3;
        ASSERT_EQ(bits[static_cast<std::size_t>(at)], last > p || wanted[static_cast<std::size_t>(last)])
            << p << " " << at;
      }
    }
}

TEST_P(EachIndex, TheSameChoiceWhateverTheChunkTheCompanyAndTheThreads) {
  for (bool each_head : {false, true}) {
    const IndexShape shape{.heads = 5, .dim = 32, .scale = 0.2f, .each_head = each_head, .top = 40};
    Problem problem = indexed(shape, {2500, 260});
    const std::vector<float> weights = random_floats(rng, testing::elements(2760, 5));
    const SelectedPositions whole = choose(problem, shape, weights, {50, 50}, 1);
    for (int threads : {1, 2, 5})
      for (int chunk : {1, 7, 20}) {
        const SelectedPositions part = choose(problem, shape, weights, {chunk, chunk}, threads);
        for (int i = 0; i < chunk; ++i)
          for (int s = 0; s < shape.selections(); ++s) {
            const int p = 2500 - chunk + i, q = 260 - chunk + i;
            ASSERT_EQ(bits_of(part, i, s, p + 1), bits_of(whole, 50 - chunk + i, s, p + 1));
            ASSERT_EQ(bits_of(part, chunk + i, s, q + 1), bits_of(whole, 100 - chunk + i, s, q + 1));
          }
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, EachIndex,
                         ::testing::Combine(::testing::ValuesIn(testing::attention_kernels()),
                                            ::testing::ValuesIn(testing::kv_types())),
                         [](const auto& test) { return testing::kernels_and_type(test); });

}  // namespace
}  // namespace espalier
