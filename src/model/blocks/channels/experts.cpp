#include "model/blocks/channels/experts.h"

#include <fmt/format.h>

#include "model/program/builder.h"

namespace espalier {
namespace {

// What an expert's matrix is called: by the family's name, or by Mixtral's where the file has these instead.
std::string_view name_in_file(const Builder& b, const Experts& e, std::string_view name) {
  const auto has = [&](std::string_view one) {
    return b.has_tensor(fmt::format("{}.0.{}.weight", b.name("ffn_exps"), one));
  };
  if (has(name)) return name;
  for (const auto& [own, other] : {std::pair(e.gate, "w1"), std::pair(e.down, "w2"), std::pair(e.up, "w3")})
    if (own == name && has(other)) return other;
  return name;
}

}  // namespace

// Whether one product computes gate and value and joins them.
bool Experts::joined() const {
  const ActivationKind kind = how.activation.kind;
  return gated && how == GateForm{.activation = {kind}} &&
         (kind == ActivationKind::silu || kind == ActivationKind::gelu_tanh);
}

// One expert's matrix: out of a tensor of its own, or a slice of all experts'.
MatrixPart Experts::expert_part(Builder& b, int expert, int outputs, int inputs, std::string_view role,
                                std::string_view name) const {
  MatrixPart part;
  part.outputs = outputs;
  const auto first = std::int64_t{expert} * outputs;
  if (b.is_gguf()) {
    part.tensor = b.name(role) + ".weight";
    part.shape = {router.count, outputs, inputs};
    part.rows.first = first;
    if (b.has(role, ".bias")) {
      part.bias = b.name(role) + ".bias";
      part.bias_shape = {router.count, outputs};
    }
    return part;
  }
  name = name_in_file(b, *this, name);
  part.tensor = fmt::format("{}.{}.{}.weight", b.name("ffn_exps"), expert, name);
  part.shape = {outputs, inputs};
  if (bias) {
    part.bias = fmt::format("{}.{}.{}.bias", b.name("ffn_exps"), expert, name);
    part.bias_shape = {outputs};
  }
  return part;
}

std::string Experts::fused_tensor(const Builder& b, std::string_view name) const {
  const std::string tensor = fmt::format("{}.{}", b.name("ffn_exps"), name);
  return b.has_tensor(tensor + ".weight") ? tensor + ".weight" : tensor;
}

FusedExperts Experts::layout(const Builder& b) const {
  if (b.is_gguf() || b.has_tensor(fmt::format("{}.0.{}.weight", b.name("ffn_exps"), name_in_file(b, *this, down))))
    return FusedExperts::no;
  if (fused == FusedExperts::apart && b.has_tensor(fused_tensor(b, fused_gate_up))) return FusedExperts::rows;
  if (fused != FusedExperts::no) return fused;
  return b.has_tensor(fused_tensor(b, gated ? fused_gate_up : up)) ? FusedExperts::rows : FusedExperts::no;
}

// An expert's matrix out of those of all, one below the other.
MatrixPart Experts::stacked_part(Builder& b, int expert, int outputs, int inputs, std::string_view name) const {
  MatrixPart part;
  part.tensor = fused_tensor(b, name);
  part.outputs = outputs;
  part.transposed = outputs != inner;
  part.shape = {std::int64_t{router.count} * inner, part.transposed ? outputs : inputs};
  (part.transposed ? part.first_input : part.rows.first) = std::int64_t{expert} * inner;
  return part;
}

// An expert's matrix out of those of all, one behind the other.
MatrixPart Experts::apart_part(Builder& b, int expert, int outputs, int inputs, std::string_view name) const {
  MatrixPart part{fused_tensor(b, name), {router.count, outputs, inputs}, outputs};
  part.rows.first = std::int64_t{expert} * outputs;
  return part;
}

// Gate and up of one expert, or its up alone, out of one tensor of all.
MatrixNeed Experts::fused_up(Builder& b, FusedExperts layout, int expert, int inputs) const {
  if (layout == FusedExperts::apart)
    return {{apart_part(b, expert, inner, inputs, gate), apart_part(b, expert, inner, inputs, up)}, inputs, joined()};
  if (layout == FusedExperts::stacked)
    return {
        {stacked_part(b, expert, inner, inputs, gate), stacked_part(b, expert, inner, inputs, up)}, inputs, joined()};
  const bool turned = layout == FusedExperts::turned || layout == FusedExperts::by_turns;
  if (!gated) {
    MatrixPart part{fused_tensor(b, up), {router.count, inner, inputs}, inner};
    part.rows.first = std::int64_t{expert} * inner;
    return {{part}, inputs};
  }
  const std::string tensor = fmt::format("{}.{}", b.name("ffn_exps"), fused_gate_up);
  MatrixPart gate_part;
  gate_part.tensor = fused_tensor(b, fused_gate_up);
  gate_part.outputs = inner;
  gate_part.shape = turned ? Shape{router.count, inputs, 2 * inner} : Shape{router.count, 2 * inner, inputs};
  gate_part.transposed = turned;
  const std::int64_t all = std::int64_t{expert} * 2 * inner;
  gate_part.first_input = turned ? std::int64_t{expert} * inputs : 0;
  gate_part.first_bias = all;
  if (bias) {
    gate_part.bias = tensor + "_bias";
    gate_part.bias_shape = {router.count, 2 * inner};
  }
  MatrixPart up_part = gate_part;
  const std::int64_t first = turned ? 0 : all;
  const bool by_turns = layout == FusedExperts::by_turns;
  gate_part.rows = by_turns ? RowOrder{first, 1, 2} : RowOrder{first};
  up_part.rows = by_turns ? RowOrder{first + 1, 1, 2} : RowOrder{first + inner};
  return {{gate_part, up_part}, inputs, joined()};
}

MatrixNeed Experts::up_need(Builder& b, int expert, int inputs) const {
  if (const FusedExperts how_stored = layout(b); !b.is_gguf() && how_stored != FusedExperts::no)
    return fused_up(b, how_stored, expert, inputs);
  if (b.is_gguf() && gated && b.has("ffn_gate_up_exps")) {
    MatrixPart first = expert_part(b, expert, 2 * inner, inputs, "ffn_gate_up_exps", ""), second = first;
    first.outputs = second.outputs = inner;
    second.rows.first += inner;
    return {{first, second}, inputs, joined()};
  }
  MatrixNeed need{{}, inputs, joined()};
  if (gated) need.parts.push_back(expert_part(b, expert, inner, inputs, "ffn_gate_exps", gate));
  need.parts.push_back(expert_part(b, expert, inner, inputs, "ffn_up_exps", up));
  return need;
}

MatrixNeed Experts::down_need(Builder& b, int expert, int outputs) const {
  const FusedExperts how_stored = layout(b);
  if (b.is_gguf() || how_stored == FusedExperts::no)
    return {{expert_part(b, expert, outputs, inner, "ffn_down_exps", down)}, inner};
  if (how_stored == FusedExperts::apart) return {{apart_part(b, expert, outputs, inner, down)}, inner};
  if (how_stored == FusedExperts::stacked) return {{stacked_part(b, expert, outputs, inner, down)}, inner};
  const std::string tensor = fmt::format("{}.{}", b.name("ffn_exps"), fused_down);
  MatrixPart part;
  part.tensor = fused_tensor(b, fused_down);
  part.outputs = outputs;
  part.transposed = how_stored != FusedExperts::rows;
  part.shape = part.transposed ? Shape{router.count, inner, outputs} : Shape{router.count, outputs, inner};
  if (part.transposed)
    part.first_input = std::int64_t{expert} * inner;
  else
    part.rows.first = std::int64_t{expert} * outputs;
  part.first_bias = std::int64_t{expert} * outputs;
  if (!sum_bias.empty()) {
    part.bias = b.name(sum_bias);
    part.bias_shape = {outputs};
    part.same_bias = true;
  }
  if (bias) {
    part.bias = tensor + "_bias";
    part.bias_shape = {router.count, outputs};
  }
  return {{part}, inner};
}

Rows Experts::route(Builder& b, Rows x) const {
  const Rows logits = b.matmul(x, {b.matrix("ffn_gate_inp", router.count + passing, x.width, router_bias)}, true);
  RouteOp op{router, logits, b.buffer(2 * router.chosen)};
  op.how.count += passing;
  if (by_token)
    op.by_token =
        b.table(b.name("ffn_gate_tid2eid") + (b.is_gguf() ? ".weight" : ""), {b.spec().vocabulary, router.chosen});
  else if (correction && (!b.is_gguf() || b.has("exp_probs_b", ".bias")))
    op.how.correction = b.vector("exp_probs_b", {op.how.count}, b.is_gguf() ? ".bias" : "");
  b.emit(op);
  return op.out;
}

namespace {

MatrixNeed seldom(MatrixNeed need) {
  need.seldom = true;
  return need;
}

}  // namespace

Rows Experts::apply(Builder& b, Rows x, Rows routed) const {
  ExpertsOp op = {};
  op.count = router.count;
  op.chosen = router.chosen;
  op.inner = inner;
  op.passing = passing;
  op.gated = gated;
  op.gate = how;
  op.weight_inputs = weight_inputs;
  op.in = x;
  op.routed = routed;
  op.out = b.buffer(x.width);
  for (int e = 0; e < router.count; ++e) {
    const MatrixId id = b.need(seldom(up_need(b, e, x.width)));
    if (e == 0) op.gate_up = id;
  }
  for (int e = 0; e < router.count; ++e) {
    const MatrixId id = b.need(seldom(down_need(b, e, x.width)));
    if (e == 0) op.down = id;
  }
  b.emit(op);
  return op.out;
}

void Experts::add_shared(Builder& b, Rows x, Rows out) const {
  Mlp mlp;
  mlp.inner = b.outputs_of(shared_up, shared_inner);
  mlp.how = shared_how.value_or(how);
  mlp.fused = shared_fused;
  mlp.gate_up = "ffn_gate_up_shexp";
  mlp.gated = gated;
  mlp.bias = shared_bias;
  mlp.gate = shared_gate;
  mlp.up = shared_up;
  mlp.down = shared_down;
  const Rows shared = mlp(b, x);
  CombineOp op{.in = shared, .out = out, .add = true};
  if (shared_gated) {
    MatrixPart gate_part = b.matrix("ffn_gate_inp_shexp", 1, x.width);
    op.gate = b.matmul(x, {std::move(gate_part)});
    op.gate_activation = ActivationKind::sigmoid;
  }
  b.emit(op);
}

Rows Experts::operator()(Builder& b, Rows x) const {
  const Rows out = apply(b, x, route(b, x));
  if (shared_inner > 0) add_shared(b, x, out);
  return out;
}

}  // namespace espalier
