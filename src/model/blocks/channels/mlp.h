// mlp.h: the multilayer perceptron of a layer, gated or plain.
//
// Roles: ffn_gate, ffn_up, ffn_down; or ffn_gate_up, the gate's rows before the others. Keeps nothing.
#pragma once

#include <optional>
#include <string_view>

#include "model/blocks/residual/adapter.h"
#include "model/spec.h"

namespace espalier {

// The block, with its activation or gate.
struct Mlp {
  int inner = 0;
  GateForm how = {};  // a plain one has its activation alone
  bool gated = true;
  bool fused = false;                    // HF checkpoints keep gate and up in one tensor
  bool up_first = false;                 // and up's rows stand before the gate's
  bool bias = false, down_bias = false;  // of all; of `down` alone
  bool ranged = false;                   // all products of a gated one have ranges (ranged_linear.h)
  std::optional<float> cut_off = {};     // a gate counts only by what it is so many deviations above its row's mean
  float gate_scale = 1.0f;               // of a gated one's gate, before its activation
  std::optional<Adapter> adapter = {};   // of a fused one's gate and up together
  bool inner_norm = false;               // what goes into `down` is normed by ffn_sub_norm
  bool xielu = false;                    // the activation is xIELU, whose shape the checkpoint has learned
  std::string_view gate = "ffn_gate", up = "ffn_up", down = "ffn_down", gate_up = "ffn_gate_up";

  Rows operator()(Builder& builder, Rows x) const;

 private:
  Rows inside(Builder& b, Rows x) const;
};

}  // namespace espalier
