// routed.h: experts as DeepSeek's checkpoints describe them, which most families after it share.
//
// Fails: by Fields::problem().
#pragma once

#include "model/arch/parts.h"
#include "model/blocks/channels/experts.h"

namespace espalier {

// How a family's router chooses where its checkpoints do not say.
struct RouterHabits {
  bool sigmoid = true;    // else softmax
  bool corrected = true;  // a correction takes part in the choice, groups count by their two best
  bool renormalise = true;
  bool never_renormalise_softmax = false;  // HF's DeepSeek-V2 does not, whatever norm_topk_prob says
};
// Routed and shared experts, by the names of DeepSeek's checkpoints.
Experts deepseek_experts(const Fields& f, const RouterHabits& habits);
// Whether a layer has an MLP in place of experts.
bool is_dense_layer(const Fields& f, int layer, int dense_first);

}  // namespace espalier
