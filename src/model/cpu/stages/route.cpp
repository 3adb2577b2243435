#include "model/cpu/stages/route.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "tensor/decode.h"

namespace espalier {
namespace {

using Scores = RouterSpec::Scores;

void scores_of(const CpuKernels& cpu, Scores kind, const float* logits, std::vector<float>& out) {
  const auto n = static_cast<std::int64_t>(out.size());
  switch (kind) {
    case Scores::softmax:
      return cpu.functions.softmax(logits, out.data(), n);
    case Scores::sigmoid:
      return cpu.functions.activate({ActivationKind::sigmoid}, logits, out.data(), n);
    case Scores::sqrt_softplus:
      return cpu.functions.activate({ActivationKind::sqrt_softplus}, logits, out.data(), n);
    case Scores::softmax_of_chosen:
    case Scores::sigmoid_of_chosen:
    case Scores::sparse_mixer:
      std::copy_n(logits, n, out.data());
  }
}

// The best `kept` of `count` by score, the lower index first where they are equal.
std::vector<int> best(const float* score, int count, int kept) {
  std::vector<int> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  kept = std::min(kept, count);
  std::partial_sort(order.begin(), order.begin() + kept, order.end(),
                    [&](int a, int b) { return score[a] > score[b] || (score[a] == score[b] && a < b); });
  order.resize(static_cast<std::size_t>(kept));
  return order;
}

// Experts outside of the best groups can no longer be chosen.
void drop_groups(const RouterSpec& how, std::vector<float>& choice) {
  const int each = how.count / how.groups;
  std::vector<float> worth(static_cast<std::size_t>(how.groups));
  for (int g = 0; g < how.groups; ++g) {
    const float* of = choice.data() + g * each;
    const std::vector<int> top = best(of, each, how.group_by_two ? 2 : 1);
    for (const int i : top) worth[static_cast<std::size_t>(g)] += of[i];
  }
  std::vector<bool> kept(static_cast<std::size_t>(how.groups));
  for (const int g : best(worth.data(), how.groups, how.kept_groups)) kept[static_cast<std::size_t>(g)] = true;
  for (int e = 0; e < how.count; ++e)
    if (!kept[static_cast<std::size_t>(e / each)])
      choice[static_cast<std::size_t>(e)] = -std::numeric_limits<float>::infinity();
}

// PhiMoE's choice of one expert after the other: its weight is its share among the logits that come near it, those chosen
// before left out. Source: GRIN (arXiv 2409.12136); transformers' PhimoeTopKRouter.
void mix_sparsely(const CpuKernels& cpu, const RouterSpec& how, const std::vector<float>& logits, float* out) {
  std::vector<std::pair<int, float>> chosen;
  std::vector<bool> taken(logits.size());
  for (int i = 0; i < how.chosen; ++i) {
    int top = -1;
    for (int e = 0; e < how.count; ++e)
      if (!taken[static_cast<std::size_t>(e)] &&
          (top < 0 || logits[static_cast<std::size_t>(e)] > logits[static_cast<std::size_t>(top)]))
        top = e;
    const float most = logits[static_cast<std::size_t>(top)];
    float sum = 0;
    for (std::size_t e = 0; e < logits.size(); ++e) {
      if (taken[e] || (most - logits[e]) / std::max(std::abs(logits[e]), most) > 2 * how.jitter) continue;
      float share = logits[e] - most;
      cpu.functions.activate({ActivationKind::exp}, &share, &share, 1);
      sum += share;
    }
    chosen.emplace_back(top, 1 / sum);
    taken[static_cast<std::size_t>(top)] = true;
  }
  std::ranges::sort(chosen);
  for (int i = 0; i < how.chosen; ++i) {
    out[i] = static_cast<float>(chosen[static_cast<std::size_t>(i)].first);
    out[how.chosen + i] = chosen[static_cast<std::size_t>(i)].second;
  }
}

void write(const CpuKernels& cpu, const RouterSpec& how, std::vector<int> chosen, const std::vector<float>& scores,
           float* out) {
  std::ranges::sort(chosen);
  float* weights = out + how.chosen;
  for (int i = 0; i < how.chosen; ++i) {
    out[i] = static_cast<float>(chosen[static_cast<std::size_t>(i)]);
    weights[i] = scores[static_cast<std::size_t>(chosen[static_cast<std::size_t>(i)])];
  }
  if (how.scores == Scores::softmax_of_chosen) cpu.functions.softmax(weights, weights, how.chosen);
  if (how.scores == Scores::sigmoid_of_chosen)
    cpu.functions.activate({ActivationKind::sigmoid}, weights, weights, how.chosen);
  float factor = how.scale;
  if (how.renormalise)
    factor /=
        std::max(std::accumulate(weights, weights + how.chosen, 0.0f) + how.renormalise_eps, how.renormalise_least);
  for (int i = 0; i < how.chosen; ++i) weights[i] *= factor;
}

}  // namespace

void route(const CpuKernels& cpu, const RouterSpec& how, const float* logits, const float* correction,
           const float* by_expert, float* out) {
  thread_local std::vector<float> scores, choice, capped;
  scores.resize(static_cast<std::size_t>(how.count));
  if (how.cap > 0) {
    capped.resize(scores.size());
    cpu.functions.soft_cap(how.cap, logits, capped.data(), how.count);
    logits = capped.data();
  }
  scores_of(cpu, how.scores, logits, scores);
  if (how.scores == Scores::sparse_mixer) return mix_sparsely(cpu, how, scores, out);
  choice = scores;
  if (correction) cpu.functions.add(choice.data(), correction, choice.data(), how.count);
  for (float& c : choice)
    if (std::isnan(c)) c = -std::numeric_limits<float>::infinity();
  if (how.groups > 1) drop_groups(how, choice);
  write(cpu, how, best(choice.data(), how.count, how.chosen), scores, out);
  if (by_expert)
    for (int i = 0; i < how.chosen; ++i) out[how.chosen + i] *= by_expert[static_cast<int>(out[i])];
}

void route_by_token(const CpuKernels& cpu, const RouterSpec& how, const Tensor& table, TokenId token,
                    const float* logits, float* out) {
  thread_local std::vector<float> scores, ids;
  scores.resize(static_cast<std::size_t>(how.count));
  ids.resize(static_cast<std::size_t>(how.chosen));
  scores_of(cpu, how.scores, logits, scores);
  decode_row(table.dtype, table.row(token), ids);
  std::vector<int> chosen;
  for (const float id : ids) chosen.push_back(std::clamp(static_cast<int>(id), 0, how.count - 1));
  write(cpu, how, std::move(chosen), scores, out);
}

}  // namespace espalier
