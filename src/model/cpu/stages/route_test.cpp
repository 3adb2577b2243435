// Routers against plain loops in double precision, over random logits of every kind.
#include "model/cpu/stages/route.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "testing/data.h"

namespace espalier::route_test {
namespace {

using Scores = RouterSpec::Scores;

std::vector<double> scores_of(Scores kind, const std::vector<float>& logits) {
  std::vector<double> out(logits.begin(), logits.end());
  if (kind == Scores::softmax) {
    const double top = *std::ranges::max_element(out);
    double sum = 0;
    for (double& x : out) sum += x = std::exp(x - top);
    for (double& x : out) x /= sum;
  }
  if (kind == Scores::sigmoid)
    for (double& x : out) x = 1 / (1 + std::exp(-x));
  if (kind == Scores::sqrt_softplus)
    for (double& x : out) x = std::sqrt(std::log1p(std::exp(x)));
  return out;
}

// Ids and weights by sorting everything.
std::pair<std::vector<int>, std::vector<double>> plain(const RouterSpec& how, const std::vector<float>& logits,
                                                       const std::vector<float>& correction) {
  const std::vector<double> scores = scores_of(how.scores, logits);
  std::vector<double> choice = scores;
  for (std::size_t e = 0; e < correction.size(); ++e) choice[e] += static_cast<double>(correction[e]);
  const auto each = static_cast<std::size_t>(how.count / how.groups);
  if (how.groups > 1) {
    std::vector<std::pair<double, std::size_t>> groups;
    for (std::size_t g = 0; g < static_cast<std::size_t>(how.groups); ++g) {
      std::vector<double> of(choice.begin() + static_cast<std::ptrdiff_t>(g * each),
                             choice.begin() + static_cast<std::ptrdiff_t>((g + 1) * each));
      std::ranges::sort(of, std::greater());
      groups.emplace_back(-(how.group_by_two ? of[0] + of[1] : of[0]), g);
    }
    std::ranges::sort(groups);
    for (std::size_t i = static_cast<std::size_t>(how.kept_groups); i < groups.size(); ++i)
      std::fill_n(choice.begin() + static_cast<std::ptrdiff_t>(groups[i].second * each), each, -1e300);
  }
  std::vector<int> ids(static_cast<std::size_t>(how.count));
  std::iota(ids.begin(), ids.end(), 0);
  std::ranges::stable_sort(
      ids, [&](int a, int b) { return choice[static_cast<std::size_t>(a)] > choice[static_cast<std::size_t>(b)]; });
  ids.resize(static_cast<std::size_t>(how.chosen));
  std::ranges::sort(ids);
  std::vector<double> weights;
  for (const int id : ids) weights.push_back(scores[static_cast<std::size_t>(id)]);
  if (how.scores == Scores::softmax_of_chosen || how.scores == Scores::sigmoid_of_chosen) {
    const std::vector<float> chosen(weights.begin(), weights.end());
    weights = scores_of(how.scores == Scores::softmax_of_chosen ? Scores::softmax : Scores::sigmoid, chosen);
  }
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  const double by = std::max(sum, static_cast<double>(how.renormalise_least));
  for (double& w : weights) w *= static_cast<double>(how.scale) / (how.renormalise ? by : 1.0);
  return {ids, weights};
}

TEST(Route, ChoosesAndWeighsAsThePlainLoopDoes) {
  std::mt19937_64 rng(testing::seed());
  std::normal_distribution<float> normal(0.0f, 2.0f);
  for (int round = 0; round < 2000; ++round) {
    RouterSpec how;
    how.scores = static_cast<Scores>(rng() % 5);
    how.groups = 1 << rng() % 3;
    how.count = how.groups * (2 + static_cast<int>(rng() % 20));
    how.kept_groups = 1 + static_cast<int>(rng() % static_cast<unsigned>(how.groups));
    how.group_by_two = rng() % 2 != 0;
    how.chosen = 1 + static_cast<int>(rng() % static_cast<unsigned>(how.kept_groups * how.count / how.groups));
    how.renormalise = rng() % 2 != 0;
    how.scale = 0.5f + static_cast<float>(rng() % 4);
    how.renormalise_least = rng() % 2 != 0 ? 0.0f : 0.7f;
    std::vector<float> logits(static_cast<std::size_t>(how.count)), correction;
    for (float& x : logits) x = normal(rng);
    if (rng() % 2 != 0)
      for (int e = 0; e < how.count; ++e) correction.push_back(0.1f * normal(rng));
    const auto [ids, weights] = plain(how, logits, correction);
    std::vector<float> by_expert;
    for (int e = 0; e < how.count; ++e) by_expert.push_back(0.5f + static_cast<float>(rng() % 3));
    for (const CpuKernels* cpu : runnable_cpu_kernels()) {
      std::vector<float> out(static_cast<std::size_t>(2 * how.chosen));
      route(*cpu, how, logits.data(), correction.empty() ? nullptr : correction.data(), by_expert.data(), out.data());
      for (int i = 0; i < how.chosen; ++i) {
        const auto at = static_cast<std::size_t>(i);
        ASSERT_EQ(static_cast<int>(out[at]), ids[at]) << cpu->isa << " round " << round;
        ASSERT_NEAR(static_cast<double>(out[static_cast<std::size_t>(how.chosen) + at]),
                    weights[at] * static_cast<double>(by_expert[static_cast<std::size_t>(ids[at])]), 3e-5)
            << cpu->isa << " round " << round;
      }
    }
  }
}

TEST(Route, LogitsAreCappedBeforeTheyBecomeScores) {
  RouterSpec how;
  how.count = 3;
  how.chosen = 1;
  how.scores = Scores::sigmoid;
  how.cap = 2.0f;
  const std::vector<float> logits = {1.0f, 50.0f, -3.0f};
  std::vector<float> out(2);
  route(cpu_kernels(), how, logits.data(), nullptr, nullptr, out.data());
  EXPECT_EQ(out[0], 1.0f);
  EXPECT_NEAR(out[1], 1 / (1 + std::exp(-2.0f)), 1e-5f);
}

// Worked out by hand from the published loop: each choice is weighed among what lies within 2 * jitter of it.
TEST(Route, SparseMixerChoosesOneExpertAfterTheOther) {
  RouterSpec how;
  how.count = 4;
  how.chosen = 2;
  how.scores = Scores::sparse_mixer;
  how.jitter = 0.1f;
  const std::vector<float> logits = {2.0f, 0.5f, 1.7f, 1.5f};
  std::vector<float> out(4);
  route(cpu_kernels(), how, logits.data(), nullptr, nullptr, out.data());
  EXPECT_EQ(out[0], 0.0f);
  EXPECT_EQ(out[1], 2.0f);
  EXPECT_NEAR(out[2], 1 / (1 + std::exp(-0.3f)), 1e-6f);  // 1.5 lies a quarter below 2, 1.7 three twentieths
  EXPECT_NEAR(out[3], 1 / (1 + std::exp(-0.2f)), 1e-6f);
}

TEST(Route, EqualScoresGoToTheLowerIdAndNumbersThatAreNoneToNobody) {
  RouterSpec how;
  how.count = 6;
  how.chosen = 2;
  std::vector<float> logits(6, 1.0f), out(4);
  route(cpu_kernels(), how, logits.data(), nullptr, nullptr, out.data());
  EXPECT_EQ(out[0], 0.0f);
  EXPECT_EQ(out[1], 1.0f);
  how.scores = Scores::sigmoid;
  logits[0] = std::nanf("");
  route(cpu_kernels(), how, logits.data(), nullptr, nullptr, out.data());
  EXPECT_EQ(out[0], 1.0f);
  EXPECT_EQ(out[1], 2.0f);
}

}  // namespace
}  // namespace espalier::route_test
