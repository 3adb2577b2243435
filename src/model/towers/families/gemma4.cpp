// Gemma 4: pictures of any size with positions by two tables, heads rotated half by width and half by height; pooled to a few
// rows, normed and projected. Source: Gemma 4 model cards; transformers' Gemma4.
#include <cmath>

#include "model/arch/parts.h"
#include "model/program/builder.h"
#include "model/towers/families/families.h"

namespace espalier {
namespace {

Names gemma4_tower_names() {
  Names names;
  names.layer_prefix = "vision_tower.encoder.layers.{}.";
  names.hf = {{"post_attention_norm", "post_attention_layernorm"},
              {"ffn_norm", "pre_feedforward_layernorm"},
              {"post_ffw_norm", "post_feedforward_layernorm"},
              {"attn_q", "self_attn.q_proj.linear"},
              {"attn_k", "self_attn.k_proj.linear"},
              {"attn_v", "self_attn.v_proj.linear"},
              {"attn_output", "self_attn.o_proj.linear"},
              {"ffn_gate", "mlp.gate_proj.linear"},
              {"ffn_up", "mlp.up_proj.linear"},
              {"ffn_down", "mlp.down_proj.linear"},
              {"v.patch_embd", "vision_tower.patch_embedder.input_proj"},
              {"v.position_embd", "vision_tower.patch_embedder.position_embedding_table"},
              {"v.std_bias", "vision_tower.std_bias"},
              {"v.std_scale", "vision_tower.std_scale"},
              {"mm.input", "embed_vision.embedding_projection"}};
  return names;
}

// A row adds those of its column and of its line, which follow all columns'.
TowerLayout gemma4_layout(std::span<const TowerPicture> pictures, int positions, int pooled) {
  TowerLayout layout = grid_layout(pictures, {.merge = pooled});
  BlendedRows& blend = layout.blends.emplace_back(BlendedRows{2, {}, {}});
  for (const AxisPositions& at : layout.axes)
    for (const std::int32_t row : {std::min(at[2], positions - 1), positions + std::min(at[1], positions - 1)}) {
      blend.rows.push_back(row);
      blend.weights.push_back(1.0f);
    }
  return layout;
}

Attention gemma4_tower_attention(const TowerFields& f, const VisionNumbers& n) {
  Attention a = tower_attention(n);
  a.qkv_bias = a.out_bias = f.vision.flag_or({"attention_bias"}, false);
  a.head_dim = a.value_dim =
      std::max(4, f.vision.count_or({"head_dim"}, n.head_dim(), ConfigLimits::value_dim) / 4 * 4);
  a.kv_heads = std::max(1, f.vision.count_or({"num_key_value_heads"}, n.heads, n.heads));
  if (n.heads % a.kv_heads != 0)
    f.vision.refuse({"num_key_value_heads"}, "the KV heads of a tower must divide its heads");
  a.scale = 1.0f;
  a.head_norm = Attention::HeadNorm::each;
  a.query_norm.eps = n.eps;
  a.value_norm = a.query_norm;
  a.ranged = f.vision.flag_or({"use_clipped_linears"}, false);
  const RopeSpec both = plane_rope(a.head_dim, rope_theta(f.vision, 100));
  const auto half = static_cast<std::ptrdiff_t>(both.axes.size() / 2);
  a.rope.emplace().inverse_frequency.assign(both.inverse_frequency.begin(), both.inverse_frequency.begin() + half);
  a.next_rope = a.rope;
  a.rope->axes.assign(static_cast<std::size_t>(half), 2);
  a.next_rope->axes.assign(static_cast<std::size_t>(half), 1);
  return a;
}

}  // namespace

TowerSpec gemma4_tower(const TowerFields& f) {
  const VisionNumbers n = vision_numbers(f.vision, {.layers = 16, .activation = "gelu_pytorch_tanh"});
  TowerSpec spec = tower_of(f, n, NormOp::Kind::rms);
  const int pooled = spec.merge = static_cast<int>(f.vision.integer_or({"pooling_kernel_size"}, 3, 1, 64));
  spec.body.names = gemma4_tower_names();
  Mlp mlp{.inner = n.inner};
  mlp.how.activation.kind = n.activation;
  mlp.ranged = f.vision.flag_or({"use_clipped_linears"}, false);
  spec.body.layers.assign(static_cast<std::size_t>(n.layers), sandwich(gemma4_tower_attention(f, n), mlp));
  const int positions = std::max(1, f.vision.count_or({"position_embedding_size"}, 10240, 1 << 20));
  spec.enter = [=, width = spec.patch_width](Builder& b) {
    const Rows patches = given_patches(b, width);  // 0 .. 1 becomes -1 .. 1
    b.scale(patches, 2.0f);
    b.emit(ConstantOp{b.constant(std::vector<float>(static_cast<std::size_t>(width), -1.0f)), patches, true});
    const Rows x = b.matmul(patches, {b.matrix("v.patch_embd", n.hidden, width)});
    b.emit(BlendRowsOp{b.vector("v.position_embd", {2, positions, n.hidden}), 0, x});
    return x;
  };
  const bool standard = f.vision.flag_or({"standardize"}, false);
  spec.leave = [=, width = spec.features_width](Builder& b, Rows x) {
    x = gather(b, x, 0, pooled * pooled, true);
    b.scale(x, std::sqrt(static_cast<float>(n.hidden)));
    if (standard) {
      const VectorId bias = b.vector("v.std_bias", {n.hidden});
      for (float& value : b.values(bias)) value = -value;
      b.emit(ConstantOp{bias, x, true});
      b.emit(CombineOp{.in = x, .out = x, .by = b.vector("v.std_scale", {n.hidden})});
    }
    x = b.norm(x, {.eps = n.eps, .gain = false}, "");
    b.emit(GiveOp{b.matmul(x, {b.matrix("mm.input", width, n.hidden)})});
  };
  spec.layout = [=](std::span<const TowerPicture> pictures) { return gemma4_layout(pictures, positions, pooled); };
  return spec;
}

}  // namespace espalier
