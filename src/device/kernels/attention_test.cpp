// Attention on a device has the CPU's bits: every type and form of keys and values, every rule of what is seen, however
// the work is cut.
#include "device/kernels/attended_problem.h"
#include "testing/data.h"

namespace espalier {
namespace {

using testing::elements;
using testing::Emulated;
using testing::Problem;
using testing::Sequence;

// How the device's work is cut.
struct Cut {
  int sequence_rows, pieces;
};
constexpr Cut kCuts[] = {{0, 1}, {1, 1}, {0, 3}, {1, 2}};

class DeviceAttention : public ::testing::TestWithParam<KvType> {
 protected:
  const CpuKernels& cpu = *runnable_cpu_kernels().front();
  KvType type = GetParam();
  std::mt19937_64 rng{testing::seed()};
  Emulated emulated;

  static AttentionShape square(int heads, int kv_heads, int head_dim, float scale, Visibility visible = {}) {
    return {.heads = heads,
            .kv_heads = kv_heads,
            .key_dim = head_dim,
            .value_dim = head_dim,
            .visible = visible,
            .scale = scale,
            .exact = true};
  }

  cuda::AttendTask task_of(Problem& problem, const std::vector<int>& rows, const Cut& cut) {
    cuda::AttendTask task = put_task(emulated, problem, rows, cut.pieces);
    task.sequence_rows = cut.sequence_rows;
    return task;
  }
  void compute(const cuda::AttendTask& task) {
    emulated.run(kEspalierAttend, task);
    if (task.pieces > 1) emulated.run(kEspalierMergeAttention, cuda::MergeAttentionTask{task});
  }
  std::vector<float> run(Problem& problem, const std::vector<int>& rows, const Cut& cut) {
    const cuda::AttendTask task = task_of(problem, rows, cut);
    compute(task);
    return emulated.get(task.out, elements(task.row_count, task.out_stride));
  }
  void expect_bits_of_cpu(Problem& problem, const std::vector<int>& rows) {
    problem.fill(cpu);
    const std::vector<float> want = problem.run(cpu, 1, rows);
    for (const Cut& cut : kCuts)
      ASSERT_EQ(run(problem, rows, cut), want)
          << "rows of a sequence " << cut.sequence_rows << ", pieces " << cut.pieces;
  }

