// experts.h: a mixture of experts in place of an MLP: a router chooses a few for each token.
//
// Roles: ffn_gate_inp (router), exp_probs_b (its correction), ffn_gate_tid2eid, ffn_exps with the experts' own names (HF: a tensor an
// expert, or all in one; GGUF: ffn_gate_exps, ffn_up_exps, ffn_down_exps), and those of a shared expert. Keeps nothing.
// Source: Switch Transformer (arXiv 2101.03961); DeepSeekMoE (arXiv 2401.06066).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "model/blocks/channels/mlp.h"
#include "model/spec.h"
#include "model/weights/needs.h"

namespace espalier {

// How the tensors of all experts lie in an HF checkpoint, where they are not one by one.
enum class FusedExperts {
  no,        // <experts>.7.gate_proj.weight; or as rows, where the file has these instead
  rows,      // <experts>.gate_up_proj [experts, 2 * inner, hidden], down_proj [experts, hidden, inner]
  turned,    // the same with inputs before outputs
  by_turns,  // turned, and the columns of gate and up take turns
  apart,     // <experts>.gate_proj, .up_proj [experts, inner, hidden], down_proj [experts, hidden, inner]
  stacked,   // <experts>.w1, .v1 [experts * inner, hidden], w2 the same with outputs behind inputs
};

// The block: router, experts, and those that every token takes.
struct Experts {
  RouterSpec router;
  int inner = 0;
  GateForm how = {};
  bool gated = true;
  bool bias = false, router_bias = false;
  bool correction = false;
  bool weight_inputs = false;
  std::string_view sum_bias = {};  // role of a bias of what all give; their weights must add up to 1
  int passing = 0;                 // experts behind the others that give their input back
  bool by_token = false;           // the token's id decides who computes (ffn_gate_tid2eid), the router only how much
  FusedExperts fused = FusedExperts::no;
  std::string_view gate = "gate_proj", up = "up_proj", down = "down_proj";
  std::string_view fused_gate_up = "gate_up_proj", fused_down = "down_proj";

  int shared_inner = 0;  // of an expert that every token passes; 0: none
  bool shared_bias = false;
  std::optional<GateForm> shared_how;  // its own; else that of the others
  bool shared_fused = false;           // HF checkpoints keep its gate and up in one tensor
  bool shared_gated = false;           // it counts as much as the sigmoid of ffn_gate_inp_shexp says
  std::string_view shared_gate = "ffn_gate_shexp", shared_up = "ffn_up_shexp", shared_down = "ffn_down_shexp";

  Rows operator()(Builder& builder, Rows x) const;
  // Of rows that a router of its own inputs has routed: [ids | weights].
  Rows apply(Builder& builder, Rows x, Rows routed) const;
  Rows route(Builder& builder, Rows x) const;
  void add_shared(Builder& b, Rows x, Rows out) const;

 private:
  bool joined() const;
  FusedExperts layout(const Builder& b) const;
  std::string fused_tensor(const Builder& b, std::string_view name) const;
  MatrixPart expert_part(Builder& b, int expert, int outputs, int inputs, std::string_view role,
                         std::string_view name) const;
  MatrixPart apart_part(Builder& b, int expert, int outputs, int inputs, std::string_view name) const;
  MatrixPart stacked_part(Builder& b, int expert, int outputs, int inputs, std::string_view name) const;
  MatrixNeed up_need(Builder& b, int expert, int inputs) const;
  MatrixNeed fused_up(Builder& b, FusedExperts layout, int expert, int inputs) const;
  MatrixNeed down_need(Builder& b, int expert, int outputs) const;
};

}  // namespace espalier
