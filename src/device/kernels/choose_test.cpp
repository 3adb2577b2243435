// A device chooses the positions that the CPU's indexer chooses.
#include "device/kernels/attended_problem.h"
#include "kernels/attention/index_scores.h"
#include "testing/data.h"

namespace espalier {
namespace {

using testing::AttendedRows;
using testing::elements;
using testing::Emulated;
using testing::Problem;

class DeviceChoice : public ::testing::TestWithParam<KvType> {
 protected:
  const CpuKernels& cpu = *runnable_cpu_kernels().front();
  KvType type = GetParam();
  std::mt19937_64 rng{testing::seed()};
  Emulated emulated;

  Problem indexed(const IndexShape& shape, const std::vector<int>& lengths) {
    return {
        rng,
        {.heads = shape.heads, .kv_heads = 1, .key_dim = shape.dim, .value_dim = 0, .entry_stride = shape.entry_stride},
        type,
        lengths};
  }
  // Rows of random weights, or none.
  std::vector<float> weights_of(const IndexShape& shape, const std::vector<int>& rows) {
    return shape.each_head ? std::vector<float>() : random_floats(rng, elements(Problem::total(rows), shape.heads));
  }

  std::vector<std::uint64_t> on_cpu(Problem& problem, const IndexShape& shape, const std::vector<int>& rows,
                                    const std::vector<float>& weights, std::int64_t& row_stride) {
    const std::vector<float> q = problem.queries(rows);
    ComputeTeam team(1);
    const auto batch = problem.batch(rows);
    IndexPlan plan(shape, batch, 1);
    SelectedPositions out;
    plan.run(cpu, team, problem.store.layer(),
             {.q = q.data(), .q_stride = problem.q_stride(), .weights = weights.data(), .weight_stride = shape.heads},
             out);
    row_stride = out.view().row_stride;
    return {out.view().words, out.view().words + row_stride * Problem::total(rows)};
  }
  std::vector<std::uint64_t> on_device(Problem& problem, const IndexShape& shape, const std::vector<int>& rows,
                                       const std::vector<float>& weights, std::int64_t row_stride) {
    const AttendedRows attended(problem.batch(rows), {});
    cuda::ChoosePositionsTask task{};
    task.kv = put_layer(emulated, problem.store);
    task.heads = shape.heads;
    task.dim = shape.dim;
    task.scale = shape.scale;
    task.each_head = shape.each_head;
    task.top = shape.top;
    task.run = shape.run;
    task.local_runs = shape.local_runs;
    task.entry_stride = shape.entry_stride;
    task.rows = emulated.put(attended.rows);
    task.row_count = static_cast<int>(attended.rows.size());
    task.runs = emulated.put(attended.runs);
    task.q = emulated.put(problem.queries(rows));
    task.q_stride = problem.q_stride();
    task.weights = shape.each_head ? nullptr : emulated.put(weights);
    task.weight_stride = shape.heads;
    std::int64_t longest = 0;
    for (const auto& sequence : problem.sequences) longest = std::max<std::int64_t>(longest, sequence.length);
    task.score_stride = (longest + kAttentionBlock - 1) / kAttentionBlock * kAttentionBlock;
    const std::size_t row_selections = elements(task.row_count, shape.selections());
    task.scores = emulated.put(std::vector<float>(row_selections * elements(task.score_stride, 1), NAN));
    task.row_stride = row_stride;
    task.head_stride = shape.selections() > 1 ? row_stride / shape.selections() : 0;
    task.words = emulated.put(std::vector<std::uint64_t>(elements(task.row_count, row_stride), ~std::uint64_t{0}));
    emulated.run(kEspalierChoosePositions, task);
    return emulated.get(task.words, elements(task.row_count, row_stride));
  }
  void expect_choice_of_cpu(Problem& problem, const IndexShape& shape, const std::vector<int>& rows,
                            const std::vector<float>& weights) {
    problem.fill(cpu);
    std::int64_t row_stride = 0;
    const auto want = on_cpu(problem, shape, rows, weights, row_stride);
    ASSERT_EQ(on_device(problem, shape, rows, weights, row_stride), want)
        << "heads " << shape.heads << " top " << shape.top << " run " << shape.run;
  }
  void expect_choice_of_cpu(const IndexShape& shape, const std::vector<int>& lengths, const std::vector<int>& rows) {
    Problem problem = indexed(shape, lengths);
    expect_choice_of_cpu(problem, shape, rows, weights_of(shape, rows));
  }
};

TEST_P(DeviceChoice, WeightedScoresChooseTheBestPositions) {
  for (const IndexShape& shape : {IndexShape{.heads = 4, .dim = 32, .scale = 0.2f, .exact = true, .top = 16},
                                  IndexShape{.heads = 64, .dim = 128, .scale = 0.09f, .exact = true, .top = 60},
                                  IndexShape{.heads = 33, .dim = 20, .scale = 0.2f, .exact = true, .top = 7},
                                  IndexShape{.heads = 40, .dim = 576, .scale = 0.1f, .exact = true, .top = 50}})
    expect_choice_of_cpu(shape, {1, 300, 140}, {1, 3, 9});
}

TEST_P(DeviceChoice, LongContextsAreCutIntoPieces) {
  expect_choice_of_cpu({.heads = 5, .dim = 32, .scale = 0.2f, .exact = true, .top = 300}, {2500, 260}, {2, 40});
}

TEST_P(DeviceChoice, EachHeadChoosesRunsAndTheLastOnesAlways) {
  for (int run : {1, 3, 16})
    for (int local : {0, 2})
      expect_choice_of_cpu({.heads = 3,
                            .dim = 32,
                            .scale = 1.0f,
                            .each_head = true,
                            .exact = true,
                            .top = 4,
                            .run = run,
                            .local_runs = local},
                           {400, 17, 1100}, {30, 17, 3});
}

TEST_P(DeviceChoice, EntriesAtEveryFewPositionsCompeteAndMayStandForThem) {
  for (int run : {1, 4})
    expect_choice_of_cpu({.heads = 4, .dim = 32, .scale = 0.2f, .exact = true, .top = 9, .run = run, .entry_stride = 4},
                         {310, 3, 8}, {100, 3, 8});
}

TEST_P(DeviceChoice, OfEqualScoresTheEarlierPositionsAreChosen) {
  for (int top : {0, 1, 63, 200, 299, 500}) {
    const IndexShape shape{.heads = 4, .dim = 32, .scale = 0.2f, .exact = true, .top = top};
    Problem problem = indexed(shape, {300, 90});
    for (float& q : problem.sequences[1].q) q = 0.0f;
    const std::vector<int> rows = {3, 4};
    std::vector<float> weights = weights_of(shape, rows);
    for (int h = 0; h < shape.heads; ++h) weights[static_cast<std::size_t>(h)] = 0.0f;  // of the first row
    expect_choice_of_cpu(problem, shape, rows, weights);
  }
}

// Of f32, which alone stores them all.
class DeviceChoiceOfFloats : public DeviceChoice {};
TEST_P(DeviceChoiceOfFloats, NumbersComeBeforeNaNAndInfinitiesHaveTheirPlaces) {
  for (int run : {1, 5}) {
    const IndexShape shape{
        .heads = 2, .dim = 16, .scale = 1.0f, .each_head = true, .exact = true, .top = 12, .run = run};
    Problem problem = indexed(shape, {200});
    for (int p = 0; p < 200; ++p)
      if (p % 3 != 0) problem.sequences[0].keys[elements(p, 16)] = p % 7 == 0 ? INFINITY : p % 7 == 1 ? -INFINITY : NAN;
    expect_choice_of_cpu(problem, shape, {90}, {});
  }
}
INSTANTIATE_TEST_SUITE_P(Types, DeviceChoiceOfFloats, ::testing::Values(KvType::f32));

INSTANTIATE_TEST_SUITE_P(Types, DeviceChoice, ::testing::ValuesIn(testing::kv_types()),
                         [](const auto& test) { return "kv" + std::to_string(static_cast<int>(test.param)); });

}  // namespace
}  // namespace espalier
