// Latent rows, selected positions and attention over two layers of keys, of every instruction set and type.
#include "kernels/attention/attention_problem.h"
#include "testing/data.h"

namespace espalier {
namespace {

using testing::elements;
using testing::Problem;
using testing::Sequence;

class EachForm : public ::testing::TestWithParam<std::tuple<const CpuKernels*, KvType>> {
 protected:
  const CpuKernels& cpu = *std::get<0>(GetParam());
  KvType type = std::get<1>(GetParam());
  std::mt19937_64 rng{testing::seed()};

  bool chance(unsigned one_in) { return rng() % one_in == 0; }

  // Every position sees itself if `own`, and of the earlier ones some stretches and some single ones; what nobody sees
  // is not stored.
  void select(Problem& problem, bool own, bool heads_alike) {
    for (Sequence& s : problem.sequences) {
      s.stored.assign(static_cast<std::size_t>(s.length), false);
      for (int p = 0; p < s.length; ++p) {
        std::vector<bool> seen;
        for (int h = 0; h < problem.shape.kv_heads; ++h) {
          std::vector<bool> of_head = h > 0 && heads_alike ? std::vector(seen.begin(), seen.begin() + s.length)
                                                           : some_positions(s.length, p, own);
          for (int i = 0; i <= p; ++i) s.stored[static_cast<std::size_t>(i)] = s.stored[i] || of_head[i];
          seen.insert(seen.end(), of_head.begin(), of_head.end());
        }
        s.selected.push_back(seen);
      }
    }
  }
  std::vector<bool> some_positions(int length, int p, bool own) {
    std::vector<bool> seen(static_cast<std::size_t>(length), false);
    if (p < 40 && chance(4)) return seen;
    for (int i = 0; i < 8; ++i) seen[rng() % static_cast<unsigned>(p + 1)] = true;
    if (p > 60 && chance(2)) {
      const auto from = static_cast<std::ptrdiff_t>(rng() % static_cast<unsigned>(p - 50));
      std::fill_n(seen.begin() + from, 50, true);
    }
    if (own) seen[static_cast<std::size_t>(p)] = true;
    return seen;
  }
};

TEST_P(EachForm, LatentRowsAgreeWithThePlainLoop) {
  struct Case {
    int heads, key, value;
  };
  for (const Case& c : {Case{16, 576, 512}, Case{5, 40, 24}, Case{40, 48, 48}, Case{3, 33, 17}, Case{64, 64, 32}}) {
    AttentionShape shape{.heads = c.heads, .kv_heads = 1, .key_dim = c.key, .value_dim = c.value, .scale = 0.07f};
    for (bool exact : {true, false}) {
      shape.exact = exact;
      Problem problem(rng, shape, type, {1, 140, 290}, KvForm::latent);
      problem.fill(cpu);
      ASSERT_LE(problem.rounding.value(), testing::rounding_of(type)) << cpu.isa;
      problem.expect_plain(cpu, 2, {1, 5, 3}, testing::bound_of(shape, type));
    }
  }
}

TEST_P(EachForm, LatentRowsGiveTheSameBitsHoweverTheyAreCut) {
  for (Visibility visible : {Visibility{}, Visibility::window(70)}) {
    AttentionShape shape{.heads = 70, .kv_heads = 1, .key_dim = 40, .value_dim = 32, .visible = visible, .scale = 0.2f};
    Problem problem(rng, shape, type, {400, 130}, KvForm::latent);
    problem.sinks = random_floats(rng, 70);
    problem.fill(cpu);
    problem.expect_same_bits(cpu, {1, 9, 129});
  }
}

TEST_P(EachForm, LatentRowsHaveTheBitsOfKeysAndValuesApart) {
  AttentionShape shape{.heads = 6, .kv_heads = 1, .key_dim = 64, .value_dim = 48, .scale = 0.2f, .exact = true};
  Problem latent(rng, shape, KvType::f32, {300}, KvForm::latent);
  latent.fill(cpu);
  Problem apart(rng, shape, KvType::f32, {300});
  apart.sequences[0].q = latent.sequences[0].q;
  apart.sequences[0].keys = latent.sequences[0].keys;
  for (int p = 0; p < 300; ++p)
    std::copy_n(latent.sequences[0].keys.begin() + 64 * p, 48, apart.sequences[0].values.begin() + 48 * p);
  apart.fill(cpu);
  EXPECT_EQ(latent.run(cpu, 1, {9}), apart.run(cpu, 1, {9}));
}

TEST_P(EachForm, SelectedPositionsAreAllThatCounts) {
  for (KvForm form : {KvForm::keys_and_values, KvForm::latent})
    for (bool own : {true, false}) {
      const int kv_heads = form == KvForm::latent ? 1 : 2;
      AttentionShape shape{.heads = 6, .kv_heads = kv_heads, .key_dim = 48, .value_dim = 32, .scale = 0.2f};
      for (bool exact : {true, false}) {
        shape.exact = exact;
        Problem problem(rng, shape, type, {450, 1, 130}, form);
        select(problem, own, exact);
        problem.fill(cpu);
        problem.expect_plain(cpu, 2, {60, 1, 130}, testing::bound_of(shape, type));
      }
    }
}

TEST_P(EachForm, SelectedPositionsGiveTheSameBitsInAnyCompany) {
  for (KvForm form : {KvForm::keys_and_values, KvForm::latent}) {
    const int kv_heads = form == KvForm::latent ? 1 : 2;
    AttentionShape shape{.heads = 4,
                         .kv_heads = kv_heads,
                         .key_dim = 32,
                         .value_dim = 32,
                         .visible = Visibility::window(300),
                         .scale = 1};
    Problem problem(rng, shape, type, {640, 200}, form);
    problem.sinks = random_floats(rng, 4);
    select(problem, false, false);
    problem.fill(cpu);
    problem.expect_same_bits(cpu, {1, 3, 64});
  }
}

TEST_P(EachForm, EntriesMayStandAtEveryFewPositionsOnly) {
  for (KvForm form : {KvForm::keys_and_values, KvForm::latent})
    for (int stride : {4, 7, 128}) {
      AttentionShape shape{
          .heads = 4, .kv_heads = 1, .key_dim = 48, .value_dim = 32, .scale = 0.2f, .entry_stride = stride};
      Problem problem(rng, shape, type, {500, 3, 127, 128}, form);
      problem.fill(cpu);
      problem.expect_plain(cpu, 2, {140, 3, 1, 128}, testing::bound_of(shape, type));
      problem.expect_same_bits(cpu, {1, 33});
    }
}

// A window of rows, then compressed entries of other rows, under one softmax with sinks: as DeepSeek-V4 has it.
TEST_P(EachForm, OneSoftmaxGoesOverTwoLayersOfKeys) {
  AttentionShape near{
      .heads = 40, .kv_heads = 1, .key_dim = 32, .value_dim = 32, .visible = Visibility::window(20), .scale = 0.3f};
  AttentionShape far = near;
  far.visible = {};
  far.entry_stride = 4;
  Problem window(rng, near, type, {400, 3, 90}, KvForm::latent), entries(rng, far, type, {400, 3, 90}, KvForm::latent);
  window.sinks = random_floats(rng, 40);
  for (std::size_t i = 0; i < 3; ++i) entries.sequences[i].q = window.sequences[i].q;
  window.fill(cpu);
  entries.fill(cpu);
  const std::vector<int> rows = {70, 3, 1};
  const auto compute = [&](int threads) {
    const std::vector<float> q = window.queries(rows);
    std::vector<float> out(q.size()), states(AttentionPlan::state_floats(near, 74));
    const auto near_batch = window.batch(rows), far_batch = entries.batch(rows);
    AttentionPlan near_plan(near, near_batch, threads), far_plan(far, far_batch, threads);
    AttentionRows io{.q = q.data(), .q_stride = 40 * 32, .out = out.data(), .out_stride = 40 * 32};
    io.states = AttentionPlan::states_at(near, states.data());
    ComputeTeam team(threads);
    io.end_in_states = true;
    near_plan.run(cpu, team, window.store.layer(), io);
    io.end_in_states = false;
    io.begin_in_states = true;
    io.sinks = window.sinks.data();
    far_plan.run(cpu, team, entries.store.layer(), io);
    return out;
  };
  const auto got = compute(1);
  for (int threads : {2, 5}) ASSERT_EQ(got, compute(threads));
  testing::RelativeError error;
  std::int64_t at = 0;
  for (std::size_t i = 0; i < 3; ++i)
    for (int p = window.sequences[i].length - rows[i]; p < window.sequences[i].length; ++p)
      for (int h = 0; h < 40; ++h, at += 32) {
        const Sequence &a = window.sequences[i], &b = entries.sequences[i];
        std::vector<bool> seen = window.seen(a, p, 0), seen_far = entries.seen(b, p, 0);
        std::vector<float> keys(a.keys.begin(), a.keys.begin() + 32 * (p + 1)), values(keys);
        keys.insert(keys.end(), b.keys.begin(), b.keys.begin() + 32 * (p + 1));
        seen.insert(seen.end(), seen_far.begin(), seen_far.end());
        const plain::Scoring how{.scale = near.scale, .sink = window.sinks[static_cast<std::size_t>(h)]};
        error.add(
            std::span(got).subspan(static_cast<std::size_t>(at), 32),
            plain::attention(std::span(a.q).subspan(elements(40L * p + h, 32), 32), keys, keys, 32, seen, p, how));
      }
  EXPECT_LT(error.value(), testing::bound_of(near, type)) << cpu.isa;
}

INSTANTIATE_TEST_SUITE_P(Isa, EachForm,
                         ::testing::Combine(::testing::ValuesIn(testing::attention_kernels()),
                                            ::testing::ValuesIn(testing::kv_types())),
                         [](const auto& test) { return testing::kernels_and_type(test); });

}  // namespace
}  // namespace espalier
