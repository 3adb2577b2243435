// route.h: which experts a row goes to, and their weights, as model/cpu/stages/route.cpp chooses them.
//
// Scores are computed by all threads of the block, the choice by one. scratch: four times as many floats as experts.
// Threads: those of one block.
#pragma once

#include "kernels/cuda/simt/simd.h"
// (first)
#include "kernels/cpu/generic/functions.h"
#include "kernels/cpu/generic/row_norms.h"
#include "model/program/op.h"

namespace espalier::device {

// Of score[0 .. count) the best that is not taken, the lower index where several are equal; it is taken then.
ESPALIER_ON_DEVICE inline int take_best(const float* score, float* taken, int count) {
  int best = -1;
  for (int i = 0; i < count; ++i)
    if (taken[i] == 0.0f && (best < 0 || score[i] > score[best])) best = i;
  taken[best] = 1.0f;
  return best;
}

ESPALIER_ON_DEVICE inline void clear(float* taken, int count) {
  for (int i = 0; i < count; ++i) taken[i] = 0.0f;
}

// Experts outside of the best groups can no longer be chosen.
ESPALIER_ON_DEVICE inline void drop_groups(const RouterSpec& how, float* choice, float* taken, float* worth) {
  const int each = how.count / how.groups, tops = how.group_by_two && each > 1 ? 2 : 1;
  for (int g = 0; g < how.groups; ++g) {
    clear(taken, each);
    worth[g] = 0.0f;
    for (int i = 0; i < tops; ++i) worth[g] += choice[g * each + take_best(choice + g * each, taken, each)];
  }
  clear(taken, how.groups);
  for (int i = 0; i < how.kept_groups && i < how.groups; ++i) take_best(worth, taken, how.groups);
  for (int e = 0; e < how.count; ++e)
    if (taken[e / each] == 0.0f) choice[e] = -__builtin_inff();
}

// Experts one after the other, each weighed among the logits that come near it, those chosen before left out.
ESPALIER_ON_DEVICE inline void mix_sparsely(const RouterSpec& how, const float* logits, float* taken, float* out) {
  clear(taken, how.count);
  for (int i = 0; i < how.chosen; ++i) {
    int top = -1;
    for (int e = 0; e < how.count; ++e)
      if (taken[e] == 0.0f && (top < 0 || logits[e] > logits[top])) top = e;
    const float most = logits[top];
    float sum = 0.0f;
    for (int e = 0; e < how.count; ++e) {
      const float size = fabsf(logits[e]) > most ? fabsf(logits[e]) : most;
      if (taken[e] == 0.0f && !((most - logits[e]) / size > 2 * how.jitter))
        sum += kernels::simt::function::exp(logits[e] - most);
    }
    taken[top] = 1.0f;
    int at = i;  // by ascending id
    for (; at > 0 && out[at - 1] > static_cast<float>(top); --at) {
      out[at] = out[at - 1];
      out[how.chosen + at] = out[how.chosen + at - 1];
    }
    out[at] = static_cast<float>(top);
    out[how.chosen + at] = 1 / sum;
  }
}

// The best of `choice`, ascending, and their scores.
ESPALIER_ON_DEVICE inline void choose(const RouterSpec& how, const float* choice, const float* scores, float* taken,
                                      float* out) {
  clear(taken, how.count);
  for (int i = 0; i < how.chosen; ++i) take_best(choice, taken, how.count);
  for (int e = 0, i = 0; e < how.count; ++e) {
    if (taken[e] == 0.0f) continue;
    out[i] = static_cast<float>(e);
    out[how.chosen + i++] = scores[e];
  }
}

ESPALIER_ON_DEVICE inline void take_ids(const RouterSpec& how, const float* ids, const float* scores, float* out) {
  for (int i = 0; i < how.chosen; ++i) {
    const int wanted = static_cast<int>(ids[i]), id = wanted < 0 ? 0 : wanted < how.count ? wanted : how.count - 1;
    int at = i;
    for (; at > 0 && out[at - 1] > static_cast<float>(id); --at) out[at] = out[at - 1];
    out[at] = static_cast<float>(id);
  }
  for (int i = 0; i < how.chosen; ++i) out[how.chosen + i] = scores[static_cast<int>(out[i])];
}

ESPALIER_ON_DEVICE inline void scale_weights(const RouterSpec& how, float* weights) {
  float factor = how.scale;
  if (how.renormalise) {
    float sum = 0.0f;
    for (int i = 0; i < how.chosen; ++i) sum += weights[i];
    sum += how.renormalise_eps;
    factor /= sum < how.renormalise_least ? how.renormalise_least : sum;
  }
  for (int i = 0; i < how.chosen; ++i) weights[i] *= factor;
}

// What one thread does before the weights' own softmax.
ESPALIER_ON_DEVICE inline void pick(const RouterSpec& how, const float* correction, const float* ids, float* scores,
                                    float* out, float* scratch) {
  float *const choice = scratch, *const taken = scratch + how.count, *const worth = scratch + 2 * how.count;
  if (how.scores == RouterSpec::Scores::sparse_mixer) return mix_sparsely(how, scores, taken, out);
  if (ids != nullptr) return take_ids(how, ids, scores, out);
  for (int e = 0; e < how.count; ++e) {
    choice[e] = correction != nullptr ? scores[e] + correction[e] : scores[e];
    if (choice[e] != choice[e]) choice[e] = -__builtin_inff();
  }
  if (how.groups > 1) drop_groups(how, choice, taken, worth);
  choose(how, choice, scores, taken, out);
}

// ids: the experts, where they are given; then logits tell their weights alone.
ESPALIER_ON_DEVICE inline void route(const RouterSpec& how, const float* logits, const float* correction,
                                     const float* by_expert, const float* ids, float* out, float* scratch) {
  namespace lanes = kernels::simt;
  namespace function = kernels::simt::function;
  using Scores = RouterSpec::Scores;
  float* const scores = scratch;
  float* const weights = out + how.chosen;
  const bool first = espalier::simt::thread() == 0;
  if (how.cap > 0 && ids == nullptr) {
    function::soft_cap(how.cap, logits, scores, how.count);
    logits = scores;
    lanes::meet();
  }
  if (how.scores == Scores::softmax)
    function::softmax(logits, scores, how.count);
  else if (how.scores == Scores::sigmoid)
    function::activate({ActivationKind::sigmoid}, logits, scores, how.count);
  else if (how.scores == Scores::sqrt_softplus)
    function::activate({ActivationKind::sqrt_softplus}, logits, scores, how.count);
  else if (logits != scores)
    function::scale(1.0f, logits, scores, how.count);
  lanes::meet();
  if (first) pick(how, correction, ids, scores, out, scratch + how.count);
  lanes::meet();
  if (how.scores == Scores::sparse_mixer) return;
  if (how.scores == Scores::softmax_of_chosen) function::softmax(weights, weights, how.chosen);
  if (how.scores == Scores::sigmoid_of_chosen)
    function::activate({ActivationKind::sigmoid}, weights, weights, how.chosen);
  lanes::meet();
  if (!first) return;
  scale_weights(how, weights);
  for (int i = 0; by_expert != nullptr && i < how.chosen; ++i) weights[i] *= by_expert[static_cast<int>(out[i])];
}

}  // namespace espalier::device
