// HRM-Text: two stacks of layers over two running rows, low and high. A cycle runs the low stack some times and then
// the high one, each time over the sum of both rows, with the same tensors but keys and values of its own; its normed
// result replaces the row. Texts are read from left to right; a prompt that reads ahead (prefix_lm) is what only
// training has. Source: Hierarchical Reasoning Model (arXiv 2506.21734); transformers' HrmTextModel.
#include <fmt/format.h>

#include "model/arch/families.h"
#include "model/program/builder.h"

namespace espalier {
namespace {

// One layer of a run of a stack, by its place in it.
struct StackLayer {
  Attention attention;
  Mlp mlp;
  Names names;
  int place = 0, stack = 0;  // stack: how many layers it has
  bool high = false;

  Rows operator()(Builder& b, Rows x) const {
    const Norm& norm = b.spec().norm;
    if (place == 0) {
      x = b.copy(b.named().get("low"));
      b.add(x, b.named().get("high"));
    }
    b.read_tensors_of(b.is_gguf() && high ? stack + place : place, &names);
    b.add(x, attention(b, b.norm(x, norm, "attn_norm")));
    b.add(x, mlp(b, b.norm(x, norm, "ffn_norm")));
    if (place + 1 < stack) return x;
    const Rows row = b.named().get(high ? "high" : "low");
    b.emit(NormOp{.kind = norm.kind, .in = x, .out = row, .eps = norm.eps});
    return row;
  }
};

}  // namespace

ModelSpec hrm_text(const Fields& f) {
  const int high = static_cast<int>(f.integer_or({"H_cycles", "hrm.h_cycles"}, 2, 1, 64)),
            low = static_cast<int>(f.integer_or({"L_cycles", "hrm.l_cycles"}, 3, 1, 64));
  const FieldName of_stack{"num_layers_per_stack", "hrm.layers_per_stack"};
  StackLayer layer;
  layer.stack = f.has(of_stack) ? f.count(of_stack, ConfigLimits::layers) : layer_count(f);
  layer.attention = grouped_attention(f);
  layer.attention.qkv_bias = layer.attention.out_bias = f.flag_or({"attention_bias"}, false);
  layer.attention.gate = Attention::Gate::own;
  layer.attention.fused = FusedQkv::behind_gate;
  layer.mlp = gated_mlp(f);
  layer.mlp.bias = f.flag_or({"mlp_bias"}, false);
  layer.mlp.fused = true;
  layer.names.hf = {{"attn_gqkv", "attn.gqkv_proj"}, {"attn_output", "self_attn.o_proj|attn.o_proj"}};
  const std::int64_t all = std::int64_t{layer.stack} * high * (low + 1);
  if (all > ConfigLimits::layers)
    f.refuse(of_stack, fmt::format("the cycles run {} layers, but at most {} are possible", all, ConfigLimits::layers));
  ModelSpec spec = decoder(
      f,
      [&](int i) {
        layer.place = i % layer.stack;
        layer.high = i / layer.stack % (low + 1) == low;
        layer.names.layer_prefix = layer.high ? "model.H_module.layers.{}." : "model.L_module.layers.{}.";
        Layer made;
        made.body = layer;
        return made;
      },
      static_cast<int>(std::min(all, ConfigLimits::layers)));
  spec.norm.gain = false;
  spec.final_norm = false;
  const double otherwise =
      f.is_gguf() ? 1 : 1 / f.number_or({"initializer_range"}, 0.02, {.low = 0, .above_low = true});
  spec.embedding_scale = static_cast<float>(f.number_or({"embedding_scale", "embedding_scale"}, otherwise));
  spec.enter = [](Builder& b, Rows x) {
    const Rows start = b.buffer(x.width);
    b.emit(ConstantOp{b.vector("hrm.z_l_init", {x.width}, ""), start});
    b.named().put("low", start);
    b.named().put("high", x);
    return x;
  };
  spec.names.hf = {{"hrm.z_l_init", "model.z_L_init"}};
  return spec;
}

}  // namespace espalier