  bool chance(unsigned one_in) { return rng() % one_in == 0; }
  // Of each position and KV head some single positions and perhaps a stretch, or none; what nobody sees is not stored.
  void select(Problem& problem) {
    for (Sequence& s : problem.sequences) {
      s.stored.assign(static_cast<std::size_t>(s.length), false);
      for (int p = 0; p < s.length; ++p) {
        std::vector<bool> seen;
        for (int h = 0; h < problem.shape.kv_heads; ++h) {
          const std::vector<bool> of_head = some_positions(s.length, p);
          for (std::size_t i = 0; i <= static_cast<std::size_t>(p); ++i) s.stored[i] = s.stored[i] || of_head[i];
          seen.insert(seen.end(), of_head.begin(), of_head.end());
        }
        s.selected.push_back(seen);
      }
    }
  }
  std::vector<bool> some_positions(int length, int p) {
    std::vector<bool> seen(static_cast<std::size_t>(length), false);
    if (chance(8)) return seen;
    for (int i = 0; i < 6; ++i) seen[rng() % static_cast<unsigned>(p + 1)] = true;
    if (p > 60 && chance(2))
      std::fill_n(seen.begin() + static_cast<std::ptrdiff_t>(rng() % static_cast<unsigned>(p - 50)), 50, true);
    return seen;
  }
};

TEST_P(DeviceAttention, HasTheBitsOfTheCpuOnOddShapes) {
  for (const AttentionShape& shape : {square(9, 3, 64, 0.125f), square(4, 4, 16, 0.25f), square(5, 1, 33, 0.17f),
                                      square(12, 2, 80, 0.11f, Visibility::window(37))}) {
    Problem problem(rng, shape, type, {1, 70, 333, 16});
    expect_bits_of_cpu(problem, {1, 70, 3, 5});
  }
}

TEST_P(DeviceAttention, KeysMayBeWiderOrNarrowerThanValues) {
  for (auto [key, value] : {std::pair{192, 128}, {24, 16}, {40, 72}, {576, 512}, {7, 90}}) {
    AttentionShape shape = square(6, 2, key, 0.1f);
    shape.value_dim = value;
    Problem problem(rng, shape, type, {200, 3});
    expect_bits_of_cpu(problem, {key == 576 ? 2 : 13, 3});
  }
}

TEST_P(DeviceAttention, ReadsLatentRows) {
  struct Case {
    int heads, key, value, rows;
  };
  for (const Case& c : {Case{16, 576, 512, 1}, {5, 40, 24, 4}, {40, 48, 48, 3}, {3, 33, 17, 30}, {70, 64, 32, 2}}) {
    AttentionShape shape = square(c.heads, 1, c.key, 0.07f, c.rows == 4 ? Visibility::window(90) : Visibility{});
    shape.value_dim = c.value;
    Problem problem(rng, shape, type, {1, 290}, KvForm::latent);
    expect_bits_of_cpu(problem, {1, c.rows});
  }
}

TEST_P(DeviceAttention, ManyQueryHeadsShareAKeyAndManyRowsShareASequence) {
  for (const AttentionShape& shape : {square(71, 1, 32, 0.2f), square(16, 1, 48, 0.2f), square(2, 2, 128, 0.1f)}) {
    Problem problem(rng, shape, type, {200, 24, 64});
    expect_bits_of_cpu(problem, {20, 24, 1});
  }
}

TEST_P(DeviceAttention, RowsSeeSpansWindowsAndChunks) {
  for (KvForm form : {KvForm::keys_and_values, KvForm::latent})
    for (Visibility visible : {Visibility{}, Visibility::window(70), Visibility::chunk(130)}) {
      Problem problem(rng, square(6, 1, 48, 0.2f, visible), type, {303, 50, 31}, form);
      problem.see_pictures();
      expect_bits_of_cpu(problem, {40, 50, 4});
    }
}

TEST_P(DeviceAttention, WhatLiesBehindAWindowIsNotRead) {
  for (KvForm form : {KvForm::keys_and_values, KvForm::latent}) {
    Problem problem(rng, square(6, 1, 48, 0.2f, Visibility::window(70)), type, {300, 200, 90}, form);
    const std::vector<int> rows = {1, 3, 9};
    problem.store_what_is_seen(rows, 70);
    expect_bits_of_cpu(problem, rows);
  }
}

TEST_P(DeviceAttention, SelectedPositionsAreAllThatCounts) {
  for (KvForm form : {KvForm::keys_and_values, KvForm::latent}) {
    const int kv_heads = form == KvForm::latent ? 1 : 2;
    Problem problem(rng, square(6, kv_heads, 48, 0.2f, Visibility::window(300)), type, {450, 1, 130}, form);
    problem.sinks = random_floats(rng, 6);
    select(problem);
    expect_bits_of_cpu(problem, {40, 1, 60});
  }
}

TEST_P(DeviceAttention, LongContextsOfFewEntriesAndFewSelectedPositions) {
  for (KvForm form : {KvForm::keys_and_values, KvForm::latent}) {
    AttentionShape shape = square(5, 1, 16, 0.2f);
    shape.entry_stride = 64;
    Problem entries(rng, shape, type, {6000, 4000}, form);
    expect_bits_of_cpu(entries, {3, 1});
    shape.entry_stride = 1;
    Problem selected(rng, shape, type, {6000}, form);
    Sequence& s = selected.sequences[0];
    s.selected.assign(6000, std::vector<bool>(6000, false));
    for (int p = 5990; p < 6000; ++p)
      for (int i = 0; i < 300; ++i) s.selected[static_cast<std::size_t>(p)][rng() % 6000] = true;
    expect_bits_of_cpu(selected, {10});
  }
}

TEST_P(DeviceAttention, EntriesMayStandAtEveryFewPositions) {
  for (KvForm form : {KvForm::keys_and_values, KvForm::latent})
    for (int stride : {4, 7, 128}) {
      AttentionShape shape = square(4, 1, 32, 0.2f);
      shape.entry_stride = stride;
      Problem problem(rng, shape, type, {500, 3, 127, 128}, form);
      expect_bits_of_cpu(problem, {20, 3, 1, 40});
    }
}

TEST_P(DeviceAttention, ScoresAreCappedAndPayForDistance) {
  const std::vector<float> slopes = {0.5f, 0.25f, 0.0625f, 0.0f};
  constexpr int kReach = 48;
  std::vector<float> table;
  for (int h = 0; h < 4; ++h)
    for (int d = -kReach; d < kReach + 16; ++d)
      table.push_back(std::sin(0.3f * static_cast<float>(std::clamp(d, 16 - kReach, kReach) * (h + 1))));
  for (float cap : {0.0f, 3.7f})
    for (int rule = cap == 0.0f ? 1 : 0; rule < 4; ++rule) {
      AttentionShape shape = square(4, 2, 48, 0.4f);
      shape.cap = cap;
      if ((rule & 1) != 0) shape.slopes = slopes.data();
      if ((rule & 2) != 0) shape.bias = {table.data(), kReach};
      Problem problem(rng, shape, type, {300, 140, 1});
      expect_bits_of_cpu(problem, {3, 10, 1});
    }
}

TEST_P(DeviceAttention, SinksJoinTheDenominatorOnce) {
  Problem problem(rng, square(6, 2, 32, 0.2f, Visibility::window(150)), type, {500, 40, 1});
  problem.sinks = {0.0f, -3.0f, 9.0f, 250.0f, -1000.0f, 2.5f};
  expect_bits_of_cpu(problem, {3, 40, 1});
}

// Rows of one tile that see two blocks each, but not the same two.
TEST_P(DeviceAttention, WindowsTouchMoreBlocksTogetherThanEachAlone) {
  Problem problem(rng, square(5, 1, 16, 0.2f, Visibility::window(128)), type, {262});
  expect_bits_of_cpu(problem, {12});
}

// A window of rows, then compressed entries of other rows twice, under one softmax; the states between have the CPU's
// bits too.
TEST_P(DeviceAttention, OneSoftmaxGoesOverSeveralLayersOfKeys) {
  AttentionShape near = square(40, 1, 32, 0.3f, Visibility::window(20)), far = near;
  far.visible = {};
  far.entry_stride = 4;
  Problem window(rng, near, type, {400, 3, 90}, KvForm::latent), entries(rng, far, type, {400, 3, 90}, KvForm::latent);
  const std::vector<float> sinks = random_floats(rng, 40);
  for (std::size_t i = 0; i < 3; ++i) entries.sequences[i].q = window.sequences[i].q;
  window.fill(cpu);
  entries.fill(cpu);
  const std::vector<int> rows = {7, 3, 1};
  const std::vector<float> q = window.queries(rows);
  std::vector<float> out(q.size()), states(AttentionPlan::state_floats(near, 11));
  const auto near_batch = window.batch(rows), far_batch = entries.batch(rows);
  AttentionPlan near_plan(near, near_batch, 1), far_plan(far, far_batch, 1);
  AttentionRows io{.q = q.data(), .q_stride = 40 * 32, .out = out.data(), .out_stride = 40 * 32};
  io.states = AttentionPlan::states_at(near, states.data());
  ComputeTeam team(1);
  io.end_in_states = true;
  near_plan.run(cpu, team, window.store.layer(), io);
  const std::vector<float> first_states = states;
  io.begin_in_states = true;
  far_plan.run(cpu, team, entries.store.layer(), io);
  const std::vector<float> second_states = states;
  io.end_in_states = false;
  io.sinks = sinks.data();
  far_plan.run(cpu, team, entries.store.layer(), io);
  for (const Cut& cut : kCuts) {
    auto first = task_of(window, rows, cut), then = task_of(entries, rows, cut);
    first.states = then.states = AttentionPlan::states_at(near, emulated.put(std::vector<float>(states.size(), NAN)));
    first.end_in_state = then.begin_in_state = then.end_in_state = true;
    compute(first);
    ASSERT_EQ(emulated.get(first.states.memory, states.size()), first_states) << cut.sequence_rows << " " << cut.pieces;
    compute(then);
    ASSERT_EQ(emulated.get(then.states.memory, states.size()), second_states) << cut.sequence_rows << " " << cut.pieces;
    then.end_in_state = false;
    then.sinks = emulated.put(sinks);
    compute(then);
    ASSERT_EQ(emulated.get(then.out, out.size()), out) << cut.sequence_rows << " " << cut.pieces;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, DeviceAttention, ::testing::ValuesIn(testing::kv_types()),
                         [](const auto& test) { return "kv" + std::to_string(static_cast<int>(test.param)); });

}  // namespace
}  // namespace espalier
