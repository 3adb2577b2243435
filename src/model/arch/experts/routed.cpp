#include "model/arch/experts/routed.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/arch/families.h"

namespace espalier {

Experts deepseek_experts(const Fields& f, const RouterHabits& habits) {
  Experts e = experts_of(f);
  RouterSpec& r = e.router;
  bool sigmoid = f.word_or({"scoring_func"}, habits.sigmoid ? "sigmoid" : "softmax") == "sigmoid";
  bool corrected = f.has({"topk_method"}) ? f.word_or({"topk_method"}, "") == "noaux_tc" : habits.corrected;
  if (f.is_gguf()) {
    // GLM-4.7-Flash's first files do not say; they are known by their vocabulary.
    const bool usual = habits.sigmoid || f.count_or({"", "vocab_size"}, 0) == 154880;
    sigmoid = f.count_or({"", "expert_gating_func"}, usual ? 2 : 1) == 2;
    corrected = sigmoid || habits.corrected;
  }
  r.scores = sigmoid ? RouterSpec::Scores::sigmoid : RouterSpec::Scores::softmax;
  e.correction = corrected;
  r.group_by_two = corrected;
  r.renormalise = f.flag_or({"norm_topk_prob|moe_renormalize", "expert_weights_norm"}, habits.renormalise);
  if (habits.never_renormalise_softmax && !sigmoid && !f.is_gguf()) r.renormalise = false;
  r.renormalise_eps = 1e-20f;
  r.scale =
      static_cast<float>(f.number_or({"routed_scaling_factor|router_scaling_factor", "expert_weights_scale"}, 1.0));
  const FieldName groups{"n_group|num_expert_group", "expert_group_count"};
  r.groups = std::max(1, f.count_or(groups, 1, r.count));
  if (f.word_or({"topk_method"}, "") == "greedy") r.groups = 1;
  r.kept_groups = std::max(1, f.count_or({"topk_group", "expert_group_used_count"}, r.groups, r.groups));
  const FieldName shared{"n_shared_experts|num_shared_experts|num_shared_expert|moe_num_shared_experts",
                         "expert_shared_count"};
  e.shared_inner = f.count_or(shared, 0, ConfigLimits::experts) * e.inner;
  if (r.count % r.groups != 0 || r.kept_groups * (r.count / r.groups) < r.chosen)
    f.refuse(groups, fmt::format("{} is {} with {} kept, but must divide {} experts and leave {} of them to choose",
                                 f.path(groups), r.groups, r.kept_groups, r.count, r.chosen));
  return e;
}

bool is_dense_layer(const Fields& f, int layer, int dense_first) {
  if (f.has({"mlp_layer_types"})) return f.word_of({"mlp_layer_types"}, layer, "sparse") == "dense";
  if (const Json* frequency = f.find({"moe_layer_freq"}); frequency != nullptr && frequency->is_array())
    return f.count_of({"moe_layer_freq"}, layer, 1) == 0;
  const int first = f.count_or({"first_k_dense_replace|num_dense_layers", "leading_dense_block_count"}, dense_first);
  const int every = std::max(1, f.count_or({"moe_layer_freq"}, 1));
  return layer < first || layer % every != 0;
}

}  // namespace espalier
